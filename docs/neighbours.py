"""Run the examples of the neighbours and keep what they print beside them, for the guide.

    pip install -e ".[neighbours,cli,sympy]"
    python docs/neighbours.py

An example whose packages are not installed is left as it is, and named.
"""

import subprocess
import sys
from pathlib import Path

EXAMPLES = sorted((Path(__file__).parent.parent / "neighbours" / "examples").glob("*.py"))


def printed(example: Path) -> str | None:
    """Return what an example prints, None where a package is missing."""
    command = [sys.executable, str(example)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "ModuleNotFoundError" in done.stderr:
        return None
    done.check_returncode()
    return done.stdout


if __name__ == "__main__":
    for example in EXAMPLES:
        if (text := printed(example)) is None:
            sys.stderr.write(f"{example.name} needs a package that is not installed\n")
        else:
            example.with_suffix(".txt").write_text(text, encoding="utf-8")
