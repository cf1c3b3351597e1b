"""What a release of Spark lacks is told by name, where it is asked for."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from kbn.errors import KbnError
from kbn.spark import releases
from kbn.spark.io.data_source import KbnSource

ROOT = Path(__file__).parent.parent.parent
IDS = StructType([StructField("id", StringType())])


@pytest.mark.parametrize("old", ["4.0.1", "4.1.4"])
def test_a_release_that_reads_no_streams_says_so(
    old: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(releases, "RELEASE", releases.release_of(old))
    source = KbnSource({"path": str(tmp_path)})
    assert source.reader(source.schema()) is not None
    with pytest.raises(KbnError, match=r"as a stream needs Spark 4\.2 or newer, and this is"):
        source.streamReader(source.schema())


def test_a_release_that_writes_no_streams_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(releases, "RELEASE", (4, 0))
    sink = KbnSource({"path": str(tmp_path)})
    assert sink.writer(IDS, overwrite=False) is not None
    with pytest.raises(KbnError, match=r"writing a stream .* needs Spark 4\.1 or newer.*match_st"):
        sink.streamWriter(IDS, overwrite=False)


def test_times_are_in_utc_on_every_release() -> None:
    schema = releases.arrow_schema(StructType([StructField("time", TimestampType())]))
    assert schema.field("time").type == pa.timestamp("us", "UTC")


def test_every_release_has_constraints_that_the_ranges_allow() -> None:
    """The lowest versions that were tested are the lower bounds of pyproject.toml."""
    names = sorted(path.name for path in (ROOT / "constraints").glob("*.txt"))
    assert names == [f"spark-4.{minor}.txt" for minor in range(4)]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    oldest = (ROOT / "constraints" / names[0]).read_text(encoding="utf-8")
    for name in ("numpy", "numba", "pyarrow", "pandas", "scipy"):
        (bound,) = re.findall(rf'"{name}>=([\d.]+),', project)
        (pinned,) = re.findall(rf"^{name}==([\d.]+)$", oldest, re.MULTILINE)
        assert pinned.startswith(bound + "."), f"{name} was tested from {pinned} on, not {bound}"
