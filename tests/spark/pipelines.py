"""A small pipeline in a folder: what the tests of pipelines start from."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from kbn import data

CATEGORIES = ("Technology", "Podcasting", "Gadgets", "Medicine", "Music", "Tecnology")
WORDS = ("python", "audio", "history")

SUBSCRIPTIONS = """\
prefix p: <https://kbn.example/ontology/podcast#>
ann: category #>/@> {p:Technology}
bob: category #>/@> {podcast:ScienceAndMedicine} and keywords #> {"python"}
cyd: duration <= 1200
dee: category #>/@> {podcast:Nonsense}
eve: keywords #> {"audio"} or duration > 3000
"""

GOOD = ("ann", "bob", "cyd", "eve")

PIPELINE = """\
name: test
ontology: podcast.ttl
notifications:
  - {path: "posts/*.jsonl", format: json, mapping: mapping.yaml}
subscriptions: wants.txt
brokers: [top, left, right]
deliveries: log.csv
output: out
"""

MAPPING = """\
id: id
time: at
attributes:
  category: {as: class}
  keywords: {}
  duration: {as: integer}
"""


def write_pipeline(folder: Path) -> Path:
    """Everything but the notifications; the YAML file."""
    (folder / "posts").mkdir(parents=True)
    shutil.copyfile(data.path("podcast"), folder / "podcast.ttl")
    (folder / "wants.txt").write_text(SUBSCRIPTIONS, encoding="utf-8")
    (folder / "mapping.yaml").write_text(MAPPING, encoding="utf-8")
    log = "notification,subscriber,broker,hops\nn1,ann,left,1\nn2,ann,left,3\nn1,cyd,top,0\n"
    (folder / "log.csv").write_text(log, encoding="utf-8")
    path = folder / "pipeline.yaml"
    path.write_text(PIPELINE, encoding="utf-8")
    return path


def write_posts(path: Path, first: int, count: int, seed: int) -> None:
    """A file of records, the last of which is none."""
    rng = random.Random(f"{seed} {first}")
    lines = []
    for number in range(first, first + count):
        record = {
            "id": f"n{number}",
            "at": f"2026-11-14T{rng.randrange(24):02d}:00:00Z",
            "category": rng.sample(CATEGORIES, 2),
            "keywords": rng.sample(WORDS, rng.randrange(1, 3)),
            "duration": rng.randrange(300, 4000),
        }
        lines.append(json.dumps(record))
    path.write_text("\n".join([*lines, '{"id": "broken", "duration": "long"}']), encoding="utf-8")
