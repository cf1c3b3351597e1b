"""Hostile clients against a real broker over real sockets, while a bystander goes on.

`python -m tests.long.fuzz --seconds 600 --seed 7` starts a broker, attacks it from another process,
and checks at the end: it lives and is healthy, its memory stayed within a bound, no turn did more
work than a turn may, and the bystander missed nothing. It prints the bystander's latencies.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom

from tests.long.broker_process import BrokerProcess, broker_process
from tests.long.bystander import Bystander

TURN_WORK_MAX = 50_000  # units of about a microsecond
MEMORY_GROWTH_MAX = 400 << 20
LOOK_EVERY_S = 2.0


@dataclass
class Watched:
    """What was seen of the broker."""

    memory: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)

    async def watch(self, broker: BrokerProcess, until: asyncio.Event) -> None:
        """Look at it every now and then; each look must be answered."""
        while not until.is_set():
            await asyncio.to_thread(self.look, broker)
            try:
                await asyncio.wait_for(until.wait(), LOOK_EVERY_S)
            except TimeoutError:
                continue

    def look(self, broker: BrokerProcess) -> None:
        assert broker.is_running, "the broker has ended"
        before, self.metrics = self.metrics, broker.metrics()
        longest = self.metrics["kbn_turn_cpu_seconds_max"]
        if longest > before.get("kbn_turn_cpu_seconds_max", 0.0):
            turns = self.metrics["kbn_turn_work_count"]
            print(f"turn {turns:.0f} or before: {1e3 * longest:.0f} ms of CPU", flush=True)
        self.memory.append(broker.memory())
        self.files.append(broker.open_files())


async def fuzz(
    folder: Path, seed: int, seconds: float, *chosen: str, stacks_after_ms: float = 0.0
) -> tuple[Bystander, Watched, str]:
    """Attack a broker for so long; the bystander, what was seen, and the attacks made.

    Options of `hostile` may choose the attacks.
    """
    with broker_process(folder, stacks_after_ms=stacks_after_ms) as broker:
        bystander, watched, over = Bystander(broker.url), Watched(), asyncio.Event()
        watched.look(broker)
        living = asyncio.create_task(bystander.live(over))
        watching = asyncio.create_task(watched.watch(broker, over))
        attacking = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.long.hostile", *map(str, broker.address),
            "--seed", str(seed), "--seconds", str(seconds), *chosen,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            said, _ = await attacking.communicate()
            assert attacking.returncode == 0, "the attack itself has failed"
        finally:
            if attacking.returncode is None:
                attacking.kill()
            over.set()
        await asyncio.gather(living, watching)
        watched.look(broker)
        return bystander, watched, said.decode().strip()


def report(bystander: Bystander, watched: Watched, attacks: str) -> str:
    metrics = watched.metrics
    lines = [
        f"attacks: {attacks}",
        bystander.report(),
        f"memory: {watched.memory[0] >> 20} MB at first, {max(watched.memory) >> 20} MB at most, "
        f"{watched.memory[-1] >> 20} MB at last; files: {watched.files[0]} at first, "
        f"{max(watched.files)} at most, {watched.files[-1]} at last",
        f"turns: {metrics['kbn_turn_work_count']:.0f}, work: {metrics['kbn_turn_work_sum']:.0f}, "
        f"the largest turn: {metrics['kbn_turn_work_max']:.0f} units, "
        f"{1e3 * metrics['kbn_turn_cpu_seconds_max']:.0f} ms of CPU; CPU per unit: "
        f"{1e6 * metrics['kbn_turn_cpu_seconds_total'] / metrics['kbn_turn_work_sum']:.2f} µs",
        f"published: {metrics['kbn_published_total']:.0f}, refused: "
        f"{metrics['kbn_refused_total']:.0f}, delivered: {metrics['kbn_delivered_total']:.0f}",
    ]
    return "\n".join(lines)


def check(bystander: Bystander, watched: Watched) -> None:
    """Nobody was hurt."""
    assert bystander.sent > 0 and bystander.heard == bystander.sent, bystander.report()
    assert bystander.out_of_order == 0
    assert max(watched.memory) - watched.memory[0] <= MEMORY_GROWTH_MAX, watched.memory
    assert watched.metrics["kbn_healthy"] == 1
    assert watched.metrics["kbn_turn_work_max"] <= TURN_WORK_MAX


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**31))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--attacks", help="only these, with commas between them")
    parser.add_argument("--stacks", type=float, default=0.0, help="of turns of so many ms")
    given = parser.parse_args()
    chosen = () if given.attacks is None else ("--attacks", given.attacks)
    print(f"seed {given.seed}: python -m tests.long.fuzz --seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="kbn-fuzz-") as folder:
        seen = asyncio.run(
            fuzz(Path(folder), given.seed, given.seconds, *chosen, stacks_after_ms=given.stacks)
        )
        print(report(*seen), flush=True)
        if given.stacks:
            print((Path(folder) / "stacks.txt").read_text(), flush=True)
        check(*seen[:2])
    print("nobody was hurt")


if __name__ == "__main__":
    main()
