"""The field's words: what kbn once called things in its own way has the names that others use.

A reader who knows publish/subscribe, databases or Spark needs no glossary. So the words that were
replaced stay replaced: in identifiers, which are read here as Python reads them, the names of tests
and files among them, and in options, actions and packages, which are looked for as text. `ALLOWED`
has what may stay, with the reason.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

# A word, as a whole identifier or as a part of one (`link_run`, `FileGuard`), and what we say now.
PARTS = {
    "master": "parent",
    "masters": "parents",
    "floodgate": "RateLimiter",
    "acquaintances": "KnownPeers",
    "opendoor": "AllowAll",
    "inlet": "Source",
    "inlets": "Source",
    "seat": "Assignment",
    "seats": "Assignments",
    "foresee": "prematch",
    "foreseen": "prematch",
    "foresees": "prematch",
    "settle": "barrier",
    "owed": "unacked",
    "offer": "advertisement",
    "offers": "advertisements",
    "offering": "advertising",
    "wish": "subscription",
    "wishes": "subscriptions",
    "dice": "rng",
    "guard": "Authorizer",
    "gathering": "axiom extraction",
}

# Whole identifiers: as parts of others these words are everybody's.
IDENTIFIERS = {
    "Attached": "ClientSession",
    "link_run": "epoch",
    "our_run": "epoch",
    "OpenDoor": "AllowAll",
    "Carry": "Forward",
    "Took": "Ack",
    "Fire": "BestEffort",
    "Settle": "Barrier",
    "Hello": "Connect",
    "Welcome": "ConnAck",
    "Position": "Offset",
    "Places": "Assignments",
    "Standing": "PolicyState",
    "Moment": "Evaluation",
    "GONE": "TOMBSTONE",
    "Ask": "AdminRequest",
    "Answer": "AdminReply",
}

# Options, actions, packages and terms of files, wherever they are written.
TEXTS = {
    "--guard": "--access",
    "guard file": "access file",
    "take-broker": "retire-broker",
    "def beside": "background task",
    "kbn.clustering": "kbn.placement, kbn.grouping",
    "dice": "rng, chance",
    "a newer run": "a newer epoch",
}

# Phrases in the names of tests about brokers, which read as sentences.
PHRASES = {
    "hello": "connect",
    "new run": "a new epoch",
    "newer run": "a newer epoch",
    "older run": "an older epoch",
    "next run": "the next epoch",
    "beside the work": "in the background",
}
ABOUT_BROKERS = ("broker", "contracts", "simulation", "transport")

# What may stay: a word, a pattern of files, and the reason.
ALLOWED = {
    (
        "master",
        r"src/kbn/(cli/(demo|match|match_on_spark|pipeline)|spark/runtime)\.py"
        r"|tests/spark/elsewhere_job\.py",
    ): "Spark's own word for where it runs",
}

PYTHON = sorted(
    path
    for path in [
        *(ROOT / "src").rglob("*.py"),
        *(ROOT / "tests").rglob("*.py"),
        *(path for path in (ROOT / "scripts").iterdir() if "python" in path.read_text()[:30]),
    ]
    if path != Path(__file__)
)
TEXT = sorted(
    [
        *PYTHON,
        *(ROOT / "src").rglob("*.yaml"),
        *(ROOT / "src").rglob("*.ttl"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "tests").rglob("*.md"),
        *(path for path in (ROOT / "scripts").iterdir() if path not in PYTHON),
        *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "Makefile")),
    ]
)


def identifiers(path: Path) -> Iterator[str]:
    """Every name a file writes, comments and strings left out."""
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.NAME:
            yield token.string


def parts(identifier: str) -> set[str]:
    """The words of an identifier, in lower case.

    >>> sorted(parts("FileGuard_of_masterURL"))
    ['file', 'guard', 'master', 'of', 'url']
    """
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)}


@cache
def used() -> dict[str, set[str]]:
    """Every identifier and the files it occurs in."""
    found: dict[str, set[str]] = {}
    for path in PYTHON:
        for name in identifiers(path):
            found.setdefault(name, set()).add(path.relative_to(ROOT).as_posix())
    return found


def allowed(word: str, file: str) -> bool:
    return any(
        word == known and re.fullmatch(pattern, file) is not None for known, pattern in ALLOWED
    )


@pytest.mark.parametrize("word", PARTS)
def test_no_identifier_has_a_word_that_was_replaced(word: str) -> None:
    found = {
        f"{name} in {file}: say {PARTS[word]}"
        for name, files in used().items()
        if word in parts(name) or name.lower() == word
        for file in files
        if not allowed(word, file)
    }
    assert not found


@pytest.mark.parametrize("word", PARTS)
def test_no_file_or_folder_is_named_by_a_word_that_was_replaced(word: str) -> None:
    files = [path.relative_to(ROOT).as_posix() for path in TEXT]
    found = [file for file in files if word in parts(file) and not allowed(word, file)]
    assert not found, f"say {PARTS[word]}"


@pytest.mark.parametrize("word", IDENTIFIERS)
def test_no_identifier_is_one_that_was_replaced(word: str) -> None:
    files = {file for file in used().get(word, set()) if not allowed(word, file)}
    assert not files, f"say {IDENTIFIERS[word]}"


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_test_of_a_broker_is_named_by_a_phrase_that_was_replaced(phrase: str) -> None:
    about_brokers = tuple(f"tests/{room}/" for room in ABOUT_BROKERS)
    found = {
        name
        for name, files in used().items()
        if name.startswith("test_") and f" {phrase} " in f" {name.replace('_', ' ')} "
        if any(file.startswith(about_brokers) for file in files)
    }
    assert not found, f"say {PHRASES[phrase]}"


@pytest.mark.parametrize("text", TEXTS)
def test_no_option_package_or_action_has_its_old_name(text: str) -> None:
    pattern = re.compile(rf"(?<![\w.-]){re.escape(text)}(?![\w-])")
    found = {
        path.relative_to(ROOT).as_posix()
        for path in TEXT
        if pattern.search(path.read_text(encoding="utf-8"))
    }
    assert not {file for file in found if not allowed(text, file)}, f"say {TEXTS[text]}"
