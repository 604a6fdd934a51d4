"""Tables of the documentation that are made from the code: the public names, and the commands with their options."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import click

import unlatch
from unlatch import domains
from unlatch.cli.program import cli


def groups() -> dict[str, list[str]]:
    """The public names by the headings that `unlatch/__init__.py` has for them."""
    source = Path(unlatch.__file__).read_text(encoding="utf-8")
    lists = source[source.index("_HOMES = {") : source.index("_MODULES")]
    found: dict[str, list[str]] = {}
    heading = ""
    for comment, name in re.findall(r'^    (?:# (.+)|"(\w+)": .*)$', lists, flags=re.M):
        heading = comment or heading
        if name:
            found.setdefault(heading[0].upper() + heading[1:], []).append(name)
    return found


def public_names() -> str:
    """Every public name with the first sentence of its docstring, by group."""
    parts = []
    for heading, names in groups().items():
        rows = "\n".join(f"| `{name}` | {opening(getattr(unlatch, name))} |" for name in names)
        parts.append(f"## {heading}\n\n| name | what it is |\n|---|---|\n{rows}")
    return "\n\n".join(parts)


def domain_names() -> str:
    """Every system that the library brings, with its signature."""
    rows = []
    for name in domains.__all__:
        value = getattr(domains, name)
        if inspect.isfunction(value) and name not in ("by_name",):
            rows.append(f"| `{name}{_plain_signature(value)}` | {opening(value)} |")
    return "| system | what it is |\n|---|---|\n" + "\n".join(rows)


def _plain_signature(value: Callable[..., object]) -> str:
    """Parameters with their defaults, without types."""
    parameters = inspect.signature(value).parameters.values()
    return "(" + ", ".join(_plain_parameter(each) for each in parameters) + ")"


def _plain_parameter(parameter: inspect.Parameter) -> str:
    return (
        parameter.name if parameter.default is parameter.empty else f"{parameter.name}={parameter.default!r}"
    )


def opening(value: object) -> str:
    """The first sentence of a docstring, in one line of Markdown."""
    text = " ".join(inspect.cleandoc(value.__doc__ or "").split("\n\n")[0].split())
    sentence = re.split(r"(?<!Eq\.)(?<!Eqs\.)(?<!al\.)(?<=\.)\s", text)[0].rstrip(".:")
    return sentence.replace("``", "`").replace("|", "\\|")


# --- the command line ---------------------------------------------------------------------------------------


def commands() -> str:
    """Every command with its arguments and options."""
    context = click.Context(cli, info_name="unlatch")
    parts = []
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        parts.append("\n\n".join(_command_parts(name, command, context)))
    return "\n\n".join(parts)


def _command_parts(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    yield f"## `unlatch {name}`"
    usage = command.collect_usage_pieces(click.Context(command, info_name=name, parent=parent))
    yield f"```\nunlatch {name} {' '.join(usage)}\n```"
    yield " ".join(inspect.cleandoc(command.help or "").split("\n\n")[0].split())
    options = [each for each in command.params if isinstance(each, click.Option)]
    if options:
        rows = "\n".join(_option_row(option) for option in options)
        yield f"| option | default | meaning |\n|---|---|---|\n{rows}"


def _option_row(option: click.Option) -> str:
    names = ", ".join(f"`{name}`" for name in [*option.opts, *option.secondary_opts])
    choices = (
        f" ({', '.join(f'`{c}`' for c in option.type.choices)})"
        if isinstance(option.type, click.Choice)
        else ""
    )
    meaning = (option.help or "").rstrip(".") + choices
    return f"| {names} | {_default(option)} | {meaning.strip().replace('|', chr(92) + '|')} |"


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    if option.is_flag and not option.secondary_opts:
        return "off"
    if option.is_flag:
        return f"`{(option.opts if option.default else option.secondary_opts)[0]}`"
    default = option.default
    if default is None or not isinstance(default, str | int | float | Path):
        return ""
    return f"`{default}`"


TABLES: dict[str, Callable[[], str]] = {
    "public_names": public_names,
    "domain_names": domain_names,
    "commands": commands,
}
