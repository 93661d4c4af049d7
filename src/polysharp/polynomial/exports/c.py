"""The formula as a C function (C99, also valid C++), without headers but for functions of inputs.

It takes the inputs that the formula uses, in the order of the columns, as doubles.  Compilers
read the numbers back exactly; those that fuse products and sums differ in the last digit.  A second
function, which needs ``sqrt``, stores the ends of prediction intervals, where they are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from polysharp.polynomial.exports.expression import (
    arguments,
    clamped,
    comment,
    signed_terms,
    squares,
    used_functions,
)

if TYPE_CHECKING:
    from polysharp.polynomial.half_width import HalfWidth
    from polysharp.polynomial.polynomial import Polynomial

# C and C++; the last line is what compilers predefine as macros or treat as keywords.
WORDS = """
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
CALLS = {
    "inverse": "(1.0 / {})",
    "square-root": "sqrt({})",
    **{name: f"{name}({{}})" for name in ("log", "exp", "sin", "cos")},
}
RESERVED = frozenset({*WORDS.split(), "sqrt", "log", "exp", "sin", "cos"})


def to_c(polynomial: Polynomial, name: str = "predict", interval: HalfWidth | None = None) -> str:
    """Return the source of a function of that name, and of one for intervals."""
    own = () if interval is None else (f"{name}_interval", "middle", "half", "low", "high")
    variables = arguments(polynomial, name, {*RESERVED, *own}, ascii_only=True)
    declared = ", ".join(f"double {argument}" for argument in variables.values())
    lines = [f"double {name}({declared or 'void'})", "{"]
    needed = any(a.function.name != "inverse" for a in used_functions(polynomial).values())
    if needed or interval is not None:
        lines[:0] = ["#include <math.h>", ""]
    lines += [f"    // returns {comment(polynomial.response)}"]
    lines += [
        f"    // {argument}: {comment(polynomial.names[i])}" for i, argument in variables.items()
    ]
    lines += _clamping(polynomial, variables)
    first, *others = signed_terms(polynomial, variables, calls=CALLS)
    lines += [f"    return {first}"]
    lines += [f"        {term}" for term in others]
    lines[-1] += ";"
    lines += ["}", ""]
    if interval is not None:
        pointers = ", ".join(part for part in (declared, "double *low", "double *high") if part)
        lines += [f"void {name}_interval({pointers})", "{"]
        lines += [f"    // ends of intervals that hold {100 * interval.coverage:g} % of new rows"]
        lines += [f"    double middle = {name}({', '.join(variables.values())}), half;"]
        lines += [line for row in interval.rows[:1] for line in _clamping(row, variables)]
        lines += [f"    half = {interval.factor!r} * sqrt("]
        lines += [f"        {term}" for term in squares(interval, variables, calls=CALLS)]
        lines += ["    );", "    *low = middle - half;", "    *high = middle + half;", "}", ""]
    return "\n".join(lines)


def _clamping(polynomial: Polynomial, variables: Mapping[int, str]) -> list[str]:
    return [
        f"    {x} = {x} < {a!r} ? {a!r} : {x} > {b!r} ? {b!r} : {x};"
        for x, a, b in clamped(polynomial, variables)
    ]
