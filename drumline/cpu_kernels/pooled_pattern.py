"""Finding convolutions with bias, relu and pooling, and their gradients, in a program."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from drumline.cpu_kernels import direct_convolution, jax_internals
from drumline.cpu_kernels.convolution_call import ConvolutionCall, describe
from drumline.cpu_kernels.pooled_layer import MOST_OUTPUTS, PooledLayer

_NESTED = ("jit", "pjit", "custom_jvp_call")


class ProgramIndex:
    """A program, read once. Copies of a value are taken for the value itself."""

    def __init__(self, program: Any) -> None:
        self.equations = list(program.eqns)
        self._original: dict[Any, Any] = {}
        self._definition: dict[Any, int] = {}
        self._uses: dict[Any, set[int]] = defaultdict(set)
        self._copies: dict[Any, set[int]] = defaultdict(set)
        for number, equation in enumerate(self.equations):
            if equation.primitive.name == "copy":
                value = self.value(equation.invars[0])
                self._original[equation.outvars[0]] = value
                if jax_internals.is_variable(value):
                    self._copies[value].add(number)
                continue
            for variable in equation.outvars:
                self._definition[variable] = number
            for atom in equation.invars:
                if jax_internals.is_variable(atom):
                    self._uses[self.value(atom)].add(number)
        self.outputs = {
            self.value(atom) for atom in program.outvars if jax_internals.is_variable(atom)
        }

    def value(self, atom: Any) -> Any:
        """What `atom` is a copy of, or `atom` itself."""
        if not jax_internals.is_variable(atom):
            return atom
        return self._original.get(atom, atom)

    def inputs(self, number: int) -> list[Any]:
        """The values that an equation takes."""
        return [self.value(atom) for atom in self.equations[number].invars]

    def output(self, number: int) -> Any:
        """The one value that an equation defines."""
        return self.equations[number].outvars[0]

    def uses(self, value: Any) -> set[int]:
        """The numbers of the equations that take a value."""
        return self._uses[value]

    def copies(self, value: Any) -> set[int]:
        """The numbers of the equations that copy a value."""
        return self._copies[value]

    def definition(self, value: Any, name: str) -> int | None:
        """The number of the equation that defines `value`, if its primitive is called `name`."""
        number = self._definition.get(value) if jax_internals.is_variable(value) else None
        if number is None or self.equations[number].primitive.name != name:
            return None
        return number

    def is_zero(self, atom: Any) -> bool:
        """Whether this is the constant zero, in any shape."""
        if not jax_internals.is_variable(atom):
            return _is_scalar_zero(atom)
        number = self.definition(atom, "broadcast_in_dim")
        return number is not None and _is_scalar_zero(self.equations[number].invars[0])

    def relu(self, value: Any) -> tuple[int, Any] | None:
        """The equation that makes `value` the greater of zero and another value, and that value."""
        number = self._definition.get(value)
        if number is None:
            return None
        equation = self.equations[number]
        if equation.primitive.name != "max" and not is_relu(equation):
            return None
        inputs = self.inputs(number)
        if equation.primitive.name == "max" and self.is_zero(inputs[0]):
            inputs.reverse()
        if len(inputs) == 2 and not self.is_zero(inputs[1]):
            return None
        return (number, inputs[0]) if jax_internals.is_variable(inputs[0]) else None


def is_relu(equation: Any) -> bool:
    """Whether the equation calls a program that takes the greater of zero and its only operand."""
    program = jax_internals.called_program(equation, _NESTED)
    if program is None or len(program.eqns) != 1 or len(program.invars) != 1:
        return False
    (inner,) = program.eqns
    if len(program.outvars) != 1 or program.outvars[0] is not inner.outvars[0]:
        return False
    if inner.invars[0] is not program.invars[0]:
        return False
    if inner.primitive.name == "max":
        return _is_scalar_zero(inner.invars[1])
    return is_relu(inner)


def _is_scalar_zero(atom: Any) -> bool:
    return jax_internals.is_literal(atom) and atom.aval.shape == () and bool(atom.val == 0)


@dataclass(frozen=True)
class Backward:
    """How the gradient of the pooled outputs becomes that of the convolution's outputs."""

    source: Any
    """The gradient of the pooled outputs."""
    scatter: int
    """The equation of the pooling's gradient."""
    masking: int
    """The equation of the relu's gradient, which defines the gradient of the outputs."""


@dataclass
class Match:
    """The equations and values of one layer."""

    layer: PooledLayer
    images: Any
    weights: Any
    bias: Any | None
    biased: Any
    """What the relu takes."""
    relu: int
    pooling: int
    removed: set[int]
    backward: list[Backward] = field(default_factory=list)


def find(reading: ProgramIndex) -> list[Match]:
    """Find all layers whose values as large as the convolution's output have no other use."""
    found = []
    for number, equation in enumerate(reading.equations):
        if equation.primitive.name == "reduce_window_max":
            match = _layer(reading, number)
            if match is not None and _complete(reading, match):
                found.append(match)
    return found


def _layer(reading: ProgramIndex, pooling: int) -> Match | None:
    """The layer that ends in the equation `pooling`, its gradients aside."""
    windows = _windows(**reading.equations[pooling].params)
    relu = reading.relu(reading.inputs(pooling)[0])
    if windows is None or relu is None:
        return None
    number, biased = relu
    removed = {pooling, number}
    bias, convolved = None, biased
    addition = reading.definition(biased, "add")
    if addition is not None:
        removed.add(addition)
        convolved, bias = _bias(reading, addition)
        if reading.uses(convolved) != {addition}:
            return None
    convolution = reading.definition(convolved, "conv_general_dilated")
    if convolution is None or reading.outputs & {convolved, biased}:
        return None
    removed.add(convolution)
    layer = _shapes(reading.equations[convolution], windows)
    if layer is None or (bias is not None and bias.aval.dtype != "float32"):
        return None
    images, weights = reading.inputs(convolution)
    return Match(layer, images, weights, bias, biased, number, pooling, removed)


def _windows(
    *,
    window_dimensions: tuple[int, ...],
    window_strides: tuple[int, ...],
    padding: Any,
    base_dilation: tuple[int, ...] | None = None,
    window_dilation: tuple[int, ...] | None = None,
    **_: Any,
) -> tuple[int, ...] | None:
    """Height and width of windows that do not overlap, in images with channels last."""
    plain = all(d == 1 for d in (*(base_dilation or ()), *(window_dilation or ())))
    if not plain or any(low or high for low, high in padding) or len(window_dimensions) != 4:
        return None
    if tuple(window_dimensions) != tuple(window_strides):
        return None
    batch, height, width, channels = window_dimensions
    if batch != 1 or channels != 1 or not 1 < height * width <= MOST_OUTPUTS:
        return None
    return height, width


def _bias(reading: ProgramIndex, addition: int) -> tuple[Any, Any]:
    """Of the operands of an addition, the convolution's output and the bias by channel."""
    first, second = reading.inputs(addition)
    if reading.definition(first, "conv_general_dilated") is None:
        first, second = second, first
    features = first.aval.shape[-1:]
    if second.aval.shape == first.aval.shape:
        number = reading.definition(second, "broadcast_in_dim")
        if number is None:
            return None, None
        second = reading.inputs(number)[0]
    by_channel = second.aval.shape[-1:] == features and second.aval.size == features[0]
    return (first, second) if by_channel else (None, None)


def _shapes(equation: Any, windows: tuple[int, ...]) -> PooledLayer | None:
    call = described(equation)
    if call is None or not direct_convolution.is_forward(call) or call.rhs_spec != (3, 2, 0, 1):
        return None
    if any(n < w for n, w in zip(call.out_spatial, windows, strict=True)):
        return None
    origin = tuple(low for low, _ in call.padding)
    return PooledLayer(
        call.lhs_shape, call.rhs_shape, call.out_spatial, call.strides, origin, windows
    )


def described(equation: Any) -> ConvolutionCall | None:
    """The convolution of an equation, if drumline's kernels can take it."""
    params = equation.params
    (out,) = equation.outvars
    avals = [atom.aval for atom in (*equation.invars, out)]
    if not jax_internals.static(avals) or jax_internals.explicit(avals):
        return None
    if params["feature_group_count"] != 1 or params["batch_group_count"] != 1:
        return None
    if any(str(a.dtype) != "float32" for a in avals) or min(math.prod(a.shape) for a in avals) == 0:
        return None
    return describe(*avals, **params)


def _complete(reading: ProgramIndex, match: Match) -> bool:
    """Finds the gradients, and tells whether nothing else uses what will not be there any more."""
    output = reading.output(match.relu)
    biased = match.biased
    masks = reading.uses(biased) - {match.relu}
    scatters = reading.uses(output) - {match.pooling}
    if output in reading.outputs or not all(_is_mask(reading, mask, biased) for mask in masks):
        return False
    maskings = set()
    for scatter in scatters:
        backward = _backward(reading, scatter, match, {reading.output(mask) for mask in masks})
        if backward is None:
            return False
        match.backward.append(backward)
        maskings.add(backward.masking)
    for mask in masks:
        value = reading.output(mask)
        if value in reading.outputs or not reading.uses(value) <= maskings:
            return False
    match.removed |= masks | scatters | maskings
    for number in tuple(match.removed - {match.pooling} - maskings):
        match.removed |= reading.copies(reading.output(number))
    return True


def _is_mask(reading: ProgramIndex, number: int, value: Any) -> bool:
    inputs = reading.inputs(number)
    is_greater = reading.equations[number].primitive.name == "gt"
    return is_greater and inputs[0] is value and reading.is_zero(inputs[1])


def _backward(
    reading: ProgramIndex, scatter: int, match: Match, masks: set[Any]
) -> Backward | None:
    equation = reading.equations[scatter]
    if equation.primitive.name != "select_and_scatter_add":
        return None
    source, operand = reading.inputs(scatter)
    if source is operand or equation.params["select_prim"].name != "ge":
        return None
    if _windows(**equation.params) != match.layer.windows or operand is not reading.output(
        match.relu
    ):
        return None
    uses = reading.uses(reading.output(scatter))
    if len(uses) != 1 or reading.output(scatter) in reading.outputs:
        return None
    (masking,) = uses
    if reading.equations[masking].primitive.name != "select_n":
        return None
    mask, otherwise, *rest = reading.inputs(masking)
    if mask not in masks or not reading.is_zero(otherwise) or rest != [reading.output(scatter)]:
        return None
    return Backward(source, scatter, masking)
