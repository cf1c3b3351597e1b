"""`kbn broker`, with the stack of whatever takes its event loop longer than a turn may.

`python -m tests.long.watched_broker MS FILE broker …` is `kbn broker …`. When more than MS
milliseconds of CPU pass between two looks at its sockets, what it was seen doing is written to
FILE; and in the end the longest such time.
"""

from __future__ import annotations

import atexit
import sys
from pathlib import Path
from selectors import SelectorKey
from threading import Thread, main_thread
from time import perf_counter, sleep, thread_time
from traceback import extract_stack
from typing import Any, TextIO

from kbn.cli import main
from kbn.transport import few_at_a_time
from kbn.transport.few_at_a_time import FewAtATime

LOOKS_S = 0.005
SWITCH_S = 0.0005  # so that the watcher sees what happens, and not only where others may run
SHOWN = 9  # calls of a stack


class WatchedSelector(FewAtATime):
    """Looks at sockets, and has what happens between two looks watched."""

    seconds: float
    seen: TextIO

    def __init__(self) -> None:
        super().__init__()
        self.since: tuple[float, float] | None = None
        self.longest = 0.0
        self.stacks: list[str] = []
        sys.setswitchinterval(SWITCH_S)
        Thread(target=self.watch, daemon=True).start()
        atexit.register(self.tell)

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, Any]]:
        since, self.since = self.since, None
        if since is not None:
            cpu = thread_time() - since[1]
            self.longest = max(self.longest, cpu)
            if cpu > self.seconds:
                wall = perf_counter() - since[0]
                self.seen.write(f"{1e3 * cpu:.0f} ms of CPU, {1e3 * wall:.0f} ms:\n")
                self.seen.write("".join(self.stacks))
        found = super().select(timeout)
        self.stacks = []
        self.since = (perf_counter(), thread_time())
        return found

    def watch(self) -> None:
        main = main_thread().ident or 0
        while True:
            sleep(LOOKS_S)
            since = self.since
            if since is not None and (took := perf_counter() - since[0]) > LOOKS_S:
                stack = extract_stack(sys._current_frames()[main])[: -SHOWN - 1 : -1]
                calls = " < ".join(f"{Path(e.filename).stem}.{e.name}:{e.lineno}" for e in stack)
                self.stacks.append(f"  {1e3 * took:4.0f} ms: {calls}\n")

    def tell(self) -> None:
        self.seen.write(f"longest between two looks: {1e3 * self.longest:.0f} ms of CPU\n")
        self.seen.flush()


if __name__ == "__main__":
    WatchedSelector.seconds = float(sys.argv[1]) / 1e3
    WatchedSelector.seen = Path(sys.argv[2]).open("a")  # noqa: SIM115  (until the end)
    few_at_a_time.FewAtATime = WatchedSelector  # type: ignore[misc]
    sys.argv[1:] = sys.argv[3:]
    sys.exit(main())
