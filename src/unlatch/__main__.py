"""``python -m unlatch``."""

from unlatch.cli import main

main()
