"""A damaged store: whatever byte is damaged, it is found or it does no harm."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from tests.broker.storage.stores import ANN, Contents, contents, copy_files, fill, small_file

from kbn.broker.sqlite_store import SqliteStore
from kbn.broker.storage import StoreDamagedError, check, repair
from kbn.broker.storage.commit_mark import SUFFIX
from kbn.broker.store import StoreError

Files = tuple[Path, Contents]


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """A store that was closed, and what is in it."""
    path = tmp_path_factory.mktemp("closed") / "broker.store"
    small_file(path)
    store = SqliteStore(path)
    fill(store)
    expected = contents(store)
    store.close()
    return path, expected


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Files:
    """The files of a store that was not closed: its newest commits are in the log."""
    path = tmp_path_factory.mktemp("killed") / "broker.store"
    small_file(path)
    store = SqliteStore(path)
    fill(store)
    expected = contents(store)
    left = path.parent / "left" / "broker.store"
    copy_files(path, left)
    store.close()
    return left, expected


def flipped(path: Path, end: str, offset: int) -> None:
    """Flip a bit of a byte, another for each byte."""
    with open(f"{path}{end}", "r+b") as file:
        file.seek(offset)
        (byte,) = file.read(1)
        file.seek(offset)
        file.write(bytes([byte ^ 1 << offset * 5 % 8]))


def outcome(path: Path, expected: Contents) -> str:
    """What becomes of a damaged store: refused, or opened with all that was in it."""
    try:
        store = SqliteStore(path)
    except StoreError:
        return "found"
    try:
        assert contents(store) == expected, "something was lost, and nobody was told"
    finally:
        store.close()
    return "harmless"


def damaged_everywhere(files: Files, end: str, work: Path, step: int, first: int) -> Counter[str]:
    path, expected = files
    counts: Counter[str] = Counter()
    for offset in range(first, os.path.getsize(f"{path}{end}"), step):
        copy_files(path, work)
        flipped(work, end, offset)
        try:
            counts[outcome(work, expected)] += 1
        except Exception as error:
            raise AssertionError(f"byte {offset} of {end or 'the file'}") from error
    return counts


KINDS = [("closed", ""), ("killed", ""), ("killed", "-wal"), ("killed", SUFFIX)]


@pytest.mark.parametrize(("state", "end"), KINDS)
def test_a_damaged_byte_is_found_or_does_no_harm(
    state: str, end: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    files = request.getfixturevalue(state)
    step = 1 if end == SUFFIX else 37
    counts = damaged_everywhere(files, end, tmp_path / "broker.store", step, 0)
    assert counts["found"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize(("state", "end"), KINDS[:1] + KINDS[2:3])
def test_so_is_every_other_byte(
    state: str, end: str, part: int, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    files = request.getfixturevalue(state)
    assert damaged_everywhere(files, end, tmp_path / "broker.store", 4, part)["found"] > 0


@pytest.mark.parametrize(("state", "end"), KINDS[:3])
def test_a_page_of_zeros_and_a_file_cut_short_are_found_or_do_no_harm(
    state: str, end: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path, expected = request.getfixturevalue(state)
    work = tmp_path / "broker.store"
    whole = Path(f"{path}{end}").read_bytes()
    for start in range(0, len(whole), 512):
        for damaged in (whole[:start] + bytes(512) + whole[start + 512 :], whole[:start]):
            copy_files(path, work)
            Path(f"{work}{end}").write_bytes(damaged)
            outcome(work, expected)


def test_a_store_without_its_log_is_found(killed: Files, tmp_path: Path) -> None:
    path, _ = killed
    copy_files(path, tmp_path / "broker.store")
    os.remove(tmp_path / "broker.store-wal")
    with pytest.raises(StoreDamagedError, match=r"commits: the newest \d+ of \d+ are lost"):
        SqliteStore(tmp_path / "broker.store")


def test_a_log_that_lacks_its_last_commit_is_found(killed: Files, tmp_path: Path) -> None:
    path, _ = killed
    copy_files(path, tmp_path / "broker.store")
    log = tmp_path / "broker.store-wal"
    os.truncate(log, os.path.getsize(log) - 1)
    with pytest.raises(StoreDamagedError, match="the newest 1 of"):
        SqliteStore(tmp_path / "broker.store")


def test_a_store_that_was_not_closed_is_not_taken_without_its_mark(
    killed: Files, tmp_path: Path
) -> None:
    path, _ = killed
    copy_files(path, tmp_path / "broker.store")
    os.remove(tmp_path / f"broker.store{SUFFIX}")
    with pytest.raises(StoreDamagedError, match=r"its mark .* is not there"):
        SqliteStore(tmp_path / "broker.store")


def test_nor_is_a_store_that_was_copied_while_a_broker_had_it(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "broker.store")
    fill(store)
    (tmp_path / "copy").write_bytes((tmp_path / "broker.store").read_bytes())
    store.close()
    with pytest.raises(StoreDamagedError, match="it was not closed"):
        SqliteStore(tmp_path / "copy")


def test_a_closed_store_needs_nothing_beside_it(closed: Files, tmp_path: Path) -> None:
    path, expected = closed
    copy_files(path, tmp_path / "broker.store")
    os.remove(tmp_path / f"broker.store{SUFFIX}")
    assert outcome(tmp_path / "broker.store", expected) == "harmless"


def test_an_older_copy_in_the_place_of_a_store_is_found(closed: Files, tmp_path: Path) -> None:
    path, _ = closed
    work = tmp_path / "broker.store"
    copy_files(path, work)
    older = work.read_bytes()
    store = SqliteStore(work)
    store.ack(ANN, 3)
    store.commit()
    store.close()
    work.write_bytes(older)
    with pytest.raises(StoreDamagedError, match="commits: the newest"):
        SqliteStore(work)


def test_a_store_that_is_gone_is_not_begun_anew(closed: Files, tmp_path: Path) -> None:
    path, _ = closed
    copy_files(path, tmp_path / "broker.store")
    os.remove(tmp_path / "broker.store")
    with pytest.raises(StoreError, match="the store is gone"):
        SqliteStore(tmp_path / "broker.store")


def test_a_row_that_an_old_page_brings_back_is_found(tmp_path: Path) -> None:
    """A write that the disk has lost: every row is whole, and some are not the newest."""
    path = tmp_path / "broker.store"
    store = SqliteStore(path)
    store.mark("received/hub", b"1")
    store.commit()
    store.close()
    before = path.read_bytes()
    store = SqliteStore(path)
    store.mark("received/hub", b"2")
    store.commit()
    store.close()
    after = path.read_bytes()
    place = after.index(b"received/hub2")
    page = place - place % 4096
    path.write_bytes(after[:page] + before[page : page + 4096] + after[page + 4096 :])
    with pytest.raises(StoreDamagedError, match="mark: not the rows written"):
        SqliteStore(path)


def test_a_check_changes_nothing(closed: Files) -> None:
    path, _ = closed
    before = path.read_bytes()
    checked = check(path)
    assert checked.is_whole and checked.rows["unacked"] == 9
    assert path.read_bytes() == before


def test_damage_that_comes_while_a_broker_runs_is_not_passed_on(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "broker.store")
    fill(store)
    store._rows.query("UPDATE body SET envelope = CAST('other' AS BLOB) WHERE key = 5")
    with pytest.raises(StoreError, match="a row is damaged"):
        store.unacked(ANN, 0, 10)
    store.close()


# Repair.


def repaired(path: Path) -> SqliteStore:
    done = repair(path)
    assert done is not None
    assert check(path).is_whole
    return SqliteStore(path)


def part_of(found: Contents, expected: Contents) -> bool:
    """Whether nothing was found that was never there."""
    clients, ann, hub, _, _, marks, _ = found
    of_clients, of_ann, of_hub, _, _, of_marks, _ = expected
    return (
        all(client.name in {each.name for each in of_clients} for client in clients)
        and set(ann) <= set(of_ann)
        and set(hub) <= set(of_hub)
        and all(
            of_marks.get(name) == value or name[:5] in ("epoch", "aside")
            for name, value in marks.items()
        )
    )


@pytest.mark.parametrize(("state", "end"), [("closed", ""), ("killed", "-wal")])
def test_what_is_repaired_is_whole_and_holds_nothing_that_was_not_there(
    state: str, end: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path, expected = request.getfixturevalue(state)
    work, tried = tmp_path / "broker.store", Counter[str]()
    for offset in range(0, os.path.getsize(f"{path}{end}"), 149):
        copy_files(path, work)
        flipped(work, end, offset)
        try:
            is_whole = check(work).is_whole
        except StoreError:
            continue
        if is_whole:
            continue
        try:
            store = repaired(work)
        except StoreError:
            tried["not repaired"] += 1
            continue
        found = contents(store)
        store.close()
        if end == "":
            assert part_of(found, expected), offset
        tried["repaired"] += 1
    assert tried["repaired"] > 5 * tried["not repaired"]


def test_a_damaged_row_is_set_aside_and_counted_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "broker.store"
    store = SqliteStore(path)
    fill(store)
    whole = store.unacked(ANN, 0, 100)
    store.close()
    data = bytearray(path.read_bytes())
    data[data.index(b"notification 5")] ^= 1
    path.write_bytes(data)
    done = repair(path)
    assert done is not None
    # The notification, and its places in the queues of ann and of hub.
    assert done.set_aside == {"body": 1, "unacked": 2} and not done.lost
    assert Path(done.damaged).read_bytes() == data
    store = SqliteStore(path)
    assert store.unacked(ANN, 0, 100) == [each for each in whole if each.key != 5]
    assert len(store.marks("aside/")) == 3
    assert int(store.marked("epoch") or 0) > 7
    store.close()


def test_a_store_can_be_repaired_as_it_is_opened(killed: Files, tmp_path: Path) -> None:
    path, _ = killed
    copy_files(path, tmp_path / "broker.store")
    os.remove(tmp_path / "broker.store-wal")
    store = SqliteStore(tmp_path / "broker.store", after_damage="repair")
    assert store.repaired is not None and store.repaired.commits_lost == 8
    assert "8 commits lost" in store.repaired.summary
    store.close()
    SqliteStore(tmp_path / "broker.store").close()
