"""Check that a wheel or an sdist holds every file of the package, and a page that can stand alone.

    python tools/shipped.py dist/polysharp-*.whl dist/polysharp-*.tar.gz

Style sheets, texts of help, pages and lists of data sets are read at run time: one that is left out
is missed only by whoever needs it.  On PyPI the README has no files beside it: a link to one would
lead nowhere.
"""

import re
import sys
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

SOURCE = Path(__file__).parent.parent / "src"


def missing(names: Iterable[str], source: Path = SOURCE) -> list[str]:
    """Return the files of the package that are not among the names in an archive."""
    files = [
        file for file in source.rglob("*") if file.is_file() and "__pycache__" not in file.parts
    ]
    wanted = {file.relative_to(source).as_posix() for file in files}
    given = {name[max(0, name.find("polysharp/")) :] for name in names}
    return sorted(wanted - given)


def names_in(archive: str) -> list[str]:
    """Return the names in a wheel or an sdist, from the folder of the package on."""
    if archive.endswith(".whl"):
        return zipfile.ZipFile(archive).namelist()
    with tarfile.open(archive) as packed:
        return [name.partition("/src/")[2] for name in packed.getnames()]


def loose_links(page: str) -> list[str]:
    """Return the links of a page that lead to files beside it."""
    return re.findall(r"\]\(((?!https?:|#)[^)]*)\)", page)


def page_of(archive: str) -> str:
    """Return the page that comes with a wheel or an sdist, headers included."""
    if archive.endswith(".whl"):
        with zipfile.ZipFile(archive) as packed:
            (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
            return packed.read(name).decode()
    with tarfile.open(archive) as packed:
        (name,) = (name for name in packed.getnames() if re.fullmatch(r"[^/]*/PKG-INFO", name))
        return packed.extractfile(name).read().decode()


if __name__ == "__main__":
    for archive in sys.argv[1:]:
        if links := loose_links(page_of(archive)):
            sys.exit(f"the page of {archive} has links to files: {', '.join(links)}")
        if absent := missing(names_in(archive)):
            sys.exit(f"{archive} does not hold {', '.join(absent)}")
