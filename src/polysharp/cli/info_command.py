"""``polysharp info``: what a model file says, in words or as code; or what is installed."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from platform import platform, python_version
from typing import Any

from polysharp._version import __version__
from polysharp.cli.command import ExitCode, say
from polysharp.cli.model_commands import check_single
from polysharp.cli.tables import check_outputs
from polysharp.data.files import write_file
from polysharp.engines import HOMES, engine_class
from polysharp.errors import InputError
from polysharp.estimators.model import covers, formulas_of
from polysharp.estimators.model_file.model_file import load_columns, load_model

REQUIRED = ("numpy", "scipy", "scikit-learn", "numba", "rich")
OPTIONAL = {
    **{"pandas": "tables", "pyarrow": "Parquet, Feather", "openpyxl": "Excel"},
    **{"matplotlib": "plots", "sympy": "to_sympy", "onnx": "to_onnx"},
    **{"python-flint": "exact checks of proofs", "pint": "units", "torch": "GPUs"},
    **{"dask": "tables beyond memory"},
}


def run_info(options: Namespace) -> int:
    """Show what was asked for."""
    form = getattr(options, "as")
    if options.output == "-":
        options.output = None  # standard output
    check_outputs(options, "output", reads=() if options.model is None else ("model",))
    if options.table is not None and form != "sql":
        raise InputError("--table names the table of an SQL query: it needs --as sql")
    if options.model is None:
        if form is not None:
            raise InputError("--as needs a model file: polysharp info MODEL --as ...")
        content: str | bytes = installed()
    else:
        model = load_model(options.model)
        kept = (load_columns(options.model) or {}).get("verdict") or {}
        content = exported(model, options) if form else described(model, kept.get("sentence"))
    if options.output is None:
        if isinstance(content, bytes):
            raise InputError("--as onnx is no text: name a file with --output")
        sys.stdout.write(content)
    else:
        write_file(options.output, content)
    return ExitCode.DONE


def exported(model: Any, options: Namespace) -> str | bytes:
    """Return the formula in another language; several responses stand one after the other."""
    each, form = formulas_of(model), getattr(options, "as")
    for option, given in (("--as onnx", form == "onnx"), ("--table", options.table is not None)):
        if given:
            check_single(model, options.model, option)
    if form == "onnx":
        binary: bytes = each[0].to_onnx().SerializeToString()
        return binary
    writers: dict[str, Callable[[Any, str], str]] = {
        "text": lambda polynomial, _: polynomial.formula(options.digits),
        "latex": lambda polynomial, _: polynomial.to_latex(options.digits),
        "sympy": lambda polynomial, _: str(polynomial.to_sympy()),
        "python": lambda polynomial, name: polynomial.to_python(name),
        "c": lambda polynomial, name: polynomial.to_c(name),
        "excel": lambda polynomial, _: polynomial.to_excel(),
        "sql": lambda polynomial, _: polynomial.to_sql(options.table),
    }
    names = [options.name]
    if len(each) > 1:
        names = [f"{options.name}_{t}" for t in range(len(each))]
    written = [writers[form](*pair).rstrip() for pair in zip(each, names, strict=True)]
    if form == "excel":
        used = [each[0].names[i] for i in each[0].inputs]
        say(f"for a row with {', '.join(used)} in its cells A2, B2, ... in this order")
    # A comment in each function says which response it is for.
    return ("\n\n\n" if form in ("python", "c") else "\n").join(written) + "\n"


def described(model: Any, verdict: str | None) -> str:
    """Return formulas, certificate, how it predicts, and settings in words."""
    formulas, said = formulas_of(model), covers(model)
    formula = formulas[0]
    parameters = {k: v for k, v in model.get_params().items() if v is not None and k != "verbose"}
    used = ", ".join(formula.names[i] for i in formula.inputs) or "none"
    rows = [[each.intercept, *each.coefficients.tolist()] for each in formulas]
    terms = [
        "".join(f"  {c:>24.16g}" for c in values) + f"  {name}"
        for name, *values in zip(("(intercept)", *formula.term_names), *rows, strict=True)
    ]
    if len(formulas) > 1:
        terms.insert(0, "".join(f"  {each.response:>24}" for each in formulas))
    lines = [
        *(f"{each.formula(6)}\n" for each in formulas),
        f"{model.solution_}\n",
        *(f"{words}\n" for words in (said, verdict) if words),
        f"inputs used ({len(formula.inputs)} of {len(formula.names)}): {used}",
        "coefficients:",
        *terms,
        "settings: " + ", ".join(f"{name}={value!r}" for name, value in parameters.items()),
    ]
    return "\n".join(lines) + "\n"


def installed() -> str:
    """Return versions, engines and optional libraries."""
    lines = [f"polysharp {__version__}, Python {python_version()}, {platform()}", ""]
    lines += ["libraries: " + ", ".join(f"{name} {_version(name)}" for name in REQUIRED), ""]
    lines += ["engines:"]
    for engine in HOMES:
        needed = {package: _version(package) for package in engine_class(engine).packages}
        missing = " ".join(package for package, found in needed.items() if not found)
        there = ", ".join(["there", *(f"{package} {found}" for package, found in needed.items())])
        lines.append(f"  {engine:<26}{f'not there: pip install {missing}' if missing else there}")
    lines += ["", "optional libraries:"]
    wide = max(map(len, OPTIONAL.values())) + len("()  ")
    for package, purpose in OPTIONAL.items():
        state = _version(package) or f"not there: pip install {package}"
        lines.append(f"  {package:<14}{f'({purpose})':<{wide}}{state}")
    return "\n".join(lines) + "\n"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
