"""`Hashing` and `HashedCrossing`: strings and integers to bins by their hash."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from drumline._core import hash_strings, print_integers
from drumline.data.elements.spec import STRING, ElementSpec, TensorSpec
from drumline.data.functions.native.apply import apply
from drumline.data.functions.native.flat import flat
from drumline.data.functions.native.operation import Column, NativeOperation, OperationResult
from drumline.data.functions.native.strings import is_dense, one, with_dtype
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.keras.layers.encoding import (
    checked_mode,
    encoded,
    encoded_shape,
    refuse_sparse,
    symbolic,
)
from drumline.keras.layers.host_layer import (
    HostLayer,
    compiles,
    host_values,
    is_string,
    serializable,
)
from drumline.keras.layers.index_lookup import checked_salt
from drumline.strings.fingerprints import HASH_KEY, fingerprints, joined


def _require_hashable(layer: str, spec: TensorSpec) -> None:
    """Refuse what is neither strings nor integers.

    Raises:
        TypeError: it is something else.
    """
    if spec.dtype != STRING and spec.dtype.kind not in "iu":
        raise TypeError(
            f"{layer}: expected strings or integers, got {spec.dtype} values; use "
            "keras.layers.Discretization to make integers of them"
        )


def texts_of(values: np.ndarray) -> np.ndarray:
    """Strings as they are, integers in decimal digits."""
    if values.dtype == STRING:
        return values
    signed = values.dtype.kind == "i"
    whole = np.ascontiguousarray(values.astype(np.int64 if signed else np.uint64))
    return print_integers(whole.view(np.int64), signed, b"", -1)


@dataclasses.dataclass(frozen=True)
class HashBins(NativeOperation):
    """The bin of each string or integer.

    Attributes:
        bins: how many there are, that of the mask included.
        mask: what has the bin 0, where nothing else is.
        key: of SipHash; None for FarmHash.
        dtype: of the bins.
    """

    bins: int
    mask: bytes | int | None
    key: tuple[int, int] | None
    dtype: str

    @property
    def name(self) -> str:
        return "Hashing"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        (values,) = arguments
        _require_hashable(self.name, values)
        return one(with_dtype(values, np.dtype(self.dtype)))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        given = flat(columns[0])
        first = int(self.mask is not None and self.bins > 1)
        bins = first + hash_strings(texts_of(given.values), self.bins - first, self.key)
        if self.mask is not None:
            bins[np.asarray(given.values == self.mask, bool)] = 0
        return OperationResult([given.put(bins.astype(self.dtype, copy=False))])


@serializable("Hashing")
class Hashing(HostLayer):
    """Strings and integers to bins by their hash, as ``keras.layers.Hashing``.

    Keras's own layer needs TensorFlow. This one gives the same bins, in `map` by a native
    operation.

    Args:
        num_bins: how many bins there are, that of ``mask_value`` included.
        mask_value: what gets the bin 0, where nothing else is.
        salt: one or two integers, the key of SipHash; None for FarmHash.
        output_mode: ``"int"``, ``"one_hot"``, ``"multi_hot"`` or ``"count"``.
        sparse: must be False.
        options: of `keras.Layer`.

    Raises:
        ValueError: for fewer than one bin, or another mode.
        NotImplementedError: for ``sparse=True``.

    Example:
        >>> dl.keras.layers.Hashing(3)(["A", "B", "C"])
        array([1, 0, 1])
    """

    def __init__(
        self,
        num_bins: int,
        mask_value: Any = None,
        salt: Any = None,
        output_mode: str = "int",
        sparse: bool = False,
        **options: Any,
    ):
        if num_bins is None or num_bins <= 0:
            raise ValueError(f"The `num_bins` for `Hashing` cannot be `None` or <= 0: {num_bins}")
        checked_mode("Hashing", output_mode, ("int", "one_hot", "multi_hot", "count"))
        refuse_sparse("Hashing", sparse)
        if options.get("dtype") is None:
            options["dtype"] = "int64" if output_mode == "int" else None
        super().__init__(**options)
        if output_mode == "int" and self.dtype_policy.name not in ("int32", "int64"):
            raise ValueError(
                "Hashing: with output_mode 'int' dtype must be 'int32' or 'int64', got "
                f"{self.dtype_policy.name!r}"
            )
        self.num_bins, self.mask_value, self.output_mode = num_bins, mask_value, output_mode
        self.sparse = sparse
        self.salt = checked_salt("Hashing", salt)

    def on_host(self, inputs: Any) -> Any:
        if compiles(inputs):
            raise ValueNeedsPython("integers become text, which no device holds")
        key = None if self.salt is None else (self.salt[0] % 2**64, self.salt[1] % 2**64)
        dtype = self.dtype_policy.compute_dtype
        bins = HashBins(
            self.num_bins, self._mask(inputs), key, dtype if self.output_mode == "int" else "int64"
        )
        found = apply(bins, inputs)
        if self.output_mode == "int":
            return found
        return encoded(found, self.output_mode, self.num_bins, None, dtype)

    def _mask(self, inputs: Any) -> bytes | int | None:
        mask = self.mask_value
        if mask is None:
            return None
        if isinstance(mask, (str, bytes)) != is_string(inputs):
            held = "strings" if is_string(inputs) else "integers"
            raise ValueError(f"Hashing: mask_value={mask!r} is none of the inputs' {held}")
        return mask.encode() if isinstance(mask, str) else mask

    def compute_output_spec(self, inputs: Any) -> Any:
        shape = encoded_shape(inputs.shape, self.output_mode, self.num_bins)
        return symbolic(shape, self.dtype_policy.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        names = ("num_bins", "mask_value", "salt", "output_mode", "sparse")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


@dataclasses.dataclass(frozen=True)
class CrossBins(NativeOperation):
    """The bin of the values of several features at the same place.

    Attributes:
        bins: how many there are.
        dtype: of the bins.
    """

    bins: int
    dtype: str

    @property
    def name(self) -> str:
        return "HashedCrossing"

    def results(self, *arguments: TensorSpec) -> ElementSpec:
        first = arguments[0]
        for spec in arguments:
            _require_hashable(self.name, spec)
            if not is_dense(spec) or spec.shape != first.shape:
                raise ValueError(
                    "All `HashedCrossing` inputs should have equal shape, got "
                    f"{[each.shape for each in arguments]}"
                )
        return one(TensorSpec(first.shape, np.dtype(self.dtype)))

    def run(self, columns: Sequence[Column], n: int) -> OperationResult:
        crossed: Any = np.uint64(HASH_KEY)
        with np.errstate(over="ignore"):
            for each in map(np.asarray, columns):
                text = each.dtype == STRING
                prints = fingerprints(each) if text else each.astype(np.int64).view(np.uint64)
                crossed = joined(crossed, prints)
            bins = crossed % np.uint64(self.bins)
        return OperationResult([bins.astype(self.dtype)])


@serializable("HashedCrossing")
class HashedCrossing(HostLayer):
    """Pairs of features to bins by their hash, as ``keras.layers.HashedCrossing``.

    Keras's own layer needs TensorFlow. This one gives the same bins, in `map` by a native
    operation.

    Args:
        num_bins: how many bins there are.
        output_mode: ``"int"`` or ``"one_hot"``.
        sparse: must be False.
        options: of `keras.Layer`.

    Raises:
        ValueError: for another mode.
        NotImplementedError: for ``sparse=True``.

    Example:
        >>> dl.keras.layers.HashedCrossing(5)((["A", "B", "A"], [101, 101, 102]))
        array([1, 4, 3])
    """

    def __init__(
        self, num_bins: int, output_mode: str = "int", sparse: bool = False, **options: Any
    ):
        checked_mode("HashedCrossing", output_mode, ("int", "one_hot"))
        refuse_sparse("HashedCrossing", sparse)
        if options.get("dtype") is None:
            options["dtype"] = "int64" if output_mode == "int" else None
        super().__init__(**options)
        self.num_bins, self.output_mode, self.sparse = num_bins, output_mode, sparse

    def arrays_of(self, inputs: Any) -> Any:
        """Each feature by itself: they are of different dtypes."""
        several = isinstance(inputs, (list, tuple))
        return [host_values(each) for each in inputs] if several else host_values(inputs)

    def on_host(self, inputs: Any) -> Any:
        if not isinstance(inputs, (list, tuple)) or len(inputs) < 2:
            raise ValueError("`HashedCrossing` should be called on a list of at least two inputs.")
        if any(map(compiles, inputs)):
            raise ValueNeedsPython("fingerprints have 64 bits")
        dtype = self.dtype_policy.compute_dtype
        is_int = self.output_mode == "int"
        bins = apply(CrossBins(self.num_bins, dtype if is_int else "int64"), *inputs)
        return bins if is_int else encoded(bins, "one_hot", self.num_bins, None, dtype)

    def compute_output_spec(self, inputs: Any) -> Any:
        shape = encoded_shape(inputs[0].shape, self.output_mode, self.num_bins)
        return symbolic(shape, self.dtype_policy.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        names = ("num_bins", "output_mode", "sparse")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}
