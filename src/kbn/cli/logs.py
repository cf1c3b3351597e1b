"""How a process that runs for long writes its events to stderr: the options, and setting it up."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from kbn.cli.options import option_group


class LogFormat(StrEnum):
    """How events are written."""

    TEXT = "text"
    JSON = "json"


class LogLevel(StrEnum):
    """Which events are written."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@option_group
class Logs:
    """What is written to stderr, and how."""

    log_format: Annotated[
        LogFormat, typer.Option("--log-format", help="How events are written to stderr.")
    ] = LogFormat.TEXT
    log_level: Annotated[
        LogLevel, typer.Option("--log-level", help="The least important events to write.")
    ] = LogLevel.INFO

    def set_up(self, name: str) -> None:
        """Write the events of this process, under a name, from now on."""
        from kbn.transport import set_up

        set_up(name, self.log_format.value, self.log_level.value)


QUIET = Logs(log_level=LogLevel.WARNING)
"""For commands whose events matter only when something is wrong."""
