"""How much a model computes: multiply-adds, counted in the program that it is traced to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import jax
import keras
import numpy as np


def multiply_adds(model: keras.Model, batch_size: int = 1) -> int:
    """Count the multiplications, each with an addition, of a model's forward pass.

    Those of convolutions and matrix products are counted, as papers and other libraries count
    them: a product of an image's border with padding counts as any other, and what is done to each
    value by itself (activations, normalization, pooling, biases) does not count. A training step
    computes about three times as much, and each multiply-add is two floating-point operations.

    The model is traced and not run, and its variables may have shapes alone.

    Args:
        model: A Keras model of one input or several, whose shapes are known but for the batch.
        batch_size: How many examples.

    Returns:
        The count, for all the examples.

    Raises:
        ValueError: The shape of an input is not known, or the model computes in a loop whose
            length follows from its values.

    Example:
        >>> from drumline.cnn import models
        >>> model = models.build("lenet")
        >>> models.multiply_adds(model)
        14034944
    """
    inputs = [_batch_of(value, batch_size) for value in model.inputs]
    trainable, others = _shapes(model.trainable_variables), _shapes(model.non_trainable_variables)

    def forward(trainable: Any, others: Any, inputs: Any) -> Any:
        values = inputs[0] if len(inputs) == 1 else inputs
        return model.stateless_call(trainable, others, values, training=False)[0]

    return _count(jax.make_jaxpr(forward)(trainable, others, inputs).jaxpr)


def _batch_of(value: Any, batch_size: int) -> jax.ShapeDtypeStruct:
    if None in value.shape[1:]:
        raise ValueError(
            f"multiply_adds: the input {value.name!r} has the shape {tuple(value.shape)}; give "
            "the model's Input a shape without None"
        )
    return jax.ShapeDtypeStruct((batch_size, *value.shape[1:]), np.dtype(value.dtype))


def _shapes(variables: list[Any]) -> list[jax.ShapeDtypeStruct]:
    return [
        jax.ShapeDtypeStruct(tuple(variable.shape), jax.numpy.dtype(variable.dtype))
        for variable in variables
    ]


def _count(jaxpr: Any) -> int:
    """Count those of a program and of the programs in it."""
    total = 0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name == "conv_general_dilated":
            total += _of_convolution(equation)
        elif name == "dot_general":
            total += _of_product(equation)
        elif name == "cond":
            total += max(_count(branch.jaxpr) for branch in equation.params["branches"])
        else:
            inner = sum(_count(program) for program in _programs(equation))
            if name == "while" and inner:
                raise ValueError(
                    "multiply_adds: the model multiplies in a loop that ends by a condition, so "
                    "that no one can say how often; count those of its parts"
                )
            total += inner * equation.params.get("length", 1) if name == "scan" else inner
    return total


def _programs(equation: Any) -> Iterator[Any]:
    for value in equation.params.values():
        for program in value if isinstance(value, tuple | list) else (value,):
            if hasattr(program, "eqns"):
                yield program
            elif hasattr(program, "jaxpr"):
                yield program.jaxpr


def _of_convolution(equation: Any) -> int:
    """Count one for each output and each weight that it depends on."""
    kernel = equation.invars[1].aval.shape
    output_channels = kernel[equation.params["dimension_numbers"].rhs_spec[0]]
    return math.prod(equation.outvars[0].aval.shape) * math.prod(kernel) // output_channels


def _of_product(equation: Any) -> int:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return math.prod(equation.outvars[0].aval.shape) * math.prod(left[axis] for axis in contracted)
