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
from numpy.typing import NDArray

from polysharp._version import __version__
from polysharp.errors import load_optional
from polysharp.polynomial.exports.code import check_finite, used_functions

if TYPE_CHECKING:
    from polysharp.polynomial.polynomial import Polynomial

OPSET = 13  # old enough for every runtime in use
IR_VERSION = 8
OPERATORS = {
    **{"inverse": "Reciprocal", "square-root": "Sqrt"},
    **{name: name.capitalize() for name in ("log", "exp", "sin", "cos")},
}
OPTIONS = {"Gather": {"axis": 1}, "Concat": {"axis": 1}}

Step = tuple[str, str, str]  # operator, its inputs, its output


def to_onnx(polynomial: Polynomial) -> Any:
    """Return an ``onnx.ModelProto`` in double precision, from ``X`` to ``prediction``."""
    load_optional("onnx", "to_onnx", "onnx")
    from onnx import TensorProto, checker, helper, numpy_helper

    check_finite(polynomial)
    steps = [
        *_products(polynomial),
        ("MatMul", "products coefficients", "sum"),
        ("Add", "sum intercept", "prediction"),
    ]
    graph = helper.make_graph(
        [
            helper.make_node(kind, given.split(), [made], **OPTIONS.get(kind, {}))
            for kind, given, made in steps
        ],
        "polysharp",
        [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["rows", len(polynomial.names)])],
        [helper.make_tensor_value_info("prediction", TensorProto.DOUBLE, ["rows"])],
        [numpy_helper.from_array(value, name) for name, value in _constants(polynomial).items()],
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


def _products(polynomial: Polynomial) -> list[Step]:
    """Return the steps from X to the products of inputs."""
    steps = [
        ("Max", "X low", "raised"),
        ("Min", "raised high", "clamped"),
        ("Sub", "clamped shifts", "shifted"),
    ]
    columns = "shifted"
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
    return [*steps, ("Identity", product, "products")]


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
    ones = p + len(functions)
    terms = [[place.get(c, c) for c in m] for m in polynomial.monomials] or [[]]
    r = max(1, *map(len, terms))
    return np.array([[*term, *[ones] * (r - len(term))] for term in terms], dtype=np.int64)
