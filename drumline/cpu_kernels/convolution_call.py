"""A convolution as JAX's primitive describes it, seen with its channels last, in its program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import jax


class Program(NamedTuple):
    """The program that a call is lowered for."""

    partitioned: bool
    """Whether the compiler will split it over devices by itself."""
    exported: bool
    """Whether it is written down for other processes, which may not know this one's functions."""


@dataclass(frozen=True)
class ConvolutionCall:
    """Shapes and parameters of one convolution, whatever the order of its operands' axes.

    Follows ``jax.lax.conv_general_dilated``. Axes are named by what the primitive calls them; in
    a weight gradient as JAX writes it, ``batch`` is the layer's input channels, ``features`` the
    layer's batch, and the kernel is the gradient of the layer's output.
    """

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]
    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    out_shape: tuple[int, ...]
    dtype: Any
    out_dtype: Any
    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    precision: Any

    @property
    def batch(self) -> int:
        """Size of the axis that lhs and output share."""
        return self.lhs_shape[self.lhs_spec[0]]

    @property
    def features(self) -> int:
        """Size of the axis that lhs and rhs contract, besides the spatial ones."""
        return self.lhs_shape[self.lhs_spec[1]]

    @property
    def out_features(self) -> int:
        """Size of the axis that rhs and output share."""
        return self.rhs_shape[self.rhs_spec[0]]

    @property
    def lhs_spatial(self) -> tuple[int, ...]:
        """Spatial sizes of the lhs."""
        return tuple(self.lhs_shape[axis] for axis in self.lhs_spec[2:])

    @property
    def kernel(self) -> tuple[int, ...]:
        """Spatial sizes of the rhs."""
        return tuple(self.rhs_shape[axis] for axis in self.rhs_spec[2:])

    @property
    def out_spatial(self) -> tuple[int, ...]:
        """Spatial sizes of the output."""
        return tuple(self.out_shape[axis] for axis in self.out_spec[2:])

    def order_out(self, result: jax.Array, axes: Sequence[int]) -> jax.Array:
        """Transposes ``result`` into the output's order of axes.

        Args:
            result: an array with the output's axes in another order.
            axes: for every axis of ``result``, the axis of the output that it is.
        """
        inverse = sorted(range(len(axes)), key=lambda position: axes[position])
        return result.transpose(inverse)


def describe(
    lhs: Any,
    rhs: Any,
    out: Any,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    precision: Any,
    **_: Any,
) -> ConvolutionCall:
    """The call that the primitive's parameters and its abstract operands and result make."""
    lhs_spec, rhs_spec, out_spec = dimension_numbers
    return ConvolutionCall(
        lhs_spec=tuple(lhs_spec),
        rhs_spec=tuple(rhs_spec),
        out_spec=tuple(out_spec),
        lhs_shape=lhs.shape,
        rhs_shape=rhs.shape,
        out_shape=out.shape,
        dtype=lhs.dtype,
        out_dtype=out.dtype,
        strides=tuple(window_strides),
        padding=tuple((low, high) for low, high in padding),
        lhs_dilation=tuple(lhs_dilation),
        rhs_dilation=tuple(rhs_dilation),
        precision=precision,
    )
