"""Variables, gradients, functions, modules."""

from drumline.compat.symbols.table import area, same_names

AREA = (
    *area("drumline.compat.training.variable", TensorVariable="Variable"),
    *area("drumline.compat.training.tape", TensorTape="GradientTape autodiff.GradientTape"),
    *area(
        "drumline.compat.training.function",
        function="function",
        run_functions_eagerly="config.run_functions_eagerly",
        functions_run_eagerly="config.functions_run_eagerly",
    ),
    *area("drumline.compat.training.module", TensorModule="Module"),
    *same_names("drumline", "", "VariableAggregation VariableSynchronization UnconnectedGradients"),
)
