"""The `kbn` command: parse, call a room below, print.

One module per group of commands. Each imports what it needs inside its functions, so a command pays
only for what it uses and `kbn --help` answers at once. `options` makes settings of options,
`output` and `tables` print, and `failures` decides what you see of an error and the exit code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbn.errors import KbnError

if TYPE_CHECKING:
    from kbn.cli.app import Settings


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (`sys.argv` unless given) and return its exit code.

    >>> main(["--version"])
    kbn 0.1.0
    0
    """
    import typer

    from kbn.cli import failures
    from kbn.cli.app import Settings

    settings = Settings()
    try:
        return _run(arguments, settings)
    except BrokenPipeError:
        _discard_output()
        return failures.FAILED
    except KeyboardInterrupt:
        return failures.INTERRUPTED
    except (KbnError, OSError, typer.TyperException) as error:
        if settings.debug:
            raise
        failures.show(error)
        return failures.exit_code_of(error)


def _run(arguments: Sequence[str] | None, settings: Settings) -> int:
    from kbn.cli.app import app
    from kbn.cli.failures import DONE, FAILED

    try:
        code: object = app(arguments, prog_name="kbn", obj=settings, standalone_mode=False)
    except SystemExit as stop:  # Typer's answer to a reader that went away
        code = stop.code if isinstance(stop.code, int) else FAILED
    # Now, while a reader who went away is still our business and not the interpreter's.
    sys.stdout.flush()
    return code if isinstance(code, int) else DONE


def _discard_output() -> None:
    # The interpreter flushes stdout once more on its way out; give it somewhere to flush to.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
