"""The page: a template, ``page.html``, and what it is given."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from polysharp._version import __version__
from polysharp.progress import plural
from polysharp.report import figures, rivals, sizes, words
from polysharp.report.facts import Facts
from polysharp.report.html import printable, tag

# Nothing is loaded and nothing runs, whatever a page may contain.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(facts: Facts) -> str:
    """Return the whole document."""
    return _template().render(facts=facts)


@cache
def _template() -> Template:
    environment = Environment(
        autoescape=True,
        finalize=printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    writers = (words.number, words.at_most, words.percent, words.share, words.r_squared)
    environment.filters |= {writer.__name__: writer for writer in writers}
    environment.filters["variable"] = lambda name: tag("var", name)
    own = files("polysharp.report")
    environment.globals |= {
        **{"figures": figures, "picture": rivals, "sizes": sizes, "words": words},
        **{"plural": plural, "policy": POLICY, "version": __version__},
        # The style sheet is the package's own text; it holds no "</".
        "style": Markup(own.joinpath("style.css").read_text(encoding="utf-8")),
    }
    source = own.joinpath("page.html").read_text(encoding="utf-8")
    # Sentences that go over several lines of the template are one line of the page.
    return environment.from_string(re.sub(r"(?<!>)(?<!%})(?<!#})\n(?=\S)", " ", source))
