"""Print the lowest versions that pyproject.toml allows, as constraints for pip.

    python tools/lowest.py > lowest.txt
    pip install --constraint lowest.txt --editable ".[all,neighbours,test]"

``make test-lowest`` does that in an environment of its own.  Tools for development have lower
bounds too, but nobody depends on those.
"""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[\w-]+)(\[(?P<extras>[\w,-]+)\])?(>=(?P<version>[\d.]+))?$")


def requirements(project: dict, extra: str) -> Iterator[re.Match[str]]:
    """Yield what an extra asks for, the extras it names included."""
    for line in project["optional-dependencies"][extra]:
        match = REQUIREMENT.match(line)
        if match["name"] == project["name"]:
            for other in match["extras"].split(","):
                yield from requirements(project, other)
        else:
            yield match


def lowest(version: str) -> str:
    """Return the versions that count as the lowest: the first release and its patches.

    >>> lowest("1.26"), lowest("14"), lowest("0.9.1")
    ('==1.26.*', '==14.*', '==0.9.*,>=0.9.1')
    """
    head = version.split(".")[:2]
    rest = "" if len(version.split(".")) < 3 else f",>={version}"
    return f"=={'.'.join(head)}.*{rest}"


def constraints(project: dict) -> list[str]:
    """Return one line per package that users may have to install."""
    core = [REQUIREMENT.match(line) for line in project["dependencies"]]
    extras = [match for extra in ("all", "neighbours") for match in requirements(project, extra)]
    found = {match["name"]: match["version"] for match in [*core, *extras]}
    return [f"{name}{lowest(version)}" for name, version in sorted(found.items())]


if __name__ == "__main__":
    with PROJECT.open("rb") as file:
        print("\n".join(constraints(tomllib.load(file)["project"])))
