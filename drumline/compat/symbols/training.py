"""Variables, gradients, functions, modules; control flow, and Python in compiled functions."""

from drumline.compat.symbols.table import area, same_names

_CHECKS = (
    "assert_equal assert_none_equal assert_less assert_less_equal assert_greater "
    "assert_greater_equal assert_positive assert_negative assert_non_negative "
    "assert_non_positive assert_near assert_rank assert_rank_at_least assert_rank_in "
    "assert_scalar assert_shapes assert_type assert_integer assert_same_float_dtype "
    "assert_proper_iterable assert_all_finite check_numerics is_numeric_tensor"
)

AREA = (
    *area(
        "drumline.compat.training.variable",
        TensorVariable="Variable",
        variable_creator_scope="variable_creator_scope",
        differences={
            "TensorVariable": "also one of Keras's; its shape is fixed; strings and constraint= "
            "are refused; validate_shape=, caching_device=, import_scope= have no effect"
        },
    ),
    *area(
        "drumline.compat.training.scopes",
        NameScope="name_scope",
        get_current_name_scope="get_current_name_scope",
        former_name_scope="compat.v1.name_scope",
    ),
    *area(
        "drumline.compat.training.tape",
        TensorTape="GradientTape autodiff.GradientTape",
        differences={"TensorTape": "a tensor that is watched becomes an array of JAX's in place"},
    ),
    *same_names(
        "drumline.compat.ops.control_flow",
        "",
        "cond case switch_case while_loop map_fn scan foldl foldr vectorized_map",
        differences={
            "while_loop": (
                "In a compiled function a loop with a traced condition has a gradient only with "
                "maximum_iterations; shape_invariants make the function run as Python."
            ),
            "map_fn": (
                "It gives no RaggedTensor, keeps the other axes if there are no elements, and in "
                "a compiled function it assigns no variable."
            ),
            "scan": "In a compiled function it assigns no variable.",
        },
    ),
    *area(
        "drumline.compat.ops.tensor_array",
        TensorSequence="TensorArray",
        differences={
            "TensorSequence": (
                "In a compiled function a loop over traced numbers writes to an array of known "
                "size; with dynamic_size, or a traced size, the function runs as Python."
            )
        },
    ),
    *area(
        "drumline.compat.ops.host",
        assert_true="Assert debugging.Assert",
        control_dependencies="control_dependencies",
        tuple_="tuple",
        identity_n="identity_n",
        differences={
            "assert_true": "A compiled function raises the error after it ran.",
        },
    ),
    *same_names("drumline.compat.ops.host", "debugging.", _CHECKS),
    *same_names(
        "drumline.compat.training.gradients",
        "",
        "custom_gradient grad_pass_through recompute_grad",
        differences={
            "custom_gradient": (
                "The function is computed again for the gradient; variables are passed to it as "
                "arguments."
            )
        },
    ),
    *same_names(
        "drumline.compat.training.autograph",
        "autograph.",
        "to_graph to_code set_verbosity trace",
        differences={"set_verbosity": "It has no effect: conversions write no log."},
    ),
    *same_names(
        "drumline.compat.training.autograph",
        "autograph.experimental.",
        "do_not_convert set_loop_options",
    ),
    *area(
        "drumline.compat.training.function",
        function="function",
        run_functions_eagerly="config.run_functions_eagerly",
        functions_run_eagerly="config.functions_run_eagerly",
        differences={
            "function": "XLA compiles always, each shape once: jit_compile= and reduce_retracing= "
            "have no effect; Python in it may run twice when it is compiled"
        },
    ),
    *area("drumline.compat.training.module", TensorModule="Module"),
    *same_names("drumline", "", "VariableAggregation VariableSynchronization UnconnectedGradients"),
)
