"""Commands shown in the pages, run for real.

A block of kind ``console`` holds commands behind ``$`` and what each printed: its output and what
``polysharp:`` remarked, without the lines of progress.  The commands of a page run one after the
other in one folder that is empty at first, but for files beside the page that it names with
``<!-- file: NAME -->``.  ``docs/refresh.py`` writes the output anew and
``tests/test_transcripts.py`` compares it; a page with ``<!-- slow -->`` before a block has it
compared by the slow tests only.
"""

import contextlib
import io
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from polysharp.cli import main

BLOCK = re.compile(r"^(<!-- slow -->\n)?```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^<!-- file: (.+) -->$", re.MULTILINE)


def bring_files(page: Path, folder: Path) -> None:
    """Copy the files that a page names into the folder of its commands."""
    for name in FILE.findall(page.read_text(encoding="utf-8")):
        shutil.copy(page.parent / name, folder)


def commands(block: str) -> Iterator[tuple[str, str]]:
    """Return each command of a block with the output shown below it."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        count = 1
        while lines[count - 1].endswith("\\\n"):
            count += 1
        yield "".join(lines[:count]), "".join(lines[count:])


def run(command: str, folder: Path, last: int = 0) -> tuple[str, int]:
    """Return what a command prints and its exit code; ``$?`` is the code of the one before."""
    plain = command.startswith("polysharp ") and not re.search(r"[|<>&;$]", command)
    if plain:  # without a process of its own, which would load all libraries again
        out, err, code = _call(shlex.split(command.replace("\\\n", " "))[1:], folder)
    else:
        done = subprocess.run(
            ["bash", "-c", f"(exit {last})\n{command}"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        out, err, code = done.stdout, done.stderr, done.returncode
    said = [line for line in err.splitlines(True) if line.startswith("polysharp: ")]
    # Whether kernels are compiled depends on what ran before.
    remarks = [line for line in said if not line.startswith("polysharp: compiling")]
    return out + "".join(remarks), code


def _call(words: list[str], folder: Path) -> tuple[str, str, int]:
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(words)
    return out.getvalue(), err.getvalue(), code


def refreshed(text: str, folder: Path) -> str:
    """Return a page with the output of its commands written anew."""
    last = 0

    def rewrite(block: re.Match[str]) -> str:
        nonlocal last
        written = ""
        for command, _ in commands(block[2]):
            output, last = run(command, folder, last)
            written += f"$ {command}{output}"
        return f"{block[1] or ''}```console\n{written}```"

    return BLOCK.sub(rewrite, text)
