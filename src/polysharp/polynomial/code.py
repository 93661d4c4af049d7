"""The formula as code: in Python, C, Excel, SQL and SymPy.

Every target evaluates the same sum of products,

    intercept + sum_j c_j (x_a - shift_a) (x_b - shift_b) ...,

with every number written so that it reads back as the same float64 and every power as a product,
since not every language has powers of floats.  A term begins with its coefficient, so that the
first product turns integer columns into floats and no power of an integer can overflow.  Names of
columns are data from the user's table: they are quoted, escaped or turned into identifiers, and
never become code.

A ``Language`` is a table of syntax; one method writes the sum of products for all languages.
Functions take the inputs in use, in the order of the columns.

    Python   imports nothing but NumPy's log, exp, sin and cos; takes numbers or arrays
    C        C99, also valid C++; compilers that fuse products and sums differ in the last digit
    Excel    one cell's formula, with the functions' English names; inputs in cells beside it
    SQL      needs no POWER; functions are the standard's (LN, which SQL Server calls LOG); numbers
             have an exponent, so that the standard reads floats and not decimals; a NULL in a
             column of the formula gives NULL
    SymPy    turns the names into symbols unchanged, and clamps nothing
"""

from __future__ import annotations

import json
import keyword
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp.errors import InputError, load_optional
from polysharp.polynomial.text import signed
from polysharp.typing import Monomial

if TYPE_CHECKING:
    from polysharp.data.functions import Applied
    from polysharp.polynomial.polynomial import Polynomial

# Every function of an input in Python, C, Excel, SQL and ONNX; {} is the argument.
CALLS = {
    "inverse": ("(1.0 / {})", "(1.0 / {})", "(1 / {})", "(1.0e0 / {})", "Reciprocal"),
    "square-root": ("{} ** 0.5", "sqrt({})", "SQRT({})", "SQRT({})", "Sqrt"),
    "log": ("log({})", "log({})", "LN({})", "LN({})", "Log"),
    "exp": ("exp({})", "exp({})", "EXP({})", "EXP({})", "Exp"),
    "sin": ("sin({})", "sin({})", "SIN({})", "SIN({})", "Sin"),
    "cos": ("cos({})", "cos({})", "COS({})", "COS({})", "Cos"),
}
NUMPY = ("log", "exp", "sin", "cos")  # that Python code imports
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
    """The syntax that differs between languages."""

    place: int  # in the rows of CALLS
    clamp: str  # of {x} to the range from {a} to {b}
    comment: str = ""
    number: Callable[[float], str] = repr
    reserved: frozenset[str] = frozenset()

    def arguments(self, polynomial: Polynomial, name: str) -> dict[int, str]:
        """Return the argument of each input in use, for a function called ``name``."""
        if not (name.isascii() and name.isidentifier()) or name in self.reserved:
            raise InputError(f"name must be an ASCII identifier that is no keyword, got {name!r}")
        names = [polynomial.names[i] for i in polynomial.inputs]
        found = identifiers(names, {*self.reserved, name}, ascii_only=self is C)
        return dict(zip(polynomial.inputs, found, strict=True))

    def terms(self, polynomial: Polynomial, variables: Mapping[int, str]) -> list[str]:
        """Return ``["0.5", "+ 2.0 * x0 * x0", ...]``, to be joined by blanks or line breaks."""
        check_finite(polynomial)
        factors = dict(variables)
        for i, name in variables.items():
            if shift := polynomial.shift(i):
                factors[i] = f"({name} {'-' if shift > 0 else '+'} {self.number(abs(shift))})"
        for c, applied in used_functions(polynomial).items():
            call = CALLS[applied.function.name][self.place]
            factors[c] = call.format(variables[applied.input])

        def product(m: Monomial) -> list[str]:
            return [factors[c] for c in sorted(m, key=m.index)]

        return list(map("".join, signed(polynomial, self.number, product, " * ", zero=True)))

    def clamped(self, polynomial: Polynomial, variables: Mapping[int, str]) -> dict[int, str]:
        """Return the code that clamps each input in use, nothing without ranges."""
        if polynomial.ranges is None:
            return {}
        low, high = ([self.number(end) for end in limits] for limits in polynomial.ranges.tolist())
        return {i: self.clamp.format(x=x, a=low[i], b=high[i]) for i, x in variables.items()}

    def opening(self, polynomial: Polynomial, variables: Mapping[int, str]) -> list[str]:
        """Return the first lines of a function: the names of the columns, and the clamping."""
        columns = {f"{name}:": polynomial.names[i] for i, name in variables.items()}
        described = {"returns": polynomial.response, **columns}
        # JSON keeps a name in a comment on one line, in ASCII and between quotes.
        lines = [f"{self.comment} {key} {json.dumps(name)}" for key, name in described.items()]
        return lines + list(self.clamped(polynomial, variables).values())


PYTHON = Language(
    0,
    clamp="{x} = ({x} < {a}) * {a} + ({x} > {b}) * {b} + (({x} >= {a}) & ({x} <= {b})) * {x}",
    comment="#",
    reserved=frozenset({*keyword.kwlist, "__debug__", *NUMPY}),
)
C = Language(
    1,
    clamp="{x} = {x} < {a} ? {a} : {x} > {b} ? {b} : {x};",
    comment="//",
    reserved=frozenset({*C_WORDS.split(), "sqrt", *NUMPY}),
)
EXCEL = Language(2, clamp="MEDIAN({a}, {x}, {b})", number=lambda value: repr(value).upper())
SQL = Language(
    3,
    clamp="CASE WHEN {x} < {a} THEN {a} WHEN {x} > {b} THEN {b} ELSE {x} END",
    number=lambda value: repr(value) if "e" in repr(value) else f"{value!r}e0",
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
    variables = PYTHON.arguments(polynomial, name)
    needed = {a.function.name for a in used_functions(polynomial).values()}
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
    variables = C.arguments(polynomial, name)
    declared = [f"double {argument}" for argument in variables.values()]
    needed = {a.function.name for a in used_functions(polynomial).values()} - {"inverse"}
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
    before, letter = divmod(at, 26)
    return (_column(before - 1) if before else "") + chr(ord("A") + letter)


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


def used_functions(polynomial: Polynomial) -> dict[int, Applied]:
    """Return the functions in use by column; raise InputError for one that is not known."""
    columns, p = {c for m in polynomial.monomials for c in m}, len(polynomial.names)
    used = {p + t: a for t, a in enumerate(polynomial.functions) if p + t in columns}
    for applied in used.values():
        if applied.function.name not in CALLS:
            raise InputError(
                f"functions must be known to be exported, got {applied.function.name!r}"
            )
    return used


def check_finite(polynomial: Polynomial) -> None:
    """Raise InputError for coefficients that are not finite."""
    given = polynomial.intercept, polynomial.coefficients, polynomial.shifts, polynomial.ranges
    for value in np.concatenate([np.ravel(part) for part in given if part is not None]).tolist():
        if not np.isfinite(value):
            raise InputError(f"coefficients and shifts must be finite to be exported, got {value}")


def check_distinct(polynomial: Polynomial) -> None:
    """Raise InputError if two inputs in use have one name."""
    for name, times in Counter(polynomial.names[i] for i in polynomial.inputs).items():
        if times > 1:
            raise InputError(f"names must be distinct to be exported, got {name!r} twice")


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
    found: list[str] = []
    for name in names:
        # Python compares identifiers in this normal form.
        base = "".join(
            ch if f"x{ch}".isidentifier() and (ch.isascii() or not ascii_only) else "_"
            for ch in unicodedata.normalize("NFKC", name)
        )
        # A leading underscore is reserved in C and private in Python.
        if not base[:1].isidentifier() or base[0] == "_":
            base = f"x_{base.lstrip('_')}"
        base += "_" if base in reserved else ""
        numbered = (base if number == 1 else f"{base}_{number}" for number in count(1))
        found.append(next(c for c in numbered if c not in found and c not in reserved))
    return found
