"""The formula as an ONNX model, in double precision.

With a column of ones beside the (shifted) inputs, every term is a product of exactly r factors:
the d-th factors of all terms together are one Gather of columns, so the graph has r Gathers,
r - 1 products and one matrix product, however many terms there are:

    X -> clamped -> [X - shift, f(X), 1] -> gather_1 * ... * gather_r -> @ coefficients
      -> + intercept

The input ``X`` has one column per input of the model, in the order of the table; the output
``prediction`` has one number per row.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp._version import __version__
from polysharp.errors import InputError, load_optional
from polysharp.polynomial.exports.expression import check_finite, used_functions

if TYPE_CHECKING:
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


def to_onnx(polynomial: Polynomial) -> Any:
    """Return an ``onnx.ModelProto``."""
    load_optional("onnx", "to_onnx", "onnx")
    from onnx import TensorProto, checker, helper, numpy_helper

    check_finite(polynomial)
    p = len(polynomial.names)
    constants = _constants(polynomial)
    nodes = [
        helper.make_node("Max", ["X", "low"], ["raised"]),
        helper.make_node("Min", ["raised", "high"], ["clamped"]),
        helper.make_node("Sub", ["clamped", "shifts"], ["shifted"]),
    ]
    columns = ["shifted"]
    for c, applied in used_functions(polynomial).items():
        name = applied.function.name
        if name not in OPERATORS:
            raise InputError(f"functions must be known to be exported, got {name!r}")
        nodes += [
            helper.make_node("Gather", ["clamped", f"input_{c}"], [f"input_{c}_values"], axis=1),
            helper.make_node(OPERATORS[name], [f"input_{c}_values"], [f"function_{c}"]),
        ]
        columns.append(f"function_{c}")
    nodes += [
        helper.make_node("Concat", columns, ["columns"], axis=1),
        helper.make_node("Pad", ["columns", "one_column", "one"], ["padded"]),
    ]
    product = ""
    for name in (name for name in constants if name.startswith("columns_")):
        factor = name.replace("columns", "factor")
        nodes.append(helper.make_node("Gather", ["padded", name], [factor], axis=1))
        if product:
            nodes.append(helper.make_node("Mul", [product, factor], [f"{factor}_product"]))
            factor = f"{factor}_product"
        product = factor
    nodes += [
        helper.make_node("MatMul", [product, "coefficients"], ["sum"]),
        helper.make_node("Add", ["sum", "intercept"], ["prediction"]),
    ]
    graph = helper.make_graph(
        nodes,
        "polysharp",
        [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["rows", p])],
        [helper.make_tensor_value_info("prediction", TensorProto.DOUBLE, ["rows"])],
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


def _constants(polynomial: Polynomial) -> dict[str, Any]:
    """Return the initializers; the last column of the padded table is the one of ones."""
    p, r = len(polynomial.names), max(1, polynomial.degree)
    functions = used_functions(polynomial)
    place = {c: p + t for t, c in enumerate(functions)}
    ones = p + len(functions)
    # A formula without terms is a zero multiple of the constant.
    monomials = polynomial.monomials or ((),)
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
        "one_column": np.array([0, 0, 0, 1], dtype=np.int64),
        "one": np.array(1.0),
        **{f"input_{c}": np.array([a.input], dtype=np.int64) for c, a in functions.items()},
        **{f"columns_{d}": np.ascontiguousarray(columns[:, d]) for d in range(r)},
        "coefficients": np.asarray(coefficients, dtype=np.float64),
        "intercept": np.array([polynomial.intercept], dtype=np.float64),
    }
