"""State of users' own objects, and how states of any form are written.

Callbacks and ``PyDataset``s may have ``get_state()`` and ``set_state(state)``. A state is built of
dicts, lists, tuples, numbers, strings, None and arrays.
"""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from drumline.keras.internals import has_own_method


def has_own_state(value: Any) -> bool:
    """Whether an object gives its state by ``get_state`` and takes it by ``set_state``."""
    return callable(getattr(value, "get_state", None)) and callable(
        getattr(value, "set_state", None)
    )


def encoded(value: Any, where: str, arrays: list[np.ndarray] | None = None) -> Any:
    """What can be written as JSON, for a state.

    Args:
        value: the state.
        where: whose it is, for the error.
        arrays: takes the arrays; if None, they are part of what is returned.

    Raises:
        TypeError: if something in it has no such form.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        pairs = [
            [encoded(key, where, arrays), encoded(each, where, arrays)]
            for key, each in value.items()
        ]
        return {"dict": pairs}
    if isinstance(value, list):
        return [encoded(each, where, arrays) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [encoded(each, where, arrays) for each in value]}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.generic):
        return {
            "scalar": dtype_name(value.dtype),
            "value": base64.b64encode(value.tobytes()).decode(),
        }
    if hasattr(value, "__array__") and getattr(value, "dtype", np.dtype(object)).kind != "O":
        return _encoded_array(np.asarray(value), arrays)
    raise TypeError(
        f"The state of {where} has a {type(value).__name__} in it, which cannot be saved: build it "
        "of dicts, lists, tuples, numbers, strings, None and arrays."
    )


def dtype_name(dtype: np.dtype) -> str:
    """What `np.dtype` makes the same dtype of; ``dtype.str`` does not say which bfloat16 is."""
    return dtype.name if dtype.kind == "V" else dtype.str


def _encoded_array(array: np.ndarray, arrays: list[np.ndarray] | None) -> Any:
    if arrays is not None:
        arrays.append(np.array(array))
        return {"array": len(arrays) - 1}
    text = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
    return {"array": dtype_name(array.dtype), "shape": list(array.shape), "value": text}


def decoded(value: Any, arrays: list[np.ndarray] | None = None) -> Any:
    """The state of which `encoded` made `value`."""
    if isinstance(value, list):
        return [decoded(each, arrays) for each in value]
    if not isinstance(value, dict):
        return value
    if "dict" in value:
        return {decoded(key, arrays): decoded(each, arrays) for key, each in value["dict"]}
    if "tuple" in value:
        return tuple(decoded(each, arrays) for each in value["tuple"])
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    if "scalar" in value:
        return np.frombuffer(base64.b64decode(value["value"]), np.dtype(value["scalar"]))[0]
    if isinstance(value["array"], int):
        assert arrays is not None
        return np.array(arrays[value["array"]])
    flat = np.frombuffer(base64.b64decode(value["value"]), np.dtype(value["array"]))
    return flat.reshape(value["shape"]).copy()


_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)


class PyDatasetState:
    """What changes in a ``PyDataset`` while it is trained on.

    That is what its ``get_state`` says or, without one, its random generators, and those of its
    attributes that are numbers, strings, lists of numbers or arrays of indices and have changed
    since it was given to `fit`.

    Args:
        dataset: the dataset.
    """

    def __init__(self, dataset: keras.utils.PyDataset) -> None:
        self._dataset = dataset
        self._at_first = {} if has_own_state(dataset) else self._small()

    def state(self) -> Any:
        """What `restore` takes."""
        if has_own_state(self._dataset):
            return {"own": self._dataset.get_state()}
        changed = {
            name: value
            for name, value in self._small().items()
            if name not in self._at_first or not _equal(value, self._at_first[name])
        }
        generators = {name: _state_of(value) for name, value in self._generators().items()}
        return {"attributes": changed, "generators": generators}

    def restore(self, state: Any) -> None:
        """Be as when `state` was taken."""
        if "own" in state:
            self._dataset.set_state(state["own"])
            return
        for name, value in {**self._at_first, **state["attributes"]}.items():
            held = vars(self._dataset).get(name)
            if isinstance(held, np.ndarray) and held.shape == value.shape and held.flags.writeable:
                held[...] = value  # other objects may hold the array, too
            else:
                setattr(self._dataset, name, _copied(value))
        for name, generator in self._generators().items():
            if name in state["generators"]:
                _set_state_of(generator, state["generators"][name])

    def why_not_exact(self) -> str | None:
        """Why it cannot be resumed exactly, with what to do; None if it can."""
        dataset = self._dataset
        if has_own_state(dataset):
            return None
        name = type(dataset).__name__
        side_by_side = dataset.workers > 1 or (dataset.workers > 0 and dataset.use_multiprocessing)
        if self._generators() and side_by_side:
            return (
                f"{name} has a random generator of its own, from which its workers draw in an "
                "order that depends on timing. Seed a generator by the index in __getitem__, or "
                "use workers=1."
            )
        changes = any(
            has_own_method(dataset, keras.utils.PyDataset, method)
            for method in ("on_epoch_begin", "on_epoch_end")
        )
        if (
            changes
            and not self._generators()
            and not any(map(_is_sequence, self._small().values()))
        ):
            return (
                f"{name} has an on_epoch_begin or on_epoch_end of its own, and no array of indices "
                "or random generator among its attributes that could be saved. Give it "
                "get_state(), which returns what changes, and set_state(state)."
            )
        return None

    def _generators(self) -> dict[str, Any]:
        found = vars(self._dataset).items()
        return {name: value for name, value in found if isinstance(value, _GENERATORS)}

    def _small(self) -> dict[str, Any]:
        found = vars(self._dataset).items()
        return {
            name: _copied(value)
            for name, value in found
            if name not in ("_workers", "_use_multiprocessing", "_max_queue_size")
            and (isinstance(value, bool | int | float | str) or _is_sequence(value))
        }


def _is_sequence(value: Any) -> bool:
    """Whether it may be the order in which a dataset is gone through."""
    if isinstance(value, np.ndarray):
        return value.ndim == 1 and value.dtype.kind in "iu"
    return isinstance(value, list) and all(type(each) is int for each in value)


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray | list) else value


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return type(one) is type(other) and bool(one == other)


def _state_of(generator: Any) -> Any:
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, np.random.RandomState):
        return generator.get_state(legacy=False)
    return generator.getstate()


def _set_state_of(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.setstate(state)


def process_state() -> dict[str, Any]:
    """The state of numpy's and Python's global random generators."""
    numpy: Any = np.random.get_state()
    name, keys, position, has_gauss, gauss = numpy
    version, numbers, gauss_next = random.getstate()
    return {
        "numpy": [name, keys.tobytes(), int(position), int(has_gauss), float(gauss)],
        "python": [version, np.array(numbers, np.uint32).tobytes(), gauss_next],
    }


def set_process_state(state: dict[str, Any]) -> None:
    """Put back what `process_state` gave."""
    name, keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state((name, np.frombuffer(keys, np.uint32), position, has_gauss, gauss))
    version, numbers, gauss_next = state["python"]
    random.setstate((version, tuple(np.frombuffer(numbers, np.uint32).tolist()), gauss_next))


def as_text(value: Any, where: str) -> str:
    """A state as one line of JSON, arrays too."""
    return json.dumps(encoded(value, where))


def from_text(text: str) -> Any:
    """The state of which `as_text` made a line."""
    return decoded(json.loads(text))
