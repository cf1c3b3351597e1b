"""Play worlds from seeds: `python -m kbn.simulation --seed 17`, or `--seeds 100000`."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from multiprocessing import Pool

from kbn.simulation.world import PromiseBrokenError, World


def played(seed: int, restless: bool = False) -> str | None:
    """What went wrong in a world, if anything did."""
    world = World.swarm(seed, restless=restless)
    try:
        world.run()
    except PromiseBrokenError as error:
        return str(error)
    except Exception as error:
        return f"seed {seed}: {type(error).__name__}: {error}\n" + "\n".join(world.story)
    return None


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/simulate", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default 0)")
    parser.add_argument("--seeds", type=int, default=1, help="how many (default 1)")
    parser.add_argument("--cores", type=int, default=2, help="on how many cores (default 2)")
    parser.add_argument("--restless", action="store_true", help="brokers move often")
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.seeds)
    broken = 0
    with Pool(min(given.cores, given.seeds)) as pool:
        play = partial(played, restless=given.restless)
        for count, trouble in enumerate(pool.imap(play, seeds, chunksize=10), 1):
            if trouble is not None:
                broken += 1
                print(trouble, flush=True)
            if count % 100 == 0 or count == given.seeds:
                print(f"{count} worlds, {broken} broken", file=sys.stderr, flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
