"""Control flow of ``tf.compat.v1``."""

from __future__ import annotations

from typing import Any

from drumline.compat.symbols import table
from drumline.compat.v1.functions.former import former

cond = former(
    "cond",
    "cond",
    "pred true_fn false_fn strict name fn1 fn2",
    {"fn1": "true_fn", "fn2": "false_fn"},
    "strict name",
)
while_loop = former(
    "while_loop",
    "while_loop",
    "cond body loop_vars shape_invariants parallel_iterations back_prop swap_memory name "
    "maximum_iterations return_same_structure",
    {},
    "parallel_iterations back_prop swap_memory name return_same_structure",
)
map_fn = former(
    "map_fn",
    "map_fn",
    "fn elems dtype parallel_iterations back_prop swap_memory infer_shape name fn_output_signature",
    {"dtype": "fn_output_signature"},
    "parallel_iterations back_prop swap_memory infer_shape name",
)
foldl, foldr = (
    former(
        kind,
        kind,
        "fn elems initializer parallel_iterations back_prop swap_memory name",
        {},
        "parallel_iterations back_prop swap_memory name",
    )
    for kind in ("foldl", "foldr")
)
scan = former(
    "scan",
    "scan",
    "fn elems initializer parallel_iterations back_prop swap_memory infer_shape reverse name",
    {},
    "parallel_iterations back_prop swap_memory infer_shape name",
)
py_func = former("py_func", "numpy_function", "func inp Tout stateful name", {})
set_random_seed = former("set_random_seed", "random.set_seed", "seed", {})
case = former(
    "case", "case", "pred_fn_pairs default exclusive strict name", {}, "exclusive strict name"
)
device = former(
    "device",
    "device",
    "device_name_or_function",
    {"device_name_or_function": "device_name"},
)
to_graph = former(
    "to_graph",
    "autograph.to_graph",
    "entity recursive arg_values arg_types experimental_optional_features",
    {},
    "arg_values arg_types",
)
to_code = former(
    "to_code",
    "autograph.to_code",
    "entity recursive arg_values arg_types indentation experimental_optional_features",
    {},
    "arg_values arg_types indentation",
)


def print_(
    input_: Any,
    data: Any,
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: Any = None,
) -> Any:
    """The first tensor; it prints others when it is computed.

    Args:
        input_: what is given back.
        data: the tensors to print.
        message: what is printed before them.
        first_n: no effect: it prints each time.
        summarize: how many elements of each; 3 by default.
        name: no effect.
    """
    target: Any = table.find("print")
    target.load()(message or "", *data, summarize=summarize or 3)
    return input_
