"""Print the section of the changelog on one version: the text of its release.

python tools/changelog.py 0.2.0
"""

import re
import sys
from pathlib import Path

CHANGELOG = Path(__file__).parent.parent / "CHANGELOG.md"


def section(text: str, version: str) -> str:
    """Return what stands below the heading of a version, up to the next one."""
    match = re.search(
        rf"^## \[{re.escape(version)}\][^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    if match is None:
        raise SystemExit(f"the changelog has no section on {version}")
    return match[1].strip()


if __name__ == "__main__":
    print(section(CHANGELOG.read_text(encoding="utf-8"), sys.argv[1]))
