"""What a traced function sees of a string, and of an array whose shape varies."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from drumline.data.elements.ragged import RaggedTensorSpec
from drumline.data.elements.spec import TensorSpec


class ValueNeedsPython(TypeError):
    """A traced function looked at the contents of a string, or at an array of unknown shape.

    Args:
        varying: whether it makes arrays whose shapes vary between elements.
        remedy: what to change about the function, so that it does not need to.
    """

    def __init__(self, reason: str, varying: bool = False, remedy: str = ""):
        super().__init__(f"{reason}; {remedy}" if remedy else reason)
        self.varying = varying
        self.remedy = remedy


class Symbol:
    """Stands for such a value while tracing: for native operations, or to be handed on.

    Strings are compared by ``==`` and ``!=``, and arrays of them indexed, by native operations;
    ``reshape`` to a fixed shape makes a tracer of what varies in shape.

    Attributes:
        spec: of the value.
        handle: a tracer that stands for it in the program; it holds no number of the value.
        maker: the name of the native operation that makes it; empty for a leaf of the element.
    """

    __slots__ = ("handle", "maker", "spec")
    # numpy's arrays then leave comparisons with a symbol to the symbol.
    __array_ufunc__ = None
    spec: TensorSpec
    handle: Any
    maker: str

    def __init__(self, spec: TensorSpec, handle: Any, maker: str = ""):
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "handle", handle)
        object.__setattr__(self, "maker", maker)

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
        reason = (
            f"the function computes with an array whose shape varies between elements ({self.spec})"
        )
        remedy = ""
        if self.maker == "io.decode_raw":
            remedy = (
                "where all strings have one length, give decode_raw fixed_length=, or "
                ".reshape(...) right behind it, and the function is compiled"
            )
        raise ValueNeedsPython(reason, remedy=remedy)

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """Its values in a fixed shape, as a tracer."""
        from drumline.data.native.reshaping import reshaped

        made = reshaped(self, shape, order)
        return self._refuse() if made is None else made

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
