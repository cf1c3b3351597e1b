"""Every test of this room writes its cache into a directory of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.ontology.ontology_oracle import PREFIXES

from kbn.ontology import Ontology


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KBN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Ontology]:
    """Load Turtle text; the usual prefixes are declared, `:` is `urn:t#`."""

    def loaded(text: str, reasoning: str = "rdfs", **options: object) -> Ontology:
        path = tmp_path / "given.ttl"
        path.write_text(PREFIXES + text, encoding="utf-8")
        return Ontology.load(path, reasoning, cache=False, **options)  # type: ignore[arg-type]

    return loaded
