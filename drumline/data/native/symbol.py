"""What a traced function sees of a string, and of an array whose shape varies."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from drumline.data.ragged_spec import RaggedTensorSpec
from drumline.data.spec import TensorSpec


class ValueNeedsPython(TypeError):
    """A traced function looked at the contents of a string, or at an array of unknown shape.

    Args:
        varying: whether it makes arrays whose shapes vary between elements.
    """

    def __init__(self, reason: str, varying: bool = False):
        super().__init__(reason)
        self.varying = varying


class Symbol:
    """Stands for such a value while tracing: for native operations, or to be handed on.

    Strings are compared by ``==`` and ``!=``, and arrays of them indexed, by native operations.

    Attributes:
        spec: of the value.
        handle: a tracer that stands for it in the program; it holds no number of the value.
    """

    __slots__ = ("handle", "spec")
    # numpy's arrays then leave comparisons with a symbol to the symbol.
    __array_ufunc__ = None
    spec: TensorSpec
    handle: Any

    def __init__(self, spec: TensorSpec, handle: Any):
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "handle", handle)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Its dimensions; ``None`` for those that vary between elements."""
        return self.spec.shape

    @property
    def dtype(self) -> np.dtype:
        """Of the value; numpy's object dtype for ``bytes``."""
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.spec.shape)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        if self.spec.is_string:
            raise ValueNeedsPython("the function computes with a string")
        raise ValueNeedsPython(
            f"the function computes with an array whose shape varies between elements ({self.spec})"
        )

    def __eq__(self, other: object) -> Any:
        return self._compared(other, negated=False)

    def __ne__(self, other: object) -> Any:
        return self._compared(other, negated=True)

    def _compared(self, other: object, negated: bool) -> Any:
        from drumline.data.native.string_operators import compared

        made = compared(self, other, negated)
        return self._refuse() if made is None else made

    def __getitem__(self, key: Any) -> Any:
        from drumline.data.native.string_operators import indexed

        made = indexed(self, key)
        return self._refuse() if made is None else made

    def __array_function__(self, function: Any, _: Any, arguments: Any, named: Any) -> Any:
        from drumline.data.native.string_operators import called

        made = called(function, *arguments, **named)
        return self._refuse() if made is None else made

    __getattr__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __bool__ = __len__ = __iter__ = __contains__ = __invert__ = __neg__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __pow__ = __matmul__ = _refuse
    __str__ = __repr__ = __format__ = __bytes__ = __hash__ = __setattr__ = _refuse
    __array__ = __int__ = __float__ = __index__ = __fspath__ = _refuse


def is_symbolic(spec: TensorSpec) -> bool:
    """Whether values of a spec appear as symbols: no compiled program can hold them."""
    return spec.is_string or not spec.is_static or isinstance(spec, RaggedTensorSpec)
