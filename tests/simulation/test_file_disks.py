"""Worlds whose brokers have stores in files, and disks that lie: the real store notices."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.simulation.file_disks import FileDisk

from kbn.broker.storage.commit_mark import CommitMark
from kbn.simulation.world import World
from kbn.simulation.world_limits import WorldLimits

WRITE = CommitMark.write
KINDS = ("lying", "spoilt", "dying", "vanishing")
UNLIMITED = [seed for seed in range(5000, 5040) if WorldLimits.of_seed(seed) is None]


def play(seed: int, folder: Path) -> tuple[World, list[FileDisk]]:
    disks: list[FileDisk] = []

    def on(broker: str) -> FileDisk:
        disks.append(FileDisk(folder / f"{seed}-{broker}.db"))
        return disks[-1]

    world = World.swarm(seed, troubles=KINDS, disks=on)
    try:
        world.run()
    finally:
        for disk in disks:
            disk.close()
    return world, disks


@pytest.mark.parametrize(
    "seeds", [UNLIMITED[:6], pytest.param(UNLIMITED[6:], marks=pytest.mark.slow)]
)
def test_what_a_file_has_lost_or_spoilt_is_noticed_and_all_else_is_kept(
    seeds: list[int], tmp_path: Path
) -> None:
    commits = rows = repairs = 0
    for seed in seeds:
        world, disks = play(seed, tmp_path)
        commits += world.damage.counts["commits lost"]
        rows += world.damage.counts["rows told"]
        repairs += sum(disk.repairs for disk in disks)
    assert min(commits, rows, repairs) >= 3


def test_a_store_that_does_not_notice_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CommitMark, "write", lambda mark, commits: WRITE(mark, 0))
    with pytest.raises(AssertionError, match="it noticed"):
        for seed in UNLIMITED:
            play(seed, tmp_path)
