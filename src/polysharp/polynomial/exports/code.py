"""The formula as code: a function in Python or C, an expression or a query in SQL, in SymPy.

A ``Language`` says how to write numbers, functions of inputs and clamped inputs; one method writes
the sum of products for all languages.  A term begins with its coefficient, so that the first
product turns integer columns into floats and no power of an integer can overflow.  Functions take
the inputs in use, in the order of the columns.  SymPy turns the names into symbols unchanged.

    Python   imports nothing but NumPy's log, exp, sin and cos; takes numbers or arrays
    C        C99, also valid C++; compilers that fuse products and sums differ in the last digit
    Excel    one cell's formula, with the functions' English names; inputs in cells beside it
    SQL      needs no POWER; functions are the standard's (LN, which SQL Server calls LOG); numbers
             have an exponent, so that the standard reads floats and not decimals; a NULL in a
             column of the formula gives NULL
"""

from __future__ import annotations

import json
import keyword
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.errors import InputError, load_optional

if TYPE_CHECKING:
    from polysharp.data.functions import Applied
    from polysharp.polynomial.polynomial import Polynomial

NUMPY = ("log", "exp", "sin", "cos")
# Keywords of C and C++; compilers predefine the words of the last line as macros.
C_WORDS = """
auto break case char const continue default do double else enum extern float for goto if inline
int long register restrict return short signed sizeof static struct switch typedef union unsigned
void volatile while alignas alignof bool constexpr false nullptr static_assert thread_local true
typeof typeof_unqual
and and_eq asm bitand bitor catch char8_t char16_t char32_t class co_await co_return co_yield
compl concept consteval constinit const_cast decltype delete dynamic_cast explicit export friend
mutable namespace new noexcept not not_eq operator or or_eq private protected public
reinterpret_cast requires static_cast template this throw try typeid typename using virtual
wchar_t xor xor_eq
linux unix i386 near far main
"""
QUOTES = {'"': '"', "`": "`", "[": "]"}  # opening and closing quote: standard, MySQL, SQL Server


@dataclass(frozen=True)
class Language:
    """The parts of the code that differ between languages."""

    calls: Mapping[str, str]  # functions, {} for the argument
    clamp: str  # of {x} to the range from {a} to {b}
    comment: str = ""
    number: Callable[[float], str] = repr
    reserved: frozenset[str] = frozenset()

    def terms(self, polynomial: Polynomial, variables: Mapping[int, str]) -> list[str]:
        """Return ``["0.5", "+ 2.0 * x0 * x0", ...]``, to be joined by blanks or line breaks."""
        check_finite(polynomial)
        factors = {i: self._shifted(polynomial, i, name) for i, name in variables.items()}
        for c, applied in used_functions(polynomial, self.calls).items():
            factors[c] = self.calls[applied.function.name].format(variables[applied.input])
        first = self.number(abs(polynomial.intercept))
        terms = [f"-{first}" if polynomial.intercept < 0 else first]
        for m, c in zip(polynomial.monomials, polynomial.coefficients.tolist(), strict=True):
            powers = [factors[i] for i in sorted(m, key=m.index)]
            product = " * ".join([self.number(abs(c)), *powers])
            terms.append(f"{'-' if c < 0 else '+'} {product}")
        return terms

    def clamped(self, polynomial: Polynomial, variables: Mapping[int, str]) -> dict[int, str]:
        """Return the code that clamps each input in use, nothing without ranges."""
        if polynomial.ranges is None:
            return {}
        low, high = ([self.number(end) for end in limits] for limits in polynomial.ranges.tolist())
        return {i: self.clamp.format(x=x, a=low[i], b=high[i]) for i, x in variables.items()}

    def opening(self, polynomial: Polynomial, variables: Mapping[int, str]) -> list[str]:
        """Return the first lines of a function: the names of the columns, and the clamping."""
        described = {"returns": polynomial.response} | {
            f"{argument}:": polynomial.names[i] for i, argument in variables.items()
        }
        # JSON keeps a name in a comment on one line, in ASCII and between quotes.
        lines = [f"{self.comment} {what} {json.dumps(name)}" for what, name in described.items()]
        return lines + list(self.clamped(polynomial, variables).values())

    def _shifted(self, polynomial: Polynomial, i: int, name: str) -> str:
        if shift := polynomial.shift(i):
            return f"({name} {'-' if shift > 0 else '+'} {self.number(abs(shift))})"
        return name


def _sql_float(value: float) -> str:
    text = repr(value)
    return text if "e" in text else f"{text}e0"


CALLS = {"inverse": "(1.0 / {})", **{name: f"{name}({{}})" for name in NUMPY}}
PYTHON = Language(
    {**CALLS, "square-root": "{} ** 0.5"},
    clamp="{x} = ({x} < {a}) * {a} + ({x} > {b}) * {b} + (({x} >= {a}) & ({x} <= {b})) * {x}",
    comment="#",
    reserved=frozenset({*keyword.kwlist, "__debug__", *NUMPY}),
)
C = Language(
    {**CALLS, "square-root": "sqrt({})"},
    clamp="{x} = {x} < {a} ? {a} : {x} > {b} ? {b} : {x};",
    comment="//",
    reserved=frozenset({*C_WORDS.split(), "sqrt", *NUMPY}),
)
EXCEL = Language(
    {name: call.upper() for name, call in CALLS.items()}
    | {"inverse": "(1 / {})", "square-root": "SQRT({})", "log": "LN({})"},
    clamp="MEDIAN({a}, {x}, {b})",
    number=lambda value: repr(value).upper(),
)
SQL = Language(
    {name: call.upper() for name, call in CALLS.items()}
    | {"inverse": "(1.0e0 / {})", "square-root": "SQRT({})", "log": "LN({})"},
    clamp="CASE WHEN {x} < {a} THEN {a} WHEN {x} > {b} THEN {b} ELSE {x} END",
    number=_sql_float,
)


def to_python(polynomial: Polynomial, name: str = "predict") -> str:
    """Return the source of a Python function of the inputs in use.

    Names that are not identifiers are changed; comments say which column each argument is.

    Examples
    --------
    >>> from polysharp import Polynomial
    >>> law = Polynomial(((0, 0), (2,)), np.array([2.0, -0.5]), 1.5, ("a", "b", "air gap"))
    >>> print(law.to_python())
    def predict(a, air_gap):
        # returns "y"
        # a: "a"
        # air_gap: "air gap"
        return (
            1.5
            + 2.0 * a * a
            - 0.5 * air_gap
        )
    """
    variables = arguments(polynomial, name, PYTHON.reserved)
    needed = {a.function.name for a in used_functions(polynomial, PYTHON.calls).values()}
    imported = ", ".join(name for name in NUMPY if name in needed)
    lines = [f"from numpy import {imported}", "", ""] if imported else []
    body = [*PYTHON.opening(polynomial, variables), "return ("]
    body += [*_indented(PYTHON.terms(polynomial, variables)), ")"]
    lines += [f"def {name}({', '.join(variables.values())}):", *_indented(body), ""]
    return "\n".join(lines)


def to_c(polynomial: Polynomial, name: str = "predict") -> str:
    """Return the source of a C function of the inputs in use.

    Examples
    --------
    >>> from polysharp import Polynomial
    >>> print(Polynomial(((0, 0),), np.array([2.0]), -1.5, ("a",)).to_c("power"))
    double power(double a)
    {
        // returns "y"
        // a: "a"
        return -1.5
            + 2.0 * a * a;
    }
    """
    variables = arguments(polynomial, name, C.reserved, ascii_only=True)
    declared = [f"double {argument}" for argument in variables.values()]
    needed = {a.function.name for a in used_functions(polynomial, C.calls).values()} - {"inverse"}
    lines = ["#include <math.h>", ""] if needed else []
    first, *others = C.terms(polynomial, variables)
    body = [*C.opening(polynomial, variables), f"return {first}", *_indented(others)]
    body[-1] += ";"
    lines += [f"double {name}({', '.join(declared) or 'void'})", "{", *_indented(body), "}", ""]
    return "\n".join(lines)


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def to_excel(polynomial: Polynomial, row: int = 2) -> str:
    """Return a cell's formula; the inputs in use stand in the cells A, B, ... of a row.

    Examples
    --------
    >>> from polysharp import Polynomial
    >>> law = Polynomial(((0, 0), (2,)), np.array([2.0, -0.5]), 1.5, ("a", "b", "air gap"))
    >>> print(law.to_excel())
    =1.5 + 2.0 * A2 * A2 - 0.5 * B2
    """
    cells = {i: f"{_column(at)}{row}" for at, i in enumerate(polynomial.inputs)}
    terms = EXCEL.terms(polynomial, cells | EXCEL.clamped(polynomial, cells))
    return f"={' '.join(terms)}"


def _column(at: int) -> str:
    """Return the letters of a column, numbered from 0."""
    letters = ""
    while at >= 0:
        at, letter = divmod(at, 26)
        letters, at = f"{chr(ord('A') + letter)}{letters}", at - 1
    return letters


def to_sql(polynomial: Polynomial, table: str | None = None, quote: str = '"') -> str:
    """Return a SQL expression, or with ``table`` the query that evaluates it.

    ``quote`` opens a quoted name: ``"`` in standard SQL, a backtick in MySQL, ``[`` in SQL Server.

    Examples
    --------
    >>> from polysharp import Polynomial
    >>> print(Polynomial(((0, 0),), np.array([2.0]), -1.5, ("air gap",)).to_sql())
    -1.5e0 + 2.0e0 * "air gap" * "air gap"
    """
    if quote not in QUOTES:
        raise InputError(f"quote must be one of {', '.join(QUOTES)}, got {quote!r}")
    check_distinct(polynomial)
    variables = {i: _quoted(polynomial.names[i], quote) for i in polynomial.inputs}
    terms = SQL.terms(polynomial, variables | SQL.clamped(polynomial, variables))
    if table is None:
        return " ".join(terms)
    body = "\n       ".join(terms)
    named = _quoted(polynomial.response, quote)
    return f"SELECT {body}\n    AS {named}\nFROM {_quoted(table, quote)}"


def _quoted(name: str, quote: str) -> str:
    """Quote a name; a closing quote within it is doubled."""
    if not name or "\0" in name:
        raise InputError(f"names must be neither empty nor hold a NUL for SQL, got {name!r}")
    closing = QUOTES[quote]
    return f"{quote}{name.replace(closing, closing * 2)}{closing}"


def to_sympy(polynomial: Polynomial) -> Any:
    """Return the right-hand side as a SymPy expression in symbols of the inputs' names.

    The expression clamps no inputs, even if the model does.
    """
    sympy = load_optional("sympy", "to_sympy", "sympy")
    check_distinct(polynomial)
    symbols = [sympy.Symbol(name) for name in polynomial.names]
    shifts = map(polynomial.shift, range(len(symbols)))
    factors = [x - s if s else x for x, s in zip(symbols, shifts, strict=True)]
    for applied in polynomial.functions:
        x, name = symbols[applied.input], applied.function.name
        known = {"inverse": lambda x: 1 / x, "square-root": sympy.sqrt}
        call = known.get(name) or getattr(sympy, name, None) or sympy.Function(name)
        factors.append(call(x))
    expression = sympy.Float(polynomial.intercept)
    for m, c in zip(polynomial.monomials, polynomial.coefficients, strict=True):
        expression += float(c) * sympy.Mul(*(factors[i] for i in m))
    return expression


def used_functions(polynomial: Polynomial, known: Mapping[str, str]) -> dict[int, Applied]:
    """Return the functions in use by column; raise InputError for one that is not known."""
    columns, p = {c for m in polynomial.monomials for c in m}, len(polynomial.names)
    used = {p + t: a for t, a in enumerate(polynomial.functions) if p + t in columns}
    for name in (applied.function.name for applied in used.values()):
        if name not in known:
            raise InputError(f"functions must be known to be exported, got {name!r}")
    return used


def check_finite(polynomial: Polynomial) -> None:
    """Raise InputError for coefficients that are not finite."""
    given = polynomial.intercept, polynomial.coefficients, polynomial.shifts, polynomial.ranges
    for value in np.concatenate([np.ravel(part) for part in given if part is not None]).tolist():
        if not np.isfinite(value):
            raise InputError(f"coefficients and shifts must be finite to be exported, got {value}")


def check_distinct(polynomial: Polynomial) -> None:
    """Raise InputError if two inputs in use have one name."""
    for name, count in Counter(polynomial.names[i] for i in polynomial.inputs).items():
        if count > 1:
            raise InputError(f"names must be distinct to be exported, got {name!r} twice")


def arguments(
    polynomial: Polynomial, name: str, reserved: Collection[str], *, ascii_only: bool = False
) -> dict[int, str]:
    """Return the argument of each input in use, for a function called ``name``."""
    if not (name.isascii() and name.isidentifier()) or name in reserved:
        raise InputError(f"name must be an ASCII identifier that is no keyword, got {name!r}")
    names = [polynomial.names[i] for i in polynomial.inputs]
    found = identifiers(names, {*reserved, name}, ascii_only=ascii_only)
    return dict(zip(polynomial.inputs, found, strict=True))


def identifiers(
    names: Iterable[str], reserved: Collection[str], *, ascii_only: bool = False
) -> list[str]:
    """Turn names into distinct identifiers that are not reserved words.

    Characters that identifiers may not hold become ``_``; a name that is taken gets a number.

    Examples
    --------
    >>> identifiers(["air gap", "air_gap", "2nd", "for"], {"for"})
    ['air_gap', 'air_gap_2', 'x_2nd', 'for_']
    """
    taken: set[str] = set(reserved)
    found = []
    for name in names:
        base = _identifier(name, ascii_only)
        if base in reserved:
            base += "_"
        candidate, number = base, 2
        while candidate in taken:
            candidate, number = f"{base}_{number}", number + 1
        taken.add(candidate)
        found.append(candidate)
    return found


def _identifier(name: str, ascii_only: bool) -> str:
    # Python compares identifiers in this normal form.
    text = "".join(
        ch if f"x{ch}".isidentifier() and (ch.isascii() or not ascii_only) else "_"
        for ch in unicodedata.normalize("NFKC", name)
    )
    # A leading underscore is reserved in C and private in Python.
    return text if text[:1].isidentifier() and text[0] != "_" else f"x_{text.lstrip('_')}"
