"""What you see of an error and the exit code it gives, for every command alike.

0    done
1    it could not be done: an optional part is missing, a reasoner ran out of time, a file
     cannot be written (also: the reader of our output went away)
2    what you typed or passed is not valid, the ontology files (malformed, inconsistent)
     included; nothing was changed
130  interrupted from the keyboard
"""

from __future__ import annotations

import re

import typer

from kbn.errors import InvalidInputError, KbnError, OntologyError
from kbn.wording import close_names, did_you_mean

DONE, FAILED, INVALID, INTERRUPTED = 0, 1, 2, 130

Failure = KbnError | OSError | typer.TyperException


def exit_code_of(error: Failure) -> int:
    """The exit code that says whose the error is."""
    if isinstance(error, typer.TyperException):
        return error.exit_code
    return INVALID if _is_about_what_was_passed(error) else FAILED


def show(error: Failure) -> None:
    """Print one block on stderr: what is wrong, where, what to do next."""
    if isinstance(error, typer.TyperException) and _is_help(error):
        typer.echo(error.format_message(), err=True)
        return
    typer.secho("error: ", err=True, nl=False, fg="red", bold=True)
    typer.echo(_message(error), err=True)


def _is_about_what_was_passed(error: KbnError | OSError) -> bool:
    # An ontology error with a file is about that file; one without is about the means to read it.
    return isinstance(error, InvalidInputError) or (
        isinstance(error, OntologyError) and error.path is not None
    )


def _is_help(error: typer.TyperException) -> bool:
    """Whether Typer only answers a group without a command: with the help of the group."""
    context = _context(error)
    return context is not None and error.format_message() == context.get_help()


def _message(error: Failure) -> str:
    if isinstance(error, typer.TyperException):
        return _usage_message(error)
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _usage_message(error: typer.TyperException) -> str:
    """What Typer says of a command line, in the form of our own errors."""
    context = _context(error)
    told = _lowered(_told_by_typer(error)).removesuffix(".")
    return told if context is None else f"{told}\n  see {context.command_path} --help"


def _told_by_typer(error: typer.TyperException) -> str:
    possibilities: list[str] = getattr(error, "possibilities", None) or []
    if possibilities:
        return error.message + did_you_mean(close_names(_last_word(error), possibilities))
    if not isinstance(error, typer.BadParameter):
        return error.format_message().replace(". Did you mean ", "; did you mean ")
    if error.message and error.param is None and error.param_hint is None:
        return error.message  # of options that do not go together: it names them itself
    plain = _with_suggestion(_lowered(error.message.removeprefix("Value error, ")))
    told = error.format_message().replace(error.message, plain)
    return re.sub(r",\s+", ", ", re.sub(r"\. Choose from:\s+", ": give one of ", told))


def _with_suggestion(message: str) -> str:
    """What is said of a word that is not among some, with the one that was probably meant."""
    found = re.fullmatch(r"'(.*)' is not one of (.*)\.?", message)
    if found is None:
        return message
    choices = re.findall(r"'([^']*)'", found[2])
    return message.removesuffix(".") + did_you_mean(map(repr, close_names(found[1], choices)))


def _last_word(error: typer.TyperException) -> str:
    return error.message.rpartition(" ")[2]


def _lowered(text: str) -> str:
    """The text with a small letter first, unless a name or a file begins it."""
    return text[:1].lower() + text[1:] if re.match("[A-Z][a-z]+ ", text) else text


def _context(error: typer.TyperException) -> typer.Context | None:
    context: typer.Context | None = getattr(error, "ctx", None)
    return context
