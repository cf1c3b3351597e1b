"""`kbn store`: copies, checks and repairs, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.broker.storage.stores import fill

from kbn.broker import SqliteStore
from kbn.cli import main

Output = pytest.CaptureFixture[str]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "dublin.db"
    opened = SqliteStore(path)
    fill(opened)
    opened.close()
    return path


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b"notification 5")] ^= 1
    path.write_bytes(data)


def test_a_whole_store_is_told(store: Path, capsys: Output) -> None:
    assert main(["store", "check", str(store)]) == 0
    assert capsys.readouterr().out.endswith("whole\n")
    assert main(["store", "check", str(store), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["whole"] and told["rows"]["unacked"] == 9 and told["damage"] == []


def test_a_damaged_store_is_told_repaired_and_whole_again(store: Path, capsys: Output) -> None:
    damage(store)
    assert main(["store", "check", str(store)]) == 1
    assert "body: the row 5 is damaged" in capsys.readouterr().out
    assert main(["store", "check", str(store), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["damage"] == [{"place": "body", "what": "the row 5 is damaged"}]
    assert main(["store", "repair", str(store), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["repaired"] and told["set_aside"] == {"body": 1, "unacked": 2}
    assert main(["store", "check", str(store)]) == 0
    assert main(["store", "repair", str(store)]) == 0
    assert capsys.readouterr().out.endswith("nothing to repair\n")


def test_a_copy_is_made_and_put_back(store: Path, capsys: Output) -> None:
    copy = store.with_name("copy.db")
    assert main(["store", "backup", str(store), str(copy)]) == 0
    assert "copied to" in capsys.readouterr().out
    assert main(["store", "backup", str(store), str(copy)]) == 1
    assert "there is such a file already" in capsys.readouterr().err
    assert main(["store", "backup", str(store), str(copy), "--replace", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["whole"]
    damage(store)
    assert main(["store", "restore", str(copy), str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replaced"] == f"{store}.replaced-1"
    assert main(["store", "check", str(store)]) == 0


def test_what_is_no_store_is_refused(store: Path, capsys: Output) -> None:
    for command in ("check", "repair"):
        assert main(["store", command, str(store.with_name("nowhere.db"))]) == 2
        assert "there is no such file" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["check", "repair", "backup"])
def test_a_folder_and_a_text_are_called_what_they_are(
    command: str, store: Path, capsys: Output
) -> None:
    store.with_name("notes.txt").write_text("not a store")
    to = [str(store.with_name("copy.db"))] if command == "backup" else []
    assert main(["store", command, str(store.parent), *to]) == 2
    told = capsys.readouterr().err
    assert f"a folder; name the file of a store in it ({store.name}" in told
    assert main(["store", command, str(store.with_name("notes.txt")), *to]) == 2
    assert "notes.txt: a text, and not the store of a broker" in capsys.readouterr().err


def test_a_broker_refuses_a_damaged_store(store: Path, capsys: Output) -> None:
    damage(store)
    assert main(["broker", "--name", "dublin", "--port", "0", "--store", str(store)]) == 1
    assert "kbn store repair" in capsys.readouterr().err
