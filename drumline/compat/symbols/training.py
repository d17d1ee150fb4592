"""Variables, gradients, functions, modules."""

from drumline.compat.symbols.table import area, same_names

AREA = (
    *area(
        "drumline.compat.training.variable",
        TensorVariable="Variable",
        differences={
            "TensorVariable": "also one of Keras's; its shape is fixed; strings and constraint= "
            "are refused; validate_shape=, caching_device=, import_scope= have no effect"
        },
    ),
    *area(
        "drumline.compat.training.tape",
        TensorTape="GradientTape autodiff.GradientTape",
        differences={"TensorTape": "a tensor that is watched becomes an array of JAX's in place"},
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
