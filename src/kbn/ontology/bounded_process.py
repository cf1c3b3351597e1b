"""A program that ends: within its time, with the function that started it, with this process.

The program runs in a process group of its own, which is killed when the function returns or raises.
A process that is itself killed (kill -9) runs no `finally`. So a shell watches beside the program:
it reads from a pipe that only this process holds open, and when the pipe closes it removes the
program's folder and kills the group.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

from kbn.errors import OntologyError

KILL_WAIT_S = 10.0
# Descriptor 3 is the pipe: a shell gives what it runs in the background another standard input.
_WATCHED = """
exec 3<&0
folder=$1
shift
"$@" </dev/null 3<&- &
program=$!
{ read -r _ <&3; [ -z "$folder" ] || rm -rf "$folder"; kill -9 -$$; } >/dev/null 2>&1 &
wait $program
"""


def run_bounded(
    command: list[str], time_limit_s: float, name: str, folder: Path | None = None
) -> tuple[int, str, str]:
    """Run `command`; its exit code, what it printed and what it printed as errors.

    `folder` is removed when this process dies before the program has ended.
    """
    ours, theirs = _pipe()
    process = subprocess.Popen(
        _watched(command, folder),
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        output, errors = process.communicate(timeout=time_limit_s)
    except subprocess.TimeoutExpired as error:
        raise OntologyError(
            f"{name} did not finish within {time_limit_s:g} s; raise time_limit_s, or choose "
            "reasoning='el', 'rl' or 'rdfs'"
        ) from error
    finally:
        _end_group(process)
        os.close(ours)
    return process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace")


def _pipe() -> tuple[int, int]:
    """The end that this process holds, and the end that the watcher reads."""
    reading, writing = os.pipe()
    return writing, reading


def _watched(command: list[str], folder: Path | None) -> list[str]:
    if os.name != "posix":  # pragma: no cover - no shell, no process groups
        return command
    return ["/bin/sh", "-c", _WATCHED, "sh", str(folder or ""), *command]


def _end_group(process: subprocess.Popen[bytes]) -> None:
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    else:  # pragma: no cover - Windows has no process groups of this kind
        process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(timeout=KILL_WAIT_S)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
