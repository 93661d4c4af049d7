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

from polysharp._version import __version__
from polysharp.errors import InputError, load_optional
from polysharp.polynomial.exports.expression import check_finite, used_functions

if TYPE_CHECKING:
    from polysharp.polynomial.half_width import HalfWidth
    from polysharp.polynomial.polynomial import Polynomial

OPSET = 13  # old enough for every runtime in use
IR_VERSION = 8
OPERATORS = {
    "inverse": "Reciprocal",
    "square-root": "Sqrt",
    "log": "Log",
    "exp": "Exp",
    "sin": "Sin",
    "cos": "Cos",
}


def to_onnx(polynomial: Polynomial, interval: HalfWidth | None = None) -> Any:
    """Return an ``onnx.ModelProto``."""
    load_optional("onnx", "to_onnx", "onnx")
    from onnx import TensorProto, checker, helper, numpy_helper

    check_finite(polynomial)
    p = len(polynomial.names)
    constants = _constants(polynomial)
    nodes = [
        *_products(polynomial, constants),
        helper.make_node("MatMul", ["products", "coefficients"], ["sum"]),
        helper.make_node("Add", ["sum", "intercept"], ["prediction"]),
    ]
    outputs = ["prediction"]
    if interval is not None:
        more, fixed = _half_width(polynomial, interval)
        nodes, constants, outputs = [*nodes, *more], constants | fixed, [*outputs, "lower", "upper"]
    graph = helper.make_graph(
        nodes,
        "polysharp",
        [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["rows", p])],
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


def _products(polynomial: Polynomial, constants: dict[str, Any], of: str = "") -> list[Any]:
    """Return the nodes from X to the products of inputs; ``of`` begins all names but X."""
    from onnx import helper

    def node(kind: str, given: list[str], name: str, **options: Any) -> Any:
        named = [one if one == "X" else f"{of}{one}" for one in given]
        return helper.make_node(kind, named, [f"{of}{name}"], **options)

    nodes = [
        node("Max", ["X", "low"], "raised"),
        node("Min", ["raised", "high"], "clamped"),
        node("Sub", ["clamped", "shifts"], "shifted"),
    ]
    columns = ["shifted"]
    if polynomial.family.orthogonal:
        nodes.append(node("Div", ["shifted", "scales"], "order_1"))
        columns = ["order_1"]
        for d in range(1, _highest(polynomial)):
            below = "one" if d == 1 else f"order_{d - 1}"
            nodes += [
                node("Mul", [f"order_{d}", "order_1"], f"order_{d}_raised"),
                node("Mul", [f"order_{d}_raised", f"step_{d}_a"], f"order_{d}_first"),
                node("Mul", [below, f"step_{d}_b"], f"order_{d}_second"),
                node("Sub", [f"order_{d}_first", f"order_{d}_second"], f"order_{d}_both"),
                node("Div", [f"order_{d}_both", f"step_{d}_c"], f"order_{d + 1}"),
            ]
            columns.append(f"order_{d + 1}")
    for c, applied in used_functions(polynomial).items():
        name = applied.function.name
        if name not in OPERATORS:
            raise InputError(f"functions must be known to be exported, got {name!r}")
        nodes += [
            node("Gather", ["clamped", f"input_{c}"], f"input_{c}_values", axis=1),
            node(OPERATORS[name], [f"input_{c}_values"], f"function_{c}"),
        ]
        columns.append(f"function_{c}")
    nodes += [
        node("Concat", columns, "columns", axis=1),
        node("Pad", ["columns", "one_column", "one"], "padded"),
    ]
    product = "one"
    for name in (name for name in constants if name.startswith("columns_")):
        factor = name.replace("columns", "factor")
        nodes.append(node("Gather", ["padded", name], factor, axis=1))
        nodes.append(node("Mul", [product, factor], f"{factor}_product"))
        product = f"{factor}_product"
    return [*nodes, node("Identity", [product], "products")]


def _half_width(polynomial: Polynomial, half: HalfWidth) -> tuple[list[Any], dict[str, Any]]:
    """Return nodes and initializers from X and the prediction to the ends of intervals."""
    from onnx import helper

    law = replace(polynomial, ranges=half.rows[0].ranges) if half.rows else polynomial
    own, place = _constants(law), {m: a for a, m in enumerate(law.monomials)}
    root = np.zeros((max(1, len(place)), max(1, len(half.rows))))
    offset = np.zeros(root.shape[1])
    for i, row in enumerate(half.rows):
        root[[place[m] for m in row.monomials], i], offset[i] = row.coefficients, row.intercept
    fixed = {f"spread_{name}": value for name, value in own.items()} | {
        "spread_root": root,
        "spread_offset": offset,
        "spread_axis": np.array([1], dtype=np.int64),
        "spread_constant": np.array([half.constant]),
        "spread_factor": np.array([half.factor]),
    }
    steps = (
        ("MatMul", "spread_products spread_root", "spread_turned"),
        ("Add", "spread_turned spread_offset", "spread_rows"),
        ("Mul", "spread_rows spread_rows", "spread_squares"),
        ("ReduceSum", "spread_squares spread_axis", "spread_sum"),
        ("Add", "spread_sum spread_constant", "spread_whole"),
        ("Sqrt", "spread_whole", "spread"),
        ("Mul", "spread spread_factor", "half"),
        ("Sub", "prediction half", "lower"),
        ("Add", "prediction half", "upper"),
    )
    nodes = _products(law, own, "spread_")
    for kind, given, name in steps:
        options = {"keepdims": 0} if kind == "ReduceSum" else {}
        nodes.append(helper.make_node(kind, given.split(), [name], **options))
    return nodes, fixed


def _constants(polynomial: Polynomial) -> dict[str, Any]:
    """Return the initializers; the last column of the padded table is the one of ones."""
    p, family = len(polynomial.names), polynomial.family
    functions = used_functions(polynomial)
    place = {c: p + t for t, c in enumerate(functions)}
    ones = p * _highest(polynomial) + len(functions)
    monomials: Any = polynomial.monomials
    if family.orthogonal:
        products, factors = polynomial.basis.factored
        column = [p * (order - 1) + c for c, order in factors]
        monomials = [[column[a] for a in term] for term in products.monomials]
    # A formula without terms is a zero multiple of the constant.
    monomials = monomials or ((),)
    r = max(1, *map(len, monomials))
    coefficients = polynomial.coefficients if polynomial.monomials else np.zeros(1)
    columns = np.array(
        [[*(place.get(c, c) for c in m), *[ones] * (r - len(m))] for m in monomials],
        dtype=np.int64,
    )
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
            for name, value in zip("abc", family.step(d), strict=True)
        },
        "one_column": np.array([0, 0, 0, 1], dtype=np.int64),
        "one": np.array(1.0),
        **{f"input_{c}": np.array([a.input], dtype=np.int64) for c, a in functions.items()},
        **{f"columns_{d}": np.ascontiguousarray(columns[:, d]) for d in range(r)},
        "coefficients": np.asarray(coefficients, dtype=np.float64),
        "intercept": np.array([polynomial.intercept], dtype=np.float64),
    }


def _highest(polynomial: Polynomial) -> int:
    """Return the highest order of an orthogonal polynomial of one input; powers have none."""
    if not polynomial.family.orthogonal:
        return 1
    return max((m.count(c) for m in polynomial.monomials for c in m), default=1)
