"""Draw the pictures of the page "Architecture" from the source.

    python docs/architecture.py          (or make refresh)

Two pictures, written into ``docs/_static``:

- ``rooms.svg``: the rooms along a staircase in the order that ``pyproject.toml`` gives to
  import-linter, and a dot for every room that another one imports.  Imports inside functions and
  for type checkers count.  As long as nothing points upwards, every dot lies to the right of the
  stairs.
- ``flow.svg``: the way of the data, with the record that each room hands on.

Both take their colours from the page around them, so they follow it from light to dark.
``tests/test_house.py`` checks that the files are what this script would write.
"""

import ast
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "polysharp"
STATIC = ROOT / "docs" / "_static"
BASE = "root modules"

# What flows: the record, and the room whose classes it is one of.
FLOW = (
    ("data", "Rows"),
    ("monomials", "Basis"),
    ("moments", "Moments"),
    ("problem", "Problem"),
    ("engines", "Run"),
    ("certificate", "Solution"),
    ("polynomial", "Polynomial"),
)

STYLE = """\
svg.house { width: 100%; height: auto; font: 15px system-ui, sans-serif; }
svg.house text { fill: var(--pst-color-text-base, currentColor); }
svg.house .quiet { fill: var(--pst-color-text-muted, #777); font-size: 12px; }
svg.house .line { stroke: var(--pst-color-border, #bbb); fill: none; }
svg.house .box { fill: var(--pst-color-surface, #eef); stroke: var(--pst-color-border, #bbb); }
svg.house .stair { fill: var(--pst-color-border, #bbb); }
svg.house .dot { fill: var(--pst-color-primary, #0a7d91); }
svg.house .arrow { stroke: var(--pst-color-primary, #0a7d91); fill: none; stroke-width: 1.5; }"""


def storeys() -> list[list[str]]:
    """Return the rooms in order, those that share a storey together."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    lines = [line.strip("()").split(":") for line in contract["layers"]]
    return [[name.strip() for name in line] for line in lines]


def rooms() -> list[str]:
    """Return what the picture shows, from the roof down: packages, and the root's modules as one.

    >>> rooms()[0], rooms()[-1]
    ('cli', 'root modules')
    """
    packages = [name for line in storeys() for name in line if (PACKAGE / name).is_dir()]
    return [*packages, BASE]


def room_of(module: str) -> str:
    """Return the room of a dotted name such as ``polysharp.engines.tree``."""
    name = module.split(".")[1]
    return name if (PACKAGE / name).is_dir() else BASE


def imported(tree: ast.Module) -> set[str]:
    """Return the modules of the package that a module imports anywhere."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "polysharp":
            found |= {f"polysharp.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return {name for name in found if name.startswith("polysharp.")}


def edges() -> set[tuple[str, str]]:
    """Return the pairs (room, room that it imports)."""
    pairs = set()
    for room in rooms()[:-1]:
        for file in (PACKAGE / room).rglob("*.py"):
            for module in imported(ast.parse(file.read_text(encoding="utf-8"))):
                pairs.add((room, room_of(module)))
    return {(one, other) for one, other in pairs if one != other}


def draw_rooms(step: int = 34, margin: int = 120) -> str:
    """Return the staircase: names along the diagonal, what a room imports to the right of it."""
    names = rooms()
    size = margin + step * len(names) + 8
    parts = []

    def centre(place: int) -> float:
        return margin + step * (place + 0.5)

    for a, name in enumerate(names):
        x, y = centre(a), centre(a) - margin + 4
        parts.append(f'<path class="line" d="M{x:g} {y:g}V8M{x:g} {y:g}H{size - 8}"/>')
        parts.append(
            f'<text x="{x - step / 2:g}" y="{y + 5:g}" text-anchor="end">{escape(name)}</text>'
        )
        parts.append(f'<rect class="stair" x="{x - 8:g}" y="{y - 8:g}" width="16" height="16"/>')
    places = {name: a for a, name in enumerate(names)}
    for one, other in sorted(edges(), key=lambda edge: (places[edge[0]], places[edge[1]])):
        x, y = centre(places[other]), centre(places[one]) - margin + 4
        parts.append(
            f'<circle class="dot" cx="{x:g}" cy="{y:g}" r="6">'
            f"<title>{escape(one)} imports {escape(other)}</title></circle>"
        )
    return svg(parts, size, size - margin + 4, "Which room imports which")


def draw_flow(width: int = 96, gap: int = 82, columns: int = 5) -> str:
    """Return the rooms in the order in which data pass them, a record on every arrow."""
    stops = ["X, y", *(room for room, _ in FLOW), "report"]
    records = ["", *(record for _, record in FLOW)]
    parts = []
    for a, stop in enumerate(stops):
        row, column = divmod(a, columns)
        x, y = column * (width + gap) + 4, row * 96 + 12
        parts.append(f'<rect class="box" x="{x}" y="{y}" width="{width}" height="40" rx="6"/>')
        parts.append(f'<text x="{x + width / 2:g}" y="{y + 25}" text-anchor="middle">{stop}</text>')
        if a + 1 == len(stops):
            break
        if column + 1 < columns:
            start, y = x + width + 4, y + 20
            parts.append(f'<path class="arrow" d="M{start} {y}h{gap - 9}m-6 -5l6 5l-6 5"/>')
            text_x, text_y = start + gap / 2 - 4, y - 6
        else:  # to the beginning of the next row
            start, y = x + width / 2, y + 44
            bend = f"M{start:g} {y}v24H{width / 2 + 4:g}v22m-5 -6l5 6l5 -6"
            parts.append(f'<path class="arrow" d="{bend}"/>')
            text_x, text_y = start - (width + gap) / 2, y + 18
        parts.append(
            f'<text class="quiet" x="{text_x:g}" y="{text_y:g}" text-anchor="middle">'
            f"{records[a]}</text>"
        )
    rows = -(-len(stops) // columns)
    return svg(parts, columns * (width + gap) - gap + 8, rows * 96 - 32, "The way of the data")


def svg(parts: list[str], width: float, height: float, title: str) -> str:
    """Return a picture that stands in a page."""
    return "\n".join(
        [
            f'<svg class="house" xmlns="http://www.w3.org/2000/svg" role="img" '
            f'viewBox="0 0 {width:g} {height:g}" style="max-width: {width:g}px">',
            f"<title>{title}</title>",
            f"<style>\n{STYLE}\n</style>",
            *parts,
            "</svg>\n",
        ]
    )


PICTURES = {"rooms.svg": draw_rooms, "flow.svg": draw_flow}


def main() -> None:
    """Write both pictures."""
    for name, draw in PICTURES.items():
        (STATIC / name).write_text(draw(), encoding="utf-8")


if __name__ == "__main__":
    main()
