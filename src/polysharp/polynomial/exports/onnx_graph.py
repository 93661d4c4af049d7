"""The formula as an ONNX model, in double precision.

With a column of ones beside the (shifted) inputs, every term is a product of exactly r factors:
the d-th factors of all terms together are one Gather of columns, so the graph has r Gathers,
r - 1 products and one matrix product, however many terms there are:

    X -> clamped -> [X - shift, f(X), 1] -> gather_1 * ... * gather_r -> @ coefficients
      -> + intercept

In another basis than that of monomials, P_1, P_2, ... of all inputs, (X - shift) / scale, take the
place of X - shift, and a term is a product of as many factors as it has inputs.

The input ``X`` has one column per input of the model, in the order of the table; the output
``prediction`` has one number per row, and so have ``lower`` and ``upper``, the ends of prediction
intervals, where they are wanted: the products once more, times a matrix, squared and added up.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from polysharp._version import __version__
from polysharp.errors import load_optional
from polysharp.polynomial.exports.code import check_finite, used_functions

if TYPE_CHECKING:
    from polysharp.polynomial.half_width import HalfWidth
    from polysharp.polynomial.polynomial import Polynomial

OPSET = 13  # old enough for every runtime in use
IR_VERSION = 8
OPERATORS = {
    **{"inverse": "Reciprocal", "square-root": "Sqrt"},
    **{name: name.capitalize() for name in ("log", "exp", "sin", "cos")},
}
OPTIONS = {"Gather": {"axis": 1}, "Concat": {"axis": 1}, "ReduceSum": {"keepdims": 0}}

Step = tuple[str, str, str]  # operator, what it is given, what it makes


def to_onnx(polynomial: Polynomial, interval: HalfWidth | None = None) -> Any:
    """Return an ``onnx.ModelProto`` in double precision, from ``X`` to ``prediction``.

    With ``interval`` it has the outputs ``lower`` and ``upper`` too.
    """
    load_optional("onnx", "to_onnx", "onnx")
    from onnx import TensorProto, checker, helper, numpy_helper

    check_finite(polynomial)
    constants = _constants(polynomial)
    steps = [
        *_products(polynomial),
        ("MatMul", "products coefficients", "sum"),
        ("Add", "sum intercept", "prediction"),
    ]
    outputs = ["prediction"]
    if interval is not None:
        more, fixed = _half_width(polynomial, interval)
        steps, constants, outputs = [*steps, *more], constants | fixed, [*outputs, "lower", "upper"]
    graph = helper.make_graph(
        [
            helper.make_node(kind, given.split(), [made], **OPTIONS.get(kind, {}))
            for kind, given, made in steps
        ],
        "polysharp",
        [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["rows", len(polynomial.names)])],
        [helper.make_tensor_value_info(name, TensorProto.DOUBLE, ["rows"]) for name in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(
        graph,
        producer_name="polysharp",
        producer_version=__version__,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )
    described = {"inputs": json.dumps(polynomial.names), "response": polynomial.response}
    helper.set_model_props(model, {**described, "formula": str(polynomial)})
    checker.check_model(model)
    return model


def _products(polynomial: Polynomial, of: str = "") -> list[Step]:
    """Return the steps from X to the products of inputs; ``of`` begins all names but X."""
    steps = [
        ("Max", "X low", "raised"),
        ("Min", "raised high", "clamped"),
        ("Sub", "clamped shifts", "shifted"),
    ]
    columns = "shifted"
    if polynomial.family.orthogonal:
        steps.append(("Div", "shifted scales", "order_1"))
        columns = "order_1"
        for d in range(1, _highest(polynomial)):
            below = "one" if d == 1 else f"order_{d - 1}"
            steps += [
                ("Mul", f"order_{d} order_1", f"order_{d}_raised"),
                ("Mul", f"order_{d}_raised step_{d}_a", f"order_{d}_first"),
                ("Mul", f"{below} step_{d}_b", f"order_{d}_second"),
                ("Sub", f"order_{d}_first order_{d}_second", f"order_{d}_both"),
                ("Div", f"order_{d}_both step_{d}_c", f"order_{d + 1}"),
            ]
            columns += f" order_{d + 1}"
    for c, applied in used_functions(polynomial, OPERATORS).items():
        operator = OPERATORS[applied.function.name]
        steps.append(("Gather", f"clamped input_{c}", f"input_{c}_values"))
        steps.append((operator, f"input_{c}_values", f"function_{c}"))
        columns += f" function_{c}"
    steps.append(("Concat", columns, "columns"))
    steps.append(("Pad", "columns one_column one", "padded"))
    product = "one"
    for d in range(_columns(polynomial).shape[1]):
        steps.append(("Gather", f"padded columns_{d}", f"factor_{d}"))
        steps.append(("Mul", f"{product} factor_{d}", f"factor_{d}_product"))
        product = f"factor_{d}_product"
    steps.append(("Identity", product, "products"))

    def named(names: str) -> str:
        return " ".join(name if name == "X" else f"{of}{name}" for name in names.split())

    return [(kind, named(given), named(made)) for kind, given, made in steps]


def _half_width(polynomial: Polynomial, half: HalfWidth) -> tuple[list[Step], dict[str, Any]]:
    """Return steps and initializers from X and the prediction to the ends of intervals."""
    law = replace(polynomial, ranges=half.rows[0].ranges) if half.rows else polynomial
    place = {m: a for a, m in enumerate(law.monomials)}
    root = np.zeros((max(1, len(place)), max(1, len(half.rows))))
    offset = np.zeros(root.shape[1])
    for i, row in enumerate(half.rows):
        root[[place[m] for m in row.monomials], i], offset[i] = row.coefficients, row.intercept
    fixed = {f"spread_{name}": value for name, value in _constants(law).items()} | {
        "spread_root": root,
        "spread_offset": offset,
        "spread_axis": np.array([1], dtype=np.int64),
        "spread_constant": np.array([half.constant]),
        "spread_factor": np.array([half.factor]),
    }
    steps = [
        *_products(law, "spread_"),
        ("MatMul", "spread_products spread_root", "spread_turned"),
        ("Add", "spread_turned spread_offset", "spread_rows"),
        ("Mul", "spread_rows spread_rows", "spread_squares"),
        ("ReduceSum", "spread_squares spread_axis", "spread_sum"),
        ("Add", "spread_sum spread_constant", "spread_whole"),
        ("Sqrt", "spread_whole", "spread"),
        ("Mul", "spread spread_factor", "half"),
        ("Sub", "prediction half", "lower"),
        ("Add", "prediction half", "upper"),
    ]
    return steps, fixed


def _constants(polynomial: Polynomial) -> dict[str, Any]:
    """Return the initializers."""
    p, columns = len(polynomial.names), _columns(polynomial)
    functions = used_functions(polynomial, OPERATORS)
    # A formula without terms is a zero multiple of the constant.
    coefficients = polynomial.coefficients if polynomial.monomials else np.zeros(1)
    shifts = np.zeros(p) if polynomial.shifts is None else polynomial.shifts
    everything = np.array([[-np.inf] * p, [np.inf] * p])
    low, high = everything if polynomial.ranges is None else polynomial.ranges
    return {
        "low": np.asarray(low, dtype=np.float64),
        "high": np.asarray(high, dtype=np.float64),
        "shifts": np.asarray(shifts, dtype=np.float64),
        **({} if polynomial.scales is None else {"scales": polynomial.scales}),
        **{
            f"step_{d}_{name}": np.array(float(value))
            for d in range(1, _highest(polynomial))
            for name, value in zip("abc", polynomial.family.step(d), strict=True)
        },
        "one_column": np.array([0, 0, 0, 1], dtype=np.int64),
        "one": np.array(1.0),
        **{f"input_{c}": np.array([a.input], dtype=np.int64) for c, a in functions.items()},
        **{f"columns_{d}": np.ascontiguousarray(c) for d, c in enumerate(columns.T)},
        "coefficients": np.asarray(coefficients, dtype=np.float64),
        "intercept": np.array([polynomial.intercept], dtype=np.float64),
    }


def _columns(polynomial: Polynomial) -> NDArray[np.int64]:
    """Return the factors of every term as columns of the padded table, the last one of ones."""
    p, functions = len(polynomial.names), used_functions(polynomial, OPERATORS)
    place = {c: p + t for t, c in enumerate(functions)}
    ones = p * _highest(polynomial) + len(functions)
    terms = [[place.get(c, c) for c in m] for m in polynomial.monomials] or [[]]
    if polynomial.family.orthogonal:
        products, factors = polynomial.basis.factored
        column = [p * (order - 1) + c for c, order in factors]
        terms = [[column[a] for a in term] for term in products.monomials] or [[]]
    r = max(1, *map(len, terms))
    return np.array([[*term, *[ones] * (r - len(term))] for term in terms], dtype=np.int64)


def _highest(polynomial: Polynomial) -> int:
    """Return the highest order of an orthogonal polynomial of one input; powers have none."""
    if not polynomial.family.orthogonal:
        return 1
    return max((m.count(c) for m in polynomial.monomials for c in m), default=1)
