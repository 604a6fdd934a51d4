"""``unlatch doctor``."""

from __future__ import annotations

import click


@click.command()
def doctor() -> None:
    """Look at the installation: versions, cores, memory, the cache of compiled kernels, what is missing."""
    from unlatch.installation import doctor as look
    from unlatch.show.screen import screen

    output = screen()
    for line in str(look()).splitlines():
        output.print(line, indent="  ")
