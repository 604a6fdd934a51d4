"""``unlatch completion``."""

from __future__ import annotations

import click

_VARIABLE = "_UNLATCH_COMPLETE"
"""How the shell asks the program; click answers it."""

_SETUP = """\
\b
To have it in every new shell:
  bash   unlatch completion bash >> ~/.bashrc
  zsh    unlatch completion zsh >> ~/.zshrc
  fish   unlatch completion fish > ~/.config/fish/completions/unlatch.fish
"""


@click.command(epilog=_SETUP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes SHELL complete the commands and options of unlatch when the tab key is pressed."""
    from click.shell_completion import get_completion_class

    from unlatch.cli.program import cli
    from unlatch.show.screen import screen

    completes = get_completion_class(shell)
    if completes is None:
        raise AssertionError(f"click knows no {shell}")
    for line in completes(cli, {}, "unlatch", _VARIABLE).source().splitlines():
        screen().write(line)
