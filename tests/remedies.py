"""What helps against a diagnostic is written once, in docs/diagnostics.md, and shipped for the report as JSON.

``python tests/remedies.py`` writes the file anew after the page was changed; a test compares them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "diagnostics.md"
SHIPPED = ROOT / "src" / "unlatch" / "show" / "report" / "remedies.json"


def remedies() -> str:
    """The last column of the page's tables by name, as the shipped file has it."""
    found = {}
    for line in re.findall(r"^\| `.*$", PAGE.read_text(encoding="utf-8"), flags=re.M):
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        for name in re.findall(r"`([^`]+)`", cells[0]):
            found[name] = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", cells[-1]).replace("`", "")
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    SHIPPED.write_text(remedies(), encoding="utf-8")
