"""The formula as an ONNX model, in double precision.

With a column of ones beside the (shifted) inputs, every term is a product of exactly r factors:
the d-th factors of all terms together are one Gather of columns, so the graph has r Gathers,
r products and one matrix product, however many terms there are:

    X -> clamped -> [X - shift, f(X), 1] -> gather_1 * ... * gather_r -> @ coefficients
      -> + intercept
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from polysharp._version import __version__
from polysharp.errors import load_optional
from polysharp.polynomial.code import CALLS, check_finite, used_functions

if TYPE_CHECKING:
    from polysharp.polynomial.polynomial import Polynomial

OPSET = 13  # old enough for every runtime in use
IR_VERSION = 8
OPTIONS = {"Gather": {"axis": 1}, "Concat": {"axis": 1}}

Step = tuple[str, str, str]  # operator, its inputs, its output


def to_onnx(polynomial: Polynomial) -> Any:
    """Return an ``onnx.ModelProto`` in double precision, from ``X`` to ``prediction``.

    ``X`` has one column per input of the model, in the order of the table.
    """
    load_optional("onnx", "to_onnx", "onnx")
    from onnx import TensorProto, checker, helper, numpy_helper

    steps, numbers, places = _graph(polynomial)
    graph = helper.make_graph(
        [
            helper.make_node(kind, given.split(), [made], **OPTIONS.get(kind, {}))
            for kind, given, made in steps
        ],
        "polysharp",
        [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["rows", len(polynomial.names)])],
        [helper.make_tensor_value_info("prediction", TensorProto.DOUBLE, ["rows"])],
        [
            numpy_helper.from_array(np.array(value, dtype=kind), name)
            for constants, kind in ((numbers, np.float64), (places, np.int64))
            for name, value in constants.items()
        ],
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


def _graph(polynomial: Polynomial) -> tuple[list[Step], dict[str, Any], dict[str, list[int]]]:
    """Return the steps from X to the prediction, the numbers and the places of columns."""
    check_finite(polynomial)
    p, functions = len(polynomial.names), used_functions(polynomial)
    ranges = [[-np.inf] * p, [np.inf] * p] if polynomial.ranges is None else polynomial.ranges
    numbers = {
        "low": ranges[0],
        "high": ranges[1],
        "shifts": np.zeros(p) if polynomial.shifts is None else polynomial.shifts,
        "one": 1.0,
        # A formula without terms is a zero multiple of the constant.
        "coefficients": polynomial.coefficients if polynomial.monomials else [0.0],
        "intercept": [polynomial.intercept],
    }
    places = {"one_column": [0, 0, 0, 1]}
    steps = [
        ("Max", "X low", "raised"),
        ("Min", "raised high", "clamped"),
        ("Sub", "clamped shifts", "shifted"),
    ]
    columns = "shifted"
    for c, applied in functions.items():
        places[f"input_{c}"] = [applied.input]
        steps.append(("Gather", f"clamped input_{c}", f"input_{c}_values"))
        steps.append((CALLS[applied.function.name][-1], f"input_{c}_values", f"function_{c}"))
        columns += f" function_{c}"
    steps += [("Concat", columns, "columns"), ("Pad", "columns one_column one", "padded")]
    at, ones, product = {c: p + t for t, c in enumerate(functions)}, p + len(functions), "one"
    terms = [[at.get(c, c) for c in m] for m in polynomial.monomials] or [[]]
    for d in range(max(1, polynomial.degree)):
        places[f"columns_{d}"] = [term[d] if d < len(term) else ones for term in terms]
        steps.append(("Gather", f"padded columns_{d}", f"factor_{d}"))
        steps.append(("Mul", f"{product} factor_{d}", f"product_{d}"))
        product = f"product_{d}"
    steps += [("MatMul", f"{product} coefficients", "sum"), ("Add", "sum intercept", "prediction")]
    return steps, numbers, places
