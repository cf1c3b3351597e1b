"""Sources: whatever happens in the folder, every line is read once, or somebody is told."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kbn.errors import InvalidInputError, KbnError
from kbn.spark.io.slices import Slice, lines, lines_before, pieces
from kbn.spark.io.sources import File, FilesSource, Offset, local_path


class FolderSource(FilesSource):
    """Files with a clock that always goes on: on a quick disk two changes may bear one time."""

    def __init__(self, directory: Path, changed: dict[str, int]) -> None:
        super().__init__(directory)
        self.changed = changed

    def listing(self) -> list[File]:
        return [File(f.name, f.size, self.changed[f.name]) for f in super().listing()]


class AnythingHappensInAFolder(RuleBasedStateMachine):
    """Files come, early and late, and grow; readers plan, crash, read again and restart."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.changed: dict[str, int] = {}
        self.finished: set[str] = set()
        self.written: list[bytes] = []
        self.read: list[bytes] = []
        self.position = Offset()
        self.planned: tuple[Offset, list[bytes]] | None = None
        self.restart()

    def teardown(self) -> None:
        try:
            self.check_everything_is_read_once()
        finally:
            shutil.rmtree(self.directory)

    @rule()
    def restart(self) -> None:
        self.source = FolderSource(self.directory, self.changed)

    @rule(number=st.integers(0, 99), rows=st.integers(0, 4), ended=st.booleans())
    def drop_a_file(self, number: int, rows: int, ended: bool) -> None:
        name = f"{number:02d}.jsonl"
        if name in self.changed:
            return
        self._append(name, rows, ended)
        if not ended:
            self.finished.add(name)
        self.finished |= {other for other in self.changed if other < max(self.changed)}

    @rule(rows=st.integers(1, 3))
    def the_last_file_grows(self, rows: int) -> None:
        last = max(self.changed, default="")
        if last and last not in self.finished:
            self._append(last, rows, True)

    def _append(self, name: str, rows: int, ended: bool) -> None:
        new = [b"line %d" % (len(self.written) + n) for n in range(rows)]
        self.written += new
        with open(self.directory / name, "ab") as stream:
            stream.write(b"\n".join(new) + (b"\n" if ended and new else b""))
        self.changed[name] = 1 + max(self.changed.values(), default=0)

    @rule(rows_max=st.none() | st.integers(1, 5))
    @precondition(lambda self: self.planned is None)
    def plan(self, rows_max: int | None) -> None:
        end = self.source.latest(self.position, rows_max)
        # What Spark keeps of a position is its JSON.
        assert Offset.from_json(json.loads(json.dumps(end.to_json()))) == end
        self.planned = (end, self._lines(end))

    @rule()
    @precondition(lambda self: self.planned is not None)
    def run_it_again(self) -> None:
        assert self.planned is not None
        end, found = self.planned
        assert self._lines(end) == found

    @rule()
    @precondition(lambda self: self.planned is not None)
    def commit(self) -> None:
        assert self.planned is not None
        self.position, found = self.planned
        self.read += found
        self.planned = None

    def _lines(self, end: Offset) -> list[bytes]:
        parts = self.source.slices(self.position, end)
        return [line for part in parts for _, line in lines(part) if line]

    @invariant()
    def nothing_is_read_twice(self) -> None:
        assert len(set(self.read)) == len(self.read)

    def check_everything_is_read_once(self) -> None:
        if self.planned is not None:
            self.commit()
        self.drop_a_file(99, 1, True)
        (self.directory / "99a.jsonl").touch()
        self.changed["99a.jsonl"] = 10**6
        for _ in range(2):
            self.plan(None)
            self.commit()
        assert sorted(self.read) == sorted(self.written)


TestAnythingHappensInAFolder = AnythingHappensInAFolder.TestCase


def put(directory: Path, name: str, text: str) -> None:
    (directory / ".beside").write_text(text)
    (directory / ".beside").rename(directory / name)


def test_removing_what_was_read_changes_nothing(tmp_path: Path) -> None:
    for name in "abc":
        put(tmp_path, name, "1\n2\n")
    end = FilesSource(tmp_path).latest(Offset(), None)
    (tmp_path / "a").unlink()
    source = FilesSource(tmp_path)
    assert source.latest(end, None) == end
    (tmp_path / "b").unlink()
    assert source.latest(end, None) == end
    put(tmp_path, "d", "5\n")
    after = source.latest(end, None)
    assert (after.file, after.bytes, after.files) == ("d", end.bytes + 2, 1)


def test_a_file_that_grows_after_it_was_read_is_refused_before_and_after_a_restart(
    tmp_path: Path,
) -> None:
    for name in "abc":
        put(tmp_path, name, "1\n")
    source = FilesSource(tmp_path)
    end = source.latest(Offset(), None)
    with open(tmp_path / "a", "a") as stream:
        stream.write("2\n")
    for reader in (source, FilesSource(tmp_path)):
        with pytest.raises(KbnError, match="sorts last") as told:
            reader.latest(end, None)
        assert "'c'" in str(told.value)


def test_a_removed_and_a_late_file_at_once_are_told_apart_while_the_reader_lives(
    tmp_path: Path,
) -> None:
    for name in "bcd":
        put(tmp_path, name, "1\n")
    source = FilesSource(tmp_path)
    end = source.latest(Offset(), None)
    (tmp_path / "b").unlink()
    put(tmp_path, "a", "2\n")
    with pytest.raises(KbnError, match="removed but not changed"):
        FilesSource(tmp_path).latest(end, None)
    assert source.latest(end, None).late == {"a": 2}


def test_a_file_that_shrinks_is_refused(tmp_path: Path) -> None:
    put(tmp_path, "a", "1\n2\n")
    source = FilesSource(tmp_path)
    end = source.latest(Offset(), None)
    put(tmp_path, "a", "1\n")
    with pytest.raises(KbnError, match="not shrink"):
        source.latest(end, None)


def test_a_batch_whose_file_is_gone_is_refused(tmp_path: Path) -> None:
    for name in "ab":
        put(tmp_path, name, "1\n")
    source = FilesSource(tmp_path)
    end = source.latest(Offset(), None)
    (tmp_path / "a").unlink()
    with pytest.raises(KbnError, match="Put back"):
        source.slices(Offset(), end)


def test_an_unfinished_last_line_waits(tmp_path: Path) -> None:
    put(tmp_path, "a", "1\n2")
    source = FilesSource(tmp_path)
    end = source.latest(Offset(), None)
    assert end.at == 2
    with open(tmp_path / "a", "a") as stream:
        stream.write("2\n")
    after = source.latest(end, None)
    [part] = source.slices(end, after)
    assert [line for _, line in lines(part)] == [b"22"]


def test_held_still_the_source_goes_no_further(tmp_path: Path) -> None:
    put(tmp_path, "b", "1\n2\n")
    source = FilesSource(tmp_path)
    source.hold()
    put(tmp_path, "a", "3\n")
    put(tmp_path, "c", "4\n")
    one = source.latest(Offset(), 1)
    two = source.latest(one, 1)
    assert (one.at, two.at, two.file) == (2, 4, "b")
    assert source.latest(two, 1) == two
    assert FilesSource(tmp_path).latest(two, None).bytes == 8


def test_hidden_files_folders_and_other_patterns_do_not_count(tmp_path: Path) -> None:
    for name in ("a.jsonl", ".b.jsonl", "_c.jsonl", "d.csv"):
        put(tmp_path, name, "1\n")
    (tmp_path / "folder").mkdir()
    assert [file.name for file in FilesSource(tmp_path, "*.jsonl").listing()] == ["a.jsonl"]
    assert [file.name for file in FilesSource.at(tmp_path / "d.csv").listing()] == ["d.csv"]


def test_paths_are_absolute_and_local(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert local_path("in/box") == str(tmp_path / "in" / "box")
    assert local_path("a/b:c") == str(tmp_path / "a" / "b:c")
    assert local_path("file:///a/b") == local_path("file:/a/b") == "/a/b"
    with pytest.raises(InvalidInputError, match="mounted, not s3a:"):
        local_path("s3a://bucket/x")


def test_an_offset_of_another_source_is_told() -> None:
    with pytest.raises(KbnError, match="another source"):
        Offset.from_json({"offset": 12})


def test_a_missing_folder_is_invalid(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="No such file"):
        FilesSource(tmp_path / "none").open()


def test_pieces_are_cut_at_line_ends_and_small_files_go_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kbn.spark.io.slices.PIECE_BYTES_MIN", 100)
    whole = [b"%d" % n for n in range(300)]
    (tmp_path / "big").write_bytes(b"\n".join(whole))
    slices = [Slice(str(tmp_path / "big"), 0, (tmp_path / "big").stat().st_size)]
    for n in range(40):
        (tmp_path / f"small{n:02d}").write_bytes(b"x%d\n" % n)
        slices.append(Slice(str(tmp_path / f"small{n:02d}"), 0, 3 + (n > 9)))
        whole.append(b"x%d" % n)
    portions = pieces(slices, 13)
    assert [line for portion in portions for part in portion for _, line in lines(part)] == whole
    assert 10 < len(portions) < 15
    first, second = portions[0][0], portions[1][0]
    assert lines_before(first) == 0
    assert lines_before(second) == len(list(lines(first)))
