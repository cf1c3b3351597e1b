"""Programs in turns with the index: the files say what the workload says, figures are read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kbn.errors import KbnError
from kbn.filters import Subscription
from kbn.lab.outside_programs import Contest, figures_of, subscription_lines
from kbn.lab.workloads import Mixed
from kbn.lab.workloads.mixed import NEUTRAL

ASKING_EACH = """
import sys
workload, folder = sys.argv[1:]

def number(text):
    return int(text.split("_")[1]) if text.startswith("v") else int(text)

def read(kind):
    return [line.split()[2:] for line in open(f"{folder}/{workload}.{kind}")]

filters = []
for words in read("subs"):
    asked, words = [], iter(words)
    for attribute in words:
        operator = next(words)
        low = number(next(words))
        asked.append((attribute, low, low if workload == "s20" else number(next(words))))
    filters.append(asked)
found = 0
events = [dict(zip(words[::2], map(number, words[1::2]))) for words in read("events")]
for event in events:
    found += sum(all(low <= event.get(a, -1) <= high for a, low, high in f) for f in filters)
print(f"plain us/event 2.5 matches/event {found / len(events):.1f}")
"""


@pytest.mark.parametrize("name", ["u20", "z20", "u100", "s20", "w20"])
def test_a_program_that_reads_the_files_finds_what_the_index_finds(
    name: str, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(ASKING_EACH)
    contest = Contest(Mixed(NEUTRAL[name], name), (3000, 40), tmp_path)
    turns = contest.run({"plain": [sys.executable, str(program), name, str(tmp_path)]}, 2)
    assert turns.counts_equal, turns.matches
    assert turns.matches["plain"] > 0
    assert turns.times["plain"] == [2.5, 2.5]
    assert turns.median("plain") == 2.5


def test_bounds_that_are_not_asked_for_are_the_ends_of_the_numbers() -> None:
    asked = Subscription.parse("a03 <= 7 and a12 >= 5 and a12 <= 9 and a04 = 50 and a05 >= 2")
    (line,) = subscription_lines([(asked, 8)], texts=False)
    number, count, *rest = line.split()
    parts = {tuple(rest[i : i + 4]) for i in range(0, len(rest), 4)}
    assert (number, count) == ("8", "4")
    assert parts == {
        ("3", "<=", "0", "7"),
        ("12", "[]", "5", "9"),
        ("4", "=", "50", "50"),
        ("5", ">=", "2", "999999"),
    }


def test_a_program_without_figures_is_told_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(KbnError, match=r"ended with 3 and gave no figures: out of memory"):
        figures_of([sys.executable, "-c", "import sys; print('out of memory'); sys.exit(3)"])
