"""Options declared once: the annotated fields of a group become options of a command.

    @option_group
    class Logs:
        log_format: Annotated[LogFormat, typer.Option(help="How events are written.")] = TEXT
        log_level: Annotated[LogLevel, typer.Option(help="The least event to write.")] = INFO

    @with_options
    def broker(logs: Logs, as_json: AsJson = False) -> None: ...

`kbn broker --log-level debug` calls `broker` with `Logs(TEXT, DEBUG)`. A field may itself be such a
group, so that commands share them. A default that is an instance of the group gives the options
other defaults: `logs: Logs = QUIET`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache, wraps
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar, dataclass_transform, get_type_hints

Command = Callable[..., None]
Group = TypeVar("Group")


@dataclass_transform(kw_only_default=True, frozen_default=True)
def option_group(group: type[Group]) -> type[Group]:
    """A dataclass of options; nobody changes one, and type checkers see to it.

    It has no more methods than it needs: all groups are made before any command, even `kbn --help`,
    and a frozen dataclass that can be compared and printed takes three times as long to make.
    """
    return dataclass(kw_only=True, eq=False, repr=False)(group)


def with_options(command: Command) -> Command:
    """The command as Typer reads it, with options in place of the parameters that are dataclasses.

    The options stand where the parameter stood. Two of the same name are a mistake of ours.
    """
    hints = _hints(command)
    own = signature(command).parameters.values()
    shown = [
        option for each in own for option in _options(each.name, hints[each.name], each.default)
    ]
    named = [option.name for option in shown]
    assert len(set(named)) == len(named), f"{command.__name__}: two options share a name: {named}"

    @wraps(command)
    def with_options_gathered(**given: Any) -> None:
        command(**{each: _gathered(each, hints[each], given) for each in hints})

    # What Typer reads the options from.
    typed: Any = with_options_gathered
    typed.__signature__ = Signature(shown)
    typed.__annotations__ = {option.name: option.annotation for option in shown}
    return with_options_gathered


def _options(name: str, annotation: Any, default: Any) -> Iterator[Parameter]:
    """The options a parameter stands for: itself, or those of a dataclass."""
    if not _is_group(annotation):
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        return
    hints = _hints(annotation)
    for each in fields(annotation):
        yield from _options(each.name, hints[each.name], _default(each, default))


def _default(field: Field[Any], of_all: Any) -> Any:
    if of_all is not Parameter.empty:
        return getattr(of_all, field.name)
    if field.default_factory is not MISSING:
        return field.default_factory()
    return Parameter.empty if field.default is MISSING else field.default


def _gathered(name: str, annotation: Any, given: Mapping[str, Any]) -> Any:
    """The value of a parameter, put together from the options it stands for."""
    if not _is_group(annotation):
        return given[name]
    hints = _hints(annotation)
    values = {
        each.name: _gathered(each.name, hints[each.name], given) for each in fields(annotation)
    }
    return annotation(**values)


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and is_dataclass(annotation)


@cache  # groups are shared by commands, and `kbn --help` should not wait
def _hints(of: Any) -> dict[str, Any]:
    """The annotations of a function or class, no longer as texts."""
    hints = get_type_hints(of, include_extras=True)
    hints.pop("return", None)
    return hints
