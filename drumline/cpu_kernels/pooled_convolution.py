"""Convolution, bias, relu and pooling in one kernel, in programs as JAX traced them.

A whole step is looked at after differentiation: a layer's forward pass and its gradients are found
by what they are made of. What is as large as the convolution's output is then never stored, and
the gradients take one product by window instead of one by output.
"""

from __future__ import annotations

from typing import Any

from drumline.cpu_kernels import jax_internals, kernels, pooled_layer
from drumline.cpu_kernels.convolution_call import Program
from drumline.cpu_kernels.pooled_layer import FULL_REGISTER
from drumline.cpu_kernels.pooled_pattern import Backward, Match, ProgramIndex, described, find


def rewrite(traced: Any, program: Program) -> Any:
    """The traced program with its layers replaced; itself if there are none."""
    if program.partitioned or program.exported or not kernels.available():
        return traced
    if not any(equation.primitive.name == "reduce_window_max" for equation in traced.eqns):
        return traced
    alive = jax_internals.without_dead_code(traced)
    reading = ProgramIndex(alive)
    matches = find(reading)
    if not matches:
        return traced
    replaced: dict[int, list[Any]] = {}
    for match in matches:
        replaced |= _replacements(reading, match)
    equations = [
        equation
        for number, original in enumerate(reading.equations)
        for equation in replaced.get(number, [original])
    ]
    return jax_internals.with_equations(alive, equations)


def _replacements(reading: ProgramIndex, match: Match) -> dict[int, list[Any]]:
    """The equations that take the place of others, by the number of the latter."""
    winners = jax_internals.new_variable(match.layer.pooled, "uint8")
    replaced: dict[int, list[Any]] = {number: [] for number in match.removed}
    replaced[match.relu] = _forward(reading, match, winners)
    for backward in match.backward:
        replaced |= _gradients(reading, match, backward, winners)
    return replaced


def _forward(reading: ProgramIndex, match: Match, winners: Any) -> list[Any]:
    like = reading.equations[match.relu]
    equations, bias = [], match.bias
    if bias is None:
        bias = jax_internals.new_variable((match.layer.weights[3],), "float32")
        equations.append(
            jax_internals.equation(pooled_layer.ZEROS, [], [bias], like, layer=match.layer)
        )
    results = [reading.output(match.pooling), winners]
    operands = [match.images, match.weights, bias]
    equations.append(
        jax_internals.equation(pooled_layer.FORWARD, operands, results, like, layer=match.layer)
    )
    return equations


def _gradients(
    reading: ProgramIndex, match: Match, backward: Backward, winners: Any
) -> dict[int, list[Any]]:
    """Replaces what uses the gradient of the outputs; for anything unknown it is written out."""
    gradient = reading.output(backward.masking)
    layer, source = match.layer, backward.source
    replaced: dict[int, list[Any]] = {}
    for number in reading.uses(gradient):
        user = reading.equations[number]
        options: dict[str, Any] = {"layer": layer}
        if _is_bias_gradient(user):
            primitive, operands = pooled_layer.BIAS_GRADIENT, [source, winners]
            options = {"shape": user.outvars[0].aval.shape}
        elif _is_weight_gradient(reading, number, match, gradient):
            primitive, operands = pooled_layer.WEIGHT_GRADIENT, [match.images, source, winners]
        elif _is_input_gradient(reading, number, match, gradient):
            primitive, operands = pooled_layer.INPUT_GRADIENT, [source, winners, match.weights]
        else:
            continue
        replaced[number] = [
            jax_internals.equation(primitive, operands, user.outvars, user, **options)
        ]
    unknown = reading.uses(gradient) - set(replaced)
    if unknown or gradient in reading.outputs:
        like = reading.equations[backward.masking]
        unpooled = jax_internals.equation(
            pooled_layer.UNPOOLED, [source, winners], [gradient], like, layer=layer
        )
        replaced[backward.masking] = [unpooled]
    return replaced


def _is_bias_gradient(equation: Any) -> bool:
    """Whether this sums the gradient by feature. JAX leaves out axes of one element."""
    if equation.primitive.name != "reduce_sum":
        return False
    left = set(range(4)) - set(equation.params["axes"])
    sizes = equation.invars[0].aval.shape
    return 3 in left and all(sizes[axis] == 1 for axis in left - {3})


def _is_weight_gradient(reading: ProgramIndex, number: int, match: Match, gradient: Any) -> bool:
    """Whether this is the gradient of the layer's weights, as JAX derives it."""
    call = _convolution(reading, number, [match.images, gradient])
    layer = match.layer
    return (
        call is not None
        and call.lhs_spec == (3, 0, 1, 2)
        and call.rhs_spec == (3, 0, 1, 2)
        and call.out_spec == (2, 3, 0, 1)
        and call.strides == (1, 1)
        and call.lhs_dilation == (1, 1)
        and call.rhs_dilation == layer.strides
        and tuple(low for low, _ in call.padding) == layer.origin
        and call.out_shape == layer.weights
    )


def _is_input_gradient(reading: ProgramIndex, number: int, match: Match, gradient: Any) -> bool:
    """Whether this is the gradient of the layer's images, as JAX derives it, at stride 1."""
    layer = match.layer
    inputs = reading.inputs(number)
    reversal = reading.definition(inputs[-1], "rev")
    if layer.strides != (1, 1) or layer.images[3] % FULL_REGISTER or reversal is None:
        return False
    if tuple(reading.equations[reversal].params["dimensions"]) != (0, 1):
        return False
    call = _convolution(reading, number, [gradient, inputs[-1]])
    kernel = layer.weights[:2]
    return (
        reading.inputs(reversal)[0] is match.weights
        and call is not None
        and call.lhs_spec == (0, 3, 1, 2)
        and call.rhs_spec == (2, 3, 0, 1)
        and call.out_spec == (0, 3, 1, 2)
        and call.strides == call.lhs_dilation == call.rhs_dilation == (1, 1)
        and all(
            low == size - 1 - before
            for (low, _), size, before in zip(call.padding, kernel, layer.origin, strict=True)
        )
        and call.out_shape == layer.images
    )


def _convolution(reading: ProgramIndex, number: int, operands: list[Any]) -> Any:
    """The convolution that this equation is, if it is one of `operands`."""
    equation = reading.equations[number]
    if equation.primitive.name != "conv_general_dilated":
        return None
    given = reading.inputs(number)
    if not all(a is b for a, b in zip(given, operands, strict=True)):
        return None
    return described(equation)
