"""`kbn policy`: check files of policies, list those that come with kbn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kbn.cli.output import AsJson, print_json, print_table
from kbn.wording import counted

if TYPE_CHECKING:
    from kbn.management import Policy, PolicySet

app = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Policies: what an overlay is managed by."
)


@app.command("check", short_help="Check files of policies together.")
def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE…", help="YAML files, or folders of them.")
    ],
    as_json: AsJson = False,
) -> None:
    """Check files of policies together, as a policy server would read them.

    All that is wrong is told, by file and line. The exit code is 0 when nothing is.

    \b
    Examples:
      kbn policy check policies.yaml
      kbn policy check policies/ more.yaml --json
    """
    from kbn.config import ConfigError
    from kbn.management import PolicySet

    try:
        found = PolicySet.load(files)
    except ConfigError as error:
        if not as_json:
            raise
        problems = [
            {"path": each.file, "line": each.line, "column": each.column, "reason": each.reason}
            for each in error.problems
        ]
        print_json({"valid": False, "problems": problems})
        raise typer.Exit(2) from None
    if as_json:
        print_json({"valid": True, "policies": _told(found)})
        return
    _print_for_people(found)
    off = sum(not policy.enabled for policy in found)
    typer.echo(
        f"valid: {counted(len(found), 'policy')}" + (f", {off} of them not enabled" if off else "")
    )


@app.command("list", short_help="List the policies that come with kbn.")
def list_(
    paths: Annotated[
        bool, typer.Option("--paths", help="Print the paths of the files, to copy and change.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the policies that come with kbn: when each is asked, and what it does.

    \b
    Examples:
      kbn policy list
      kbn policy list --paths
    """
    from kbn.management import PolicySet

    shipped = PolicySet.shipped()
    if as_json:
        print_json(_told(shipped))
    elif paths:
        for path in sorted({policy.path for policy in shipped}):
            typer.echo(path)
    else:
        _print_for_people(shipped)


def _told(policies: PolicySet) -> list[dict[str, Any]]:
    return [
        {
            "name": policy.name,
            "description": policy.description,
            "enabled": policy.enabled,
            "on": policy.on,
            "every_s": policy.every_s,
            "of": policy.of,
            "when": None if policy.when is None else policy.when.text,
            "one_by_one": policy.when is not None and policy.when.is_slow,
            "do": [{"action": each.name, **each.parameters} for each in policy.do],
            "at_most": None if policy.at_most is None else str(policy.at_most),
            "again_after_s": policy.again_after_s,
            "path": policy.path,
            "line": policy.line,
        }
        for policy in policies
    ]


def _print_for_people(policies: PolicySet) -> None:
    print_table([_row(policy) for policy in policies], columns=("policy", "asked", "when", "does"))


def _row(policy: Policy) -> tuple[str, str, str, str]:
    asked = policy.trigger + (f", of {policy.of}s" if policy.of and policy.every_s else "")
    does = ", ".join(
        " ".join([each.name, *(f"{key}={value}" for key, value in each.parameters.items())])
        for each in policy.do
    )
    name = policy.name if policy.enabled else f"{policy.name} (off)"
    return name, asked, "" if policy.when is None else policy.when.text, does
