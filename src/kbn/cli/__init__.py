"""The `kbn` command: parse, call a room below, print.

One module per group of commands. Each imports what it needs inside its functions, so a command pays
only for what it uses and `kbn --help` answers at once. Commands raise `KbnError`; what the user
sees of it and the exit code are decided here, in one place:

    0    done
    1    it could not be done: an optional part is missing, a reasoner ran out of time, a file
         cannot be written (also: the reader of our output went away)
    2    what the user typed or passed is not valid, the ontology files (malformed, inconsistent)
         included; nothing was changed
    130  interrupted from the keyboard
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kbn.errors import InvalidInputError, KbnError, OntologyError

if TYPE_CHECKING:
    from kbn.cli.app import Settings

DONE, FAILED, INVALID, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line (`sys.argv` unless given) and return its exit code.

    >>> main(["--version"])
    kbn 0.1.0
    0
    """
    from kbn.cli.app import Settings

    settings = Settings()
    try:
        return _run(arguments, settings)
    except BrokenPipeError:
        _discard_output()
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except (KbnError, OSError) as error:
        if settings.debug:
            raise
        _show(error)
        return INVALID if _is_about_what_was_passed(error) else FAILED


def _is_about_what_was_passed(error: KbnError | OSError) -> bool:
    # An ontology error with a file is about that file; one without is about the means to read it.
    return isinstance(error, InvalidInputError) or (
        isinstance(error, OntologyError) and error.path is not None
    )


def _run(arguments: Sequence[str] | None, settings: Settings) -> int:
    from kbn.cli.app import app

    try:
        app(arguments, prog_name="kbn", obj=settings)
        code: object = DONE
    except SystemExit as stop:  # Typer ends every command line, good or bad, with one of these
        code = stop.code
    # Now, while a reader who went away is still our business and not the interpreter's.
    sys.stdout.flush()
    return code if isinstance(code, int) else FAILED


def _discard_output() -> None:
    # The interpreter flushes stdout once more on its way out; give it somewhere to flush to.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show(error: KbnError | OSError) -> None:
    """One block on stderr: what is wrong, where, what to do next."""
    import typer

    typer.secho("error: ", err=True, nl=False, fg="red", bold=True)
    typer.echo(_message(error), err=True)


def _message(error: KbnError | OSError) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)
