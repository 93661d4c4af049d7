"""The page: a template, ``page.html``, and what it is given."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from polysharp import wording
from polysharp._version import __version__
from polysharp.report import figures, markup, rival_section, sentences, size_section
from polysharp.report.markup import printable, tag
from polysharp.report.report_data import ReportData

# Nothing is loaded and nothing runs, whatever a page may contain.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(report: ReportData) -> str:
    """Return the whole document."""
    return _template().render(report=report)


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
    filters = ("number", "at_most", "percent", "share", "r_squared")
    environment.filters |= {name: getattr(wording, name) for name in filters}
    environment.filters["variable"] = lambda name: tag("var", name)
    own = files("polysharp.report")
    environment.globals |= {
        **{"figures": figures, "markup": markup, "sentences": sentences},
        **{"rival_section": rival_section, "size_section": size_section},
        **{"plural": wording.plural, "plus_minus": wording.plus_minus},
        **{"policy": POLICY, "version": __version__},
        # The style sheet is the package's own text; it holds no "</".
        "style": Markup(own.joinpath("style.css").read_text(encoding="utf-8")),
    }
    source = own.joinpath("page.html").read_text(encoding="utf-8")
    # Sentences that go over several lines of the template are one line of the page.
    return environment.from_string(re.sub(r"(?<!>)(?<!%})(?<!#})\n(?=\S)", " ", source))
