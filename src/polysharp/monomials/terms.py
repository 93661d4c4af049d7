"""Terms and inputs as users write them, turned into indices.

An input is an index or a name.  A term is a sequence of inputs with repetition, ``("a", "a", 2)``,
or a product: ``"a^2 b"``, ``"a**2 * b"``.  Names that are not plain words may stand in backquotes,
as in formulas.  ``()`` and ``"1"`` are the constant.  Functions of inputs are written ``log(a)``,
powers of the inverse ``a^-2``.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

from polysharp.data.functions import INVERSE, PLAIN, Library, power_of
from polysharp.errors import InputError
from polysharp.typing import Monomial

EXPONENT = r"\s*(?:\^|\*\*)\s*(-?\d+)"
SEPARATOR = r"\s*[*·]\s*|\s+|$"


def read_inputs(given: Any, names: Sequence[str], parameter: str) -> tuple[int, ...]:
    """Return the sorted distinct indices of a list of inputs; None is the empty list."""
    return tuple(sorted({_input(item, names, parameter) for item in _items(given, parameter)}))


def read_terms(
    given: Any, names: Sequence[str], parameter: str, library: Library = PLAIN
) -> tuple[Monomial, ...]:
    """Return the distinct monomials of a list of terms; None is the empty list."""
    items = _items(given, parameter)
    return tuple(dict.fromkeys(_term(item, names, parameter, library) for item in items))


def write_term(monomial: Monomial, names: Sequence[str], library: Library = PLAIN) -> str:
    """Return a monomial as a user would write it.

    Examples
    --------
    >>> write_term((0, 0, 2), ["a", "b", "c d"])
    'a^2 c d'
    """
    columns, powers = library.column_names(names), Counter(monomial).items()
    return " ".join(power_of(columns[c], e) for c, e in powers) or "1"


def _items(given: Any, parameter: str) -> Iterable[Any]:
    if given is None:
        return ()
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InputError(f"{parameter} must be a list, got {given!r}")
    return given


def _term(item: Any, names: Sequence[str], parameter: str, library: Library) -> Monomial:
    if isinstance(item, str):
        return _product(item, names, parameter, library)
    if not isinstance(item, Iterable):
        raise InputError(
            f"{parameter} must list terms, each a tuple of inputs or a product such as 'x0^2 x3', "
            f"got {item!r}"
        )
    columns = library.column_names(names)
    return tuple(sorted(_input(factor, columns, parameter) for factor in item))


def _input(item: Any, names: Sequence[str], parameter: str) -> int:
    if isinstance(item, str):
        found = [i for i, known in enumerate(names) if known == item]
        if len(found) == 1:
            return found[0]
        rule = "name each column of X once, use indices instead" if found else "name inputs of X"
        raise InputError(f"{parameter} must {rule}, got {item!r}")
    if not isinstance(item, Integral) or isinstance(item, bool):
        raise InputError(f"{parameter} must hold names or indices of inputs, got {item!r}")
    if not 0 <= int(item) < len(names):
        raise InputError(
            f"{parameter} must hold indices from 0 to {len(names) - 1}, got {int(item)}"
        )
    return int(item)


def _product(text: str, names: Sequence[str], parameter: str, library: Library) -> Monomial:
    """Read ``"x0^2 x3"``: names from the longest down, since one may begin another."""
    quoted = library.column_names([f"`{name}`" for name in names])
    names = library.column_names(names)
    if text in names:
        return (_input(text, names, parameter),)
    if text.strip() == "1":
        return ()
    # Powers of the inverse, ``a^-1``, are read as exponents of the input.
    own = [""] * (len(names) - len(library.applied)) + [a.function.name for a in library.applied]
    plain = [c for c, function in enumerate(own) if function != INVERSE]
    spelled = {quoted[c]: names[c] for c in plain} | {names[c]: names[c] for c in plain}
    longest = "|".join(re.escape(s) for s in sorted(spelled, key=len, reverse=True))
    factor = re.compile(f"({longest})(?:{EXPONENT})?(?:{SEPARATOR})")
    factors: list[int] = []
    at, rest = 0, text.strip()
    while at < len(rest):
        found = factor.match(rest, at)
        if found is None:
            raise InputError(
                f"{parameter} must hold products of the inputs' names such as 'x0^2 x3', "
                f"got {text!r}"
            )
        name, exponent, at = spelled[found[1]], int(found[2] or 1), found.end()
        if exponent < 0 and f"{name}^-1" in names:
            name, exponent = f"{name}^-1", -exponent
        if exponent < 0:
            raise InputError(
                f"{parameter} must hold negative powers only of inputs with the function "
                f"{INVERSE!r}, got {text!r}"
            )
        factors += [_input(name, names, parameter)] * exponent
    return tuple(sorted(factors))
