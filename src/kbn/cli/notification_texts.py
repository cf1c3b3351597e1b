"""Notifications as texts: from arguments, a file or stdin, each with the place it stands at."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from kbn.errors import InvalidInputError

if TYPE_CHECKING:
    from kbn.filters import Notification


READ_BYTES = 1 << 16


def notification_texts(given: list[str], file: Path | None) -> AsyncIterator[tuple[str, str]]:
    """The place of each notification, for messages, and its text."""
    if file is not None and given:
        raise typer.BadParameter("give notifications as arguments or in a --file, not both")
    if file is not None:
        return _numbered(_lines_of_file(file), f"{file}:")
    if given == ["-"] or (not given and not sys.stdin.isatty()):
        return _numbered(_lines_of_stdin(), "stdin:")
    if not given:
        raise typer.BadParameter("nothing to publish: give JSON, --file, or - for stdin")
    _check_one_is_valid(given)
    return _numbered(_each(given), "notification ")


def _check_one_is_valid(texts: list[str]) -> None:
    """Raise InvalidInputError when no argument is valid, before connecting to a broker."""
    errors = []
    for text in texts:
        try:
            read_notification(text)
        except InvalidInputError as error:
            errors.append(error)
    if len(errors) == len(texts):
        raise InvalidInputError(f"notification 1: {errors[0]}")


async def _numbered(texts: AsyncIterator[str], place: str) -> AsyncIterator[tuple[str, str]]:
    """The place and the text of each that is not blank; places count from 1."""
    number = 0
    async for text in texts:
        number += 1
        if text.strip():
            yield f"{place}{number}", text


async def _each(texts: Iterable[str]) -> AsyncIterator[str]:
    for text in texts:
        yield text


async def _lines_of_file(path: Path) -> AsyncIterator[str]:
    # A line that is not UTF-8 is reported with its number, like any other mistake.
    with path.open(encoding="utf-8-sig", errors="surrogateescape", newline="\n") as stream:
        for line in stream:
            yield line


async def _lines_of_stdin() -> AsyncIterator[str]:
    """Lines as they come. Waiting for one does not block the loop, so the connection stays up."""
    rest = b""
    while data := await _read_stdin():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "surrogateescape")
    if rest:
        yield rest.decode("utf-8", "surrogateescape")


async def _read_stdin() -> bytes:
    file, loop = sys.stdin.fileno(), asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()
    try:
        loop.add_reader(file, _wake, readable)
    except OSError:  # stdin is a file, which never makes us wait
        return os.read(file, READ_BYTES)
    try:
        await readable
    finally:
        loop.remove_reader(file)
    return os.read(file, READ_BYTES)


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


def read_notification(text: str) -> Notification:
    """The notification in a JSON text; InvalidInputError says what is wrong with it."""
    import json

    from kbn.filters import Notification, json_depth_error, refuse_duplicate_names

    try:
        text.encode()
        data = json.loads(text, object_pairs_hook=refuse_duplicate_names)
    except UnicodeEncodeError:
        raise InvalidInputError("not UTF-8 text") from None
    except json.JSONDecodeError as error:
        looks = "" if text.lstrip().startswith("{") else '; a notification looks like {"price": 5}'
        raise InvalidInputError(f"not JSON: {error}{looks}") from None
    except RecursionError:
        raise json_depth_error() from None
    return Notification.from_json(data)
