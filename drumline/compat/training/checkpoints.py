"""``tf.train``'s checkpoints: drumline's, of objects that hold tensors and variables."""

from __future__ import annotations

import dataclasses
import inspect
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np

from drumline import train
from drumline._resumable import Resumable
from drumline.compat.training.variable import TensorVariable
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import unwrap
from drumline.compat.values.convert import static
from drumline.compat.values.errors import NotFoundError
from drumline.training.checkpoint import file_format, index
from drumline.training.checkpoint.restoration import Restoration

_KERAS = (
    keras.Variable,
    keras.Layer,
    keras.optimizers.Optimizer,
    keras.Metric,
    keras.random.SeedGenerator,
)
_NUMBERED = re.compile(r"/(layers|variables)/\d+$")
"""Where drumline has what attributes of layers lead to."""
_OWN = frozenset(("save_counter", "_objects", "_counter", "_restored"))


class PythonState:
    """State of a program in a checkpoint, as ``tf.train.experimental.PythonState``: a base class.

    Subclasses define `serialize`, which returns text or bytes, and `deserialize`, which takes it.
    """

    def serialize(self) -> Any:
        """What is saved: text, or bytes."""
        raise NotImplementedError

    def deserialize(self, string_value: Any) -> None:
        """Be as when it was saved."""
        raise NotImplementedError

    def state(self) -> str:
        """What drumline's checkpoint saves."""
        found = self.serialize()
        return (found if isinstance(found, bytes) else str(found).encode()).decode("latin-1")

    def restore(self, state: str) -> None:
        """Be as when `state` was taken."""
        self.deserialize(state.encode("latin-1"))


@dataclasses.dataclass(frozen=True)
class CheckpointOptions:
    """Options of saving and restoring, as ``tf.train.CheckpointOptions``.

    Attributes:
        experimental_io_device: must be None, or this process's own.
        experimental_enable_async_checkpoint: accepted; a checkpoint is on the disk when `save`
            returns.
        experimental_write_callbacks: functions that are called after saving, with the path or
            nothing.
        enable_async: the same as ``experimental_enable_async_checkpoint``.
        experimental_skip_slot_variables: must be False.
        experimental_sharding_callback: must be None.

    Raises:
        NotImplementedError: for what is not possible here.
    """

    experimental_io_device: str | None = None
    experimental_enable_async_checkpoint: bool = False
    experimental_write_callbacks: list[Callable[..., Any]] | None = None
    enable_async: bool = False
    experimental_skip_slot_variables: bool = False
    experimental_sharding_callback: Any = None

    def __post_init__(self) -> None:
        if self.experimental_io_device not in (None, "/job:localhost"):
            raise NotImplementedError(
                f"CheckpointOptions(experimental_io_device={self.experimental_io_device!r}): "
                "each process writes to its own disk."
            )
        if self.experimental_skip_slot_variables or self.experimental_sharding_callback:
            raise NotImplementedError(
                "CheckpointOptions: optimizers are saved as a whole, in one file; leave the "
                "optimizer out of the Checkpoint to save none of its variables."
            )

    def written(self, path: str) -> None:
        """Call the callbacks after saving."""
        for callback in self.experimental_write_callbacks or ():
            callback(*((path,) if inspect.signature(callback).parameters else ()))


class LoadStatus(train.CheckpointStatus):
    """What restoring returns, as TensorFlow's.

    Args:
        restoration: what is under way; None if there was no checkpoint to restore.
        counted: whether ``save_counter`` was restored.
    """

    def __init__(self, restoration: Restoration | None, counted: bool = False):
        super().__init__(restoration)
        self._counted = counted

    def assert_nontrivial_match(self) -> LoadStatus:
        """Require that something was restored.

        Raises:
            AssertionError: nothing was.
        """
        restoration = self._required()
        if not self._counted and restoration.leftover.paths == restoration.saved_paths:
            raise AssertionError("Nothing except the root object matched a checkpointed value.")
        return self

    def initialize_or_restore(self, session: None = None) -> None:
        """Nothing: values are there already."""

    def run_restore_ops(self, session: None = None) -> None:
        """Nothing: values are there already."""


class TensorCheckpoint:
    """A group of objects whose values are saved and restored, as ``tf.train.Checkpoint``.

    The file has drumline's format. Objects are variables, layers, models, optimizers, metrics,
    modules, iterators of datasets, other checkpoints, and dicts and lists of these. What is added
    after `restore` gets its value then.

    Args:
        root: an object that is saved under the name ``root``.
        kwargs: objects by name.

    Raises:
        ValueError: an object cannot be saved.
    """

    def __init__(self, root: Any = None, **kwargs: Any):
        object.__setattr__(self, "_objects", {})
        object.__setattr__(self, "_counter", None)
        object.__setattr__(self, "_restored", [])
        for name, value in kwargs.items():
            setattr(self, name, value)
        if root is not None:
            if "root" in kwargs:
                raise ValueError("Checkpoint: `root` is given twice, by position and by name.")
            self.root = root

    @property
    def save_counter(self) -> TensorVariable:
        """How often `save` was called: a variable."""
        if self._counter is None:
            counter = TensorVariable(np.int64(0), trainable=False, name="save_counter")
            object.__setattr__(self, "_counter", counter)
        found: TensorVariable = self._counter
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "save_counter":
            self.save_counter.assign(value)
            return
        if name in _OWN or callable(getattr(type(self), name, None)):
            raise ValueError(f"{name!r} is a method of Checkpoint; choose another name.")
        if isinstance(value, (dict, list)):
            value = _tracked_container(value, self, name)
        if not _is_trackable(value):
            raise ValueError(
                f"`Checkpoint` was expecting {name} to be a trackable object (an object derived "
                f"from `Trackable`), got {value!r:.80}. Keep a number in a variable: "
                "tf.Variable(0)."
            )
        self._objects[name] = value
        self._restore_late(name, value)

    def __getattr__(self, name: str) -> Any:
        try:
            return object.__getattribute__(self, "_objects")[name]
        except (KeyError, AttributeError):
            raise AttributeError(f"'Checkpoint' object has no attribute {name!r}") from None

    def __delattr__(self, name: str) -> None:
        if name not in self._objects:
            raise AttributeError(name)
        del self._objects[name]

    def save(self, file_prefix: Any, options: CheckpointOptions | None = None) -> str:
        """Save a numbered checkpoint, which `latest_checkpoint` finds; returns its path.

        Args:
            file_prefix: a path; ``-1``, ``-2``, ... are appended.
            options: see `CheckpointOptions`.
        """
        path, _ = self.save_numbered(_path(file_prefix))
        if options is not None:
            options.written(path)
        return path

    def save_numbered(self, file_prefix: str) -> tuple[str, bool]:
        """As `save`; returns the path, and whether this process has written it."""
        core = self._core()
        path, wrote = core.save_numbered(file_prefix)
        self.save_counter.assign(core.save_counter)
        return path, wrote

    def write(self, file_prefix: Any, options: CheckpointOptions | None = None) -> str:
        """Save a checkpoint of exactly this path, which `read` reads; returns it."""
        path = self._core().write(_path(file_prefix))
        if options is not None:
            options.written(path)
        return path

    def restore(self, save_path: Any, options: CheckpointOptions | None = None) -> LoadStatus:
        """Restore what `save` has saved.

        Args:
            save_path: what `save` or `latest_checkpoint` returned; None restores nothing.
            options: see `CheckpointOptions`.

        Raises:
            NotFoundError: there is no such checkpoint.
        """
        return self._restore(save_path, counts=True)

    def read(self, save_path: Any, options: CheckpointOptions | None = None) -> LoadStatus:
        """Restore what `write` has written: as `restore`, but for `save_counter`."""
        return self._restore(save_path, counts=False)

    def sync(self) -> None:
        """Nothing: what was saved is on the disk."""

    def checkpointed_objects(self) -> dict[str, Any]:
        """The objects by name, as drumline's checkpoint takes them."""
        graph = _Graph()
        return {name: graph.node(value) for name, value in self._objects.items()}

    def _restore(self, path: Any, counts: bool) -> LoadStatus:
        if path is None:
            return LoadStatus(None)
        core = self._core()
        try:
            restoration = core.restore(_path(path)).restoration
        except FileNotFoundError as error:
            raise NotFoundError(None, None, _of_missing(_path(path), error)) from None
        if counts:
            self.save_counter.assign(core.save_counter)
        if restoration is not None:
            self._remember(restoration, "", set())
        return LoadStatus(restoration, counts)

    def _core(self) -> train.Checkpoint:
        """drumline's checkpoint of what is there now."""
        core = train.Checkpoint(**self.checkpointed_objects())
        core.save_counter = int(self.save_counter)
        return core

    def _remember(self, restoration: Restoration, prefix: str, seen: set[int]) -> None:
        """Restore from this checkpoint what is added later, to this object or to one in it."""
        if id(self) in seen:
            return
        seen.add(id(self))
        self._restored[:] = [(restoration, prefix)]
        for name, value in self._objects.items():
            if isinstance(value, TensorCheckpoint):
                value._remember(restoration, f"{prefix}{name}/", seen)

    def _restore_late(self, name: str, value: Any) -> None:
        for restoration, prefix in self._restored:
            path = restoration.found_at(f"{prefix}{name}")
            restoration.restore({path: _Graph().node(value)})


class _TrackedList(list[Any]):
    """A list of a checkpoint's: what is appended after `restore` gets its value."""

    def __init__(self, values: Any, owner: TensorCheckpoint, name: str):
        super().__init__(values)
        self._owner, self._name = owner, name

    def append(self, value: Any) -> None:
        super().append(value)
        self._owner._restore_late(f"{self._name}/{len(self) - 1}", value)


class _TrackedDict(dict[Any, Any]):
    """A dict of a checkpoint's: what is set after `restore` gets its value."""

    def __init__(self, values: Any, owner: TensorCheckpoint, name: str):
        super().__init__(values)
        self._owner, self._name = owner, name

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        self._owner._restore_late(f"{self._name}/{key}", value)


def _tracked_container(value: Any, owner: TensorCheckpoint, name: str) -> Any:
    kind: Any = _TrackedDict if isinstance(value, dict) else _TrackedList
    return kind(value, owner, name)


class _Node:
    """An object as drumline's checkpoint takes it: its parts by name."""

    def __init__(self, graph: _Graph, value: Any):
        self._graph = graph
        self._value = value

    def checkpointed_objects(self) -> dict[str, Any]:
        """The parts that can be saved."""
        held = _parts(self._value)
        return {str(name): self._graph.node(part) for name, part in held if _is_trackable(part)}


class _Graph:
    """The objects of one checkpoint, each with one node: the same object is saved once."""

    def __init__(self) -> None:
        self._nodes: dict[int, tuple[Any, Any]] = {}

    def node(self, value: Any) -> Any:
        """The value, if drumline's checkpoint takes it, or what stands for it."""
        if isinstance(value, _KERAS):
            return value
        if id(value) not in self._nodes:
            self._nodes[id(value)] = (
                value,
                _Node(self, value) if _is_group(value) else unwrap(value),
            )
        return self._nodes[id(value)][1]


def _parts(value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, TensorCheckpoint):
        return list(value._objects.items())
    if hasattr(value, "trackable_attributes"):
        found: list[tuple[Any, Any]] = value.trackable_attributes()
        return found
    if isinstance(value, Mapping):
        return list(value.items())
    return list(enumerate(value))


def _is_group(value: Any) -> bool:
    kinds = (TensorCheckpoint, Mapping, list, tuple)
    return isinstance(value, kinds) or hasattr(value, "trackable_attributes")


def _is_trackable(value: Any) -> bool:
    if isinstance(value, _KERAS) or _is_group(value):
        return True
    return isinstance(unwrap(value), Resumable)


class ManagerOfTensors(train.CheckpointManager):
    """Saves a checkpoint again and again, and keeps the latest, as ``tf.train.CheckpointManager``.

    Args:
        checkpoint: a ``tf.train.Checkpoint``.
        directory: where; made if need be.
        max_to_keep: how many are kept; None keeps all.
        keep_checkpoint_every_n_hours: must be None.
        checkpoint_name: the first part of the checkpoints' names.
        step_counter: a variable that counts steps.
        checkpoint_interval: how many steps are between two checkpoints at least.
        init_fn: called by `restore_or_initialize` where there is no checkpoint.
        last_checkpoint_step: of ``step_counter``, from which the first interval counts.

    Raises:
        ValueError: `max_to_keep` is not positive, or an interval has no counter.
        NotImplementedError: for ``keep_checkpoint_every_n_hours``.
    """

    def __init__(
        self,
        checkpoint: Any,
        directory: Any,
        max_to_keep: int | None,
        keep_checkpoint_every_n_hours: float | None = None,
        checkpoint_name: str = "ckpt",
        step_counter: Any = None,
        checkpoint_interval: int | None = None,
        init_fn: Callable[[], Any] | None = None,
        last_checkpoint_step: int | None = None,
    ):
        if keep_checkpoint_every_n_hours is not None:
            raise NotImplementedError(
                "CheckpointManager(keep_checkpoint_every_n_hours=...): keep such checkpoints in a "
                "directory of their own, with a second manager and max_to_keep=None."
            )
        if checkpoint_interval is not None and step_counter is None:
            raise ValueError("`step_counter` should be passed if `checkpoint_interval` is set.")
        super().__init__(checkpoint, _path(directory), max_to_keep, checkpoint_name)
        self._step_counter = step_counter
        self._interval = checkpoint_interval
        self._init = init_fn
        self._last_step = last_checkpoint_step

    @property
    def checkpoint_interval(self) -> int | None:
        """How many steps are between two checkpoints at least."""
        return self._interval

    def save(  # type: ignore[override]
        self,
        checkpoint_number: Any = None,
        check_interval: bool = True,
        options: CheckpointOptions | None = None,
    ) -> str | None:
        """Save a checkpoint, then delete those that are too many.

        Args:
            checkpoint_number: its number; by default one more than ``save_counter``.
            check_interval: whether ``checkpoint_interval`` counts.
            options: see `CheckpointOptions`.

        Returns:
            Its path; None if the last one is not old enough.
        """
        if self._interval is not None and check_interval and self._is_too_early():
            return None
        counter: Any = self._checkpoint.save_counter
        before = int(counter)
        path = super().save(None if checkpoint_number is None else int(static(checkpoint_number)))
        counter.assign(before + 1)
        if self._step_counter is not None:
            self._last_step = int(self._step_counter)
        if options is not None:
            options.written(path)
        return path

    def restore_or_initialize(self) -> str | None:
        """Restore the latest checkpoint and return its path; else call ``init_fn``."""
        found = super().restore_or_initialize()
        if found is None and self._init is not None:
            self._init()
        if found is not None and self._step_counter is not None:
            self._last_step = int(self._step_counter)
        return found

    def sync(self) -> None:
        """Nothing: what was saved is on the disk."""

    def _is_too_early(self) -> bool:
        assert self._interval is not None
        if self._last_step is None:
            return False
        return int(self._step_counter) - self._last_step < self._interval


@dataclasses.dataclass
class CheckpointState:
    """The checkpoints of a directory, as ``tf.train.get_checkpoint_state`` returns them.

    Attributes:
        model_checkpoint_path: the latest.
        all_model_checkpoint_paths: all, the latest last.
    """

    model_checkpoint_path: str
    all_model_checkpoint_paths: list[str]


def latest_checkpoint(checkpoint_dir: Any, latest_filename: str | None = None) -> str | None:
    """The path of the checkpoint that was saved last; None if there is none.

    Where there are weights of models alone, which ``Model.save_weights`` and ``ModelCheckpoint``
    save under a name without a suffix, it is what ``Model.load_weights`` takes.

    Args:
        checkpoint_dir: where checkpoints are saved.
        latest_filename: must be None, or ``"checkpoint"``.

    Raises:
        NotImplementedError: for another name of the index.
    """
    if latest_filename not in (None, index.INDEX):
        raise NotImplementedError(f"the index is named {index.INDEX!r}: leave the name out")
    folder = _path(checkpoint_dir)
    return train.latest_checkpoint(folder) or _latest_weights(folder)


_WEIGHTS = ".weights.h5"
"""The suffix of Keras's, which is added where a model's weights are saved under a name without."""


def _latest_weights(folder: str) -> str | None:
    found = [(path.stat().st_mtime_ns, str(path)) for path in Path(folder).glob(f"*{_WEIGHTS}")]
    return max(found)[1].removesuffix(_WEIGHTS) if found else None


def get_checkpoint_state(
    checkpoint_dir: Any, latest_filename: str | None = None
) -> CheckpointState | None:
    """The checkpoints of a directory; None if there are none."""
    latest = latest_checkpoint(checkpoint_dir, latest_filename)
    if latest is None:
        return None
    return CheckpointState(latest, index.listed(_path(checkpoint_dir)))


def checkpoints_iterator(
    checkpoint_dir: Any,
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """Yield the paths of checkpoints as they come.

    Args:
        checkpoint_dir: where they are saved.
        min_interval_secs: how many seconds are between two at least.
        timeout: for how many seconds a new one is waited for; None for ever.
        timeout_fn: called then; True ends the iteration, as having none does.
    """
    last = None
    while True:
        until = None if timeout is None else time.monotonic() + timeout
        found = latest_checkpoint(checkpoint_dir)
        while found is None or found == last:
            if until is not None and time.monotonic() >= until:
                break
            time.sleep(min(1.0, timeout) if timeout else 1.0)
            found = latest_checkpoint(checkpoint_dir)
        if found is None or found == last:
            if timeout_fn is None or timeout_fn():
                return
            continue
        begun, last = time.monotonic(), found
        yield found
        time.sleep(max(0.0, begun + min_interval_secs - time.monotonic()))


class CheckpointReader:
    """The values in a checkpoint by name, as ``tf.train.load_checkpoint`` returns them.

    Args:
        path: the checkpoint's.

    Raises:
        NotFoundError: there is none.
    """

    def __init__(self, path: str):
        try:
            contents = file_format.read(path)
        except FileNotFoundError as error:
            raise NotFoundError(None, None, _of_missing(path, error)) from None
        counter = np.asarray(contents.save_counter, np.int64)
        self._arrays = {_name("save_counter"): counter}
        known = contents.aliases.items()
        names = {target: name for name, target in known if _NUMBERED.search(target)}
        for saved, array in contents.arrays.items():
            alone = saved.removesuffix("variables/0") + "variables/1" not in contents.arrays
            self._arrays[_key(saved, names, alone)] = array

    def has_tensor(self, tensor_str: str) -> bool:
        """Whether there is a value of this name."""
        return tensor_str in self._arrays

    def get_tensor(self, tensor_str: str) -> Any:
        """A value as numpy's array.

        Raises:
            NotFoundError: there is none of this name.
        """
        if tensor_str not in self._arrays:
            raise NotFoundError(None, None, f"Key {tensor_str} not found in checkpoint")
        return np.array(self._arrays[tensor_str])[()]

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """The shapes by name."""
        return {name: list(array.shape) for name, array in self._arrays.items()}

    def get_variable_to_dtype_map(self) -> dict[str, Any]:
        """The types by name."""
        return {name: dtypes.of_array(array.dtype) for name, array in self._arrays.items()}


def load_checkpoint(ckpt_dir_or_file: Any) -> CheckpointReader:
    """The values in a checkpoint, or in the latest one of a directory."""
    path = _path(ckpt_dir_or_file)
    return CheckpointReader(latest_checkpoint(path) or path if os.path.isdir(path) else path)


def list_variables(ckpt_dir_or_file: Any) -> list[tuple[str, list[int]]]:
    """The names and shapes of the values in a checkpoint, sorted by name."""
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def load_variable(ckpt_dir_or_file: Any, name: str) -> Any:
    """One value of a checkpoint as numpy's array; the name may have a ``:0`` at its end."""
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


def _key(saved: str, names: Mapping[str, str], alone: bool = True) -> str:
    """TensorFlow's name of a value, made of attributes' names, from where drumline has it.

    Args:
        saved: where it is.
        names: the names of attributes by what they lead to.
        alone: whether it is a variable by itself, and not the first one of an object's.
    """
    owner = names.get(saved, saved)
    if alone or saved in names:
        owner = owner.removesuffix("/variables/0")
    parts = owner.split("/")
    for length in range(len(parts), 0, -1):
        known = names.get("/".join(parts[:length]))
        if known is not None:
            return _key("/".join([known, *parts[length:]]), names)
    return _name(owner)


def _name(owner: str) -> str:
    return f"{owner}/.ATTRIBUTES/VARIABLE_VALUE"


def _path(given: Any) -> str:
    value = static(given)
    return os.fsdecode(value if isinstance(value, (str, bytes)) else os.fspath(value))


def _of_missing(path: str, error: Exception) -> str:
    if os.path.exists(f"{path}.index"):
        return f"{path} is a checkpoint of TensorFlow's own format, which is not read here"
    return f"Failed to find any matching files for {path}: {error}"


for _cls, _public in (
    (TensorCheckpoint, "Checkpoint"),
    (ManagerOfTensors, "CheckpointManager"),
    (LoadStatus, "CheckpointLoadStatus"),
):
    _cls.__name__ = _cls.__qualname__ = _public
