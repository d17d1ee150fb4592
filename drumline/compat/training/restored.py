"""What ``tf.saved_model.load`` gives: objects with variables, and functions that are programs."""

from __future__ import annotations

import dataclasses
import inspect
import json
import operator
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np

from drumline import _safetensors
from drumline._local_path import local_path
from drumline.compat.keras.legacy import MODEL
from drumline.compat.training.composites import (
    COMPOSITE_SPECS,
    SavedTypeSpec,
    array_specs,
    arrays_of,
    result_described,
    result_spec_described,
    spec_described,
    spec_of_argument,
)
from drumline.compat.training.function import covers
from drumline.compat.training.module import TensorModule
from drumline.compat.training.scopes import NameScope
from drumline.compat.training.variable import TensorVariable
from drumline.compat.values.boundary import map_structure, wrap
from drumline.compat.values.convert import convert
from drumline.compat.values.specs import ArraySpec, TypeSpec
from drumline.compat.values.tensor import Tensor
from drumline.estimator.values import ClassNames

FILE = "saved_model.safetensors"
FORMAT = "drumline.saved_model"
VERSION = 2
"""Of signatures with a part of the host's, or with strings; others have version 1."""

_OF_TENSORFLOW = ("saved_model.pb", "saved_model.pbtxt")


class DamagedModelError(OSError):
    """A file that should hold a saved model does not, or not all of it."""


def contains_saved_model(export_dir: Any) -> bool:
    """Whether a directory has a model that `load` reads, as ``tf.saved_model``'s."""
    directory = Path(local_path(export_dir, "contains_saved_model", "a model"))
    return any((directory / name).is_file() for name in (FILE, MODEL))


def load(export_dir: Any, tags: Any = None, options: Any = None) -> RestoredObject:
    """Read what ``save``, ``Model.export`` or ``Model.save`` wrote, as ``tf.saved_model.load``.

    The last one wrote no programs: they are made here, and need the model's classes.

    Args:
        export_dir: the directory.
        tags: None or ``"serve"``: what is saved has no others.
        options: `LoadOptions`.

    Raises:
        OSError: there is no model, or it is damaged (`DamagedModelError`).
        ValueError: it is of a newer format, or another tag is asked for.
    """
    tags = [tags] if isinstance(tags, str) else list(tags or ["serve"])
    if tags not in (["serve"], []):
        raise ValueError(f"Models have the tag 'serve' alone, not {tags}")
    directory = Path(local_path(export_dir, "tf.saved_model.load", "a model"))
    file = directory / FILE
    if not file.is_file():
        if (directory / MODEL).is_file():
            return _of_keras(directory / MODEL)
        if any((directory / name).is_file() for name in _OF_TENSORFLOW):
            raise OSError(
                f"{str(directory)!r} is a SavedModel of TensorFlow's, a graph of its operations, "
                "which run in TensorFlow alone. Build the model here and restore its weights (from "
                "a checkpoint with tf.train.load_checkpoint, or a .weights.h5 file), and save that."
            )
        raise OSError(f"SavedModel file does not exist at: {export_dir} (no file {str(file)!r})")
    try:
        saved = _safetensors.parse(np.fromfile(file, np.uint8))
        saved.verify(saved.arrays)
        about = json.loads(saved.arrays["description"].tobytes())
        if about["format"] != FORMAT:
            raise KeyError("format")
    except (ValueError, KeyError) as error:
        raise DamagedModelError(f"{str(file)!r} holds no whole saved model: {error}") from error
    if about["version"] > VERSION:
        raise ValueError(
            f"{str(file)!r} has version {about['version']} of its format, and this drumline knows "
            f"up to {VERSION}: load it with a newer drumline."
        )
    return _restored(saved.arrays, about)


def _of_keras(file: Path) -> RestoredObject:
    """What `load` gives of a model that was saved in Keras's format."""
    from drumline.compat.training.saved_model import save

    try:
        model = keras.models.load_model(file, compile=False)
    except TypeError as error:
        raise OSError(
            f"{str(file)!r} is a model in Keras's format, whose classes must be known here: import "
            "and register them (tf.keras.utils.register_keras_serializable), or save the model by "
            f"tf.saved_model.save or Model.export, which write programs. {error}"
        ) from error
    with tempfile.TemporaryDirectory(prefix="drumline-saved-model-") as programs:
        save(model, programs)
        return load(programs)


def _restored(arrays: Mapping[str, Any], about: Mapping[str, Any]) -> RestoredObject:
    variables: list[Any] = []
    with NameScope(""):
        for at, entry in enumerate(about["variables"]):
            value = arrays[f"variable/{at}"]
            name, trainable = entry["name"].split(":")[0], entry["trainable"]
            variables.append(TensorVariable(value, trainable, name=name, dtype=value.dtype))
    programs = [
        jax.export.deserialize(bytearray(arrays[f"program/{at}"].tobytes()))
        for at in range(sum(name.startswith("program/") for name in arrays))
    ]
    functions: dict[int, dict[str, RestoredFunction | RestoredTrace]] = {}
    for each in about["functions"]:
        traces = [
            RestoredTrace(each["name"], trace, programs, variables) for trace in each["traces"]
        ]
        made: Any = traces[0]
        if not each.get("concrete", False):
            signed = each.get("has_signature", False)
            made = RestoredFunction(each["name"], each["parameters"], traces, signed)
        functions.setdefault(each["object"], {})[each["name"]] = made
    for each in about.get("unsaved", ()):
        made = RestoredFunction(each["name"], None, [], problem=each["problem"])
        functions.setdefault(each["object"], {})[each["name"]] = made
    objects = about["objects"]
    known: dict[int, Any] = {}

    def restored(number: int) -> Any:
        if number in known:
            return known[number]
        ((kind, inner), *_) = objects[number].items()
        if kind == "variable":
            known[number] = variables[inner]
        elif kind == "list":
            listed: list[Any] = []
            known[number] = listed
            listed.extend(restored(child) for _, child in inner)
        elif kind == "dict":
            named: dict[str, Any] = {}
            known[number] = named
            named.update((key, restored(child)) for key, child in inner)
        else:
            own = functions.get(number, {})
            known[number] = found = _class_with(own)(own)
            for key, child in inner:
                setattr(found, key, restored(child))
            if number == 0:
                found._saved_variables = tuple(variables)
        return known[number]

    root: RestoredObject = restored(0)
    root.signatures = {
        name: (ServedTrace if "host" in trace else RestoredTrace)(name, trace, programs, variables)
        for name, trace in about["signatures"].items()
    }
    return root


class RestoredObject(TensorModule):
    """An object of a saved model: its attributes are what was saved of it.

    Args:
        functions: its functions, by name.

    Attributes:
        signatures: of the object that was saved: its signatures, by name.
    """

    signatures: dict[str, RestoredTrace]
    _saved_variables: tuple[Any, ...] | None = None

    def __init__(self, functions: Mapping[str, RestoredFunction | RestoredTrace]) -> None:
        super().__init__("restored")
        self._saved_functions = _Hidden(functions)
        for name, function in functions.items():
            if name != "__call__":
                setattr(self, name, function)

    def saved_functions(self) -> dict[str, RestoredFunction | RestoredTrace]:
        """Its functions, by name; ``__call__`` among them."""
        return dict(self._saved_functions.functions)

    @property
    def variables(self) -> tuple[Any, ...]:
        """Its variables; of the object that was saved in their order then."""
        return super().variables if self._saved_variables is None else self._saved_variables


@dataclasses.dataclass(frozen=True)
class _Hidden:
    """Functions that are no attributes."""

    functions: Mapping[str, RestoredFunction | RestoredTrace]


def _class_with(functions: Mapping[str, RestoredFunction | RestoredTrace]) -> type[RestoredObject]:
    """The class of an object: calling one needs a ``__call__`` of the class's."""
    if "__call__" not in functions:
        return RestoredObject
    call = functions["__call__"]

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return type("_UserObject", (RestoredObject,), {"__call__": called, "__module__": __name__})


_COMPOSITE = (*COMPOSITE_SPECS, SavedTypeSpec)


class RestoredTrace:
    """A function for one kind of arguments; it reads and writes the variables of its model.

    Args:
        name: of the function.
        about: its description in the file.
        programs: all of the file.
        variables: those of the model.
    """

    def __init__(
        self,
        name: str,
        about: Mapping[str, Any],
        programs: Sequence[Any],
        variables: Sequence[Any],
    ):
        self.name = name
        self._variables = variables
        self._specs: list[ArraySpec] = []
        self._args = tuple(_structure(each, self._argument) for each in about["args"])
        self._kwargs = {
            key: _structure(each, self._argument) for key, each in about["kwargs"].items()
        }
        self._of_ranks = {
            tuple(each["ranks"]): (jax.jit(programs[each["payload"]].call), each)
            for each in about["programs"]
        }

    def _argument(self, leaf: Mapping[str, Any]) -> Any:
        def tensor(described: Any) -> ArraySpec:
            self._specs.append(ArraySpec(*described))
            return self._specs[-1]

        return spec_described(leaf, tensor)

    @property
    def structured_input_signature(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The specs of its arguments, by position and by name."""

        def declared(leaf: Any) -> Any:
            return leaf.resolved() if isinstance(leaf, SavedTypeSpec) else leaf

        return map_structure(declared, self._args), map_structure(declared, self._kwargs)

    @property
    def inputs(self) -> list[ArraySpec]:
        """The specs of the tensors that it takes."""
        return list(self._specs)

    @property
    def structured_outputs(self) -> Any:
        """The specs of what it gives, in its structure; sizes that follow from others are None."""
        first, *rest = (about for _, about in self._of_ranks.values())
        unknown = {
            at
            for other in rest
            for at, (shape, _) in enumerate(other["outputs"])
            if len(shape) != len(first["outputs"][at][0])
        }

        def spec(leaf: Mapping[str, Any]) -> ArraySpec:
            shape, dtype = first["outputs"][leaf["output"]]
            dtype = "string" if "names" in leaf else dtype
            return ArraySpec(None if leaf["output"] in unknown else shape, dtype)

        made = _structure(first["structure"], lambda leaf: result_spec_described(leaf, spec))
        if isinstance(made, dict):
            for key, each in made.items():
                if isinstance(each, ArraySpec):
                    each.name = key
        return made

    @property
    def output_shapes(self) -> Any:
        """The shapes of what it gives, in its structure."""
        return map_structure(lambda leaf: getattr(leaf, "shape", None), self.structured_outputs)

    @property
    def output_dtypes(self) -> Any:
        """The types of what it gives, in its structure."""
        return map_structure(lambda leaf: getattr(leaf, "dtype", None), self.structured_outputs)

    @property
    def variables(self) -> tuple[Any, ...]:
        """Those of its model."""
        return tuple(self._variables)

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those of its model that are trained."""
        return tuple(each for each in self._variables if each.trainable)

    def with_numbers_cast(
        self, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with numbers of Python and numpy as tensors of the types it takes."""
        kinds = (bool, int, float, np.generic)

        def cast(spec: Any, value: Any) -> Any:
            if not isinstance(spec, ArraySpec) or not isinstance(value, kinds):
                return value
            return Tensor(convert(value.item() if hasattr(value, "item") else value, spec.dtype))

        by_name = {name: cast(self._kwargs.get(name), value) for name, value in kwargs.items()}
        return tuple(map(cast, self._args, args)) + tuple(args[len(self._args) :]), by_name

    def problem(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str | None:
        """Why it does not take these arguments; None if it does."""
        if len(args) != len(self._args) or kwargs.keys() != self._kwargs.keys():
            return f"it takes {len(self._args)} arguments by position, and {list(self._kwargs)}"
        pairs = [
            *zip(self._args, args, strict=True),
            *((each, kwargs[key]) for key, each in self._kwargs.items()),
        ]
        for spec, value in pairs:
            problem = _mismatch(spec, value)
            if problem is not None:
                return problem
        return None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute it.

        Tensors are passed by name, or by position in their order; Python values that it was traced
        for need not be.

        Raises:
            TypeError: an argument is missing, or one too many, or not of its spec.
        """
        if len(args) != len(self._args) or kwargs.keys() != self._kwargs.keys():
            args, kwargs = self._filled(args, kwargs)
        args = tuple(
            _cast(spec, value) for spec, value in zip(self._args, args, strict=False)
        ) + tuple(args[len(self._args) :])
        kwargs = {
            key: _cast(self._kwargs[key], value) if key in self._kwargs else value
            for key, value in kwargs.items()
        }
        problem = self.problem(args, kwargs)
        if problem is not None:
            raise TypeError(f"{self.name}: {problem}")
        return self.compute(args, kwargs)

    def _filled(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments as those of the function, where its tensors alone are passed."""
        leaves = [*self._args, *self._kwargs.values()]
        specs = [leaf for leaf in leaves if isinstance(leaf, ArraySpec)]
        rest = specs[len(args) :]
        nested = len(specs) < len(self._specs) or len(specs) < len(array_specs(leaves))
        if nested or len(args) > len(specs) or {str(each.name) for each in rest} != kwargs.keys():
            return args, kwargs
        values = iter([*args, *(kwargs[str(each.name)] for each in rest)])

        def fill(leaf: Any) -> Any:
            return next(values) if isinstance(leaf, ArraySpec) else leaf

        filled = tuple(map(fill, self._args))
        return filled, {key: fill(leaf) for key, leaf in self._kwargs.items()}

    def compute(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Compute it with arguments that it takes."""
        tensors: list[Any] = []
        rows: list[Any] = []

        def note(spec: Any, value: Any) -> None:
            if isinstance(spec, ArraySpec):
                tensors.append(convert(value))
            elif isinstance(spec, _COMPOSITE):
                tensors.extend(map(convert, arrays_of(value, rows)))
            elif isinstance(spec, Mapping):
                for key, each in spec.items():
                    note(each, value[key])
            elif isinstance(spec, (list, tuple)):
                for each, inner in zip(spec, value, strict=True):
                    note(each, inner)

        note(self._args, args)
        note(self._kwargs, kwargs)
        ranks = tuple(np.ndim(each) for each in tensors)
        if ranks not in self._of_ranks:
            raise ValueError(
                f"{self.name} was saved for tensors of {sorted(self._of_ranks)} dimensions, not "
                f"{ranks}: those are the ranks for which it could be traced, of five at most. Give "
                "the shapes in its input_signature, or to get_concrete_function, and save it again."
            )
        program, about = self._of_ranks[ranks]
        for spec, size, tensor in zip(self._specs, about.get("sizes", ()), tensors, strict=False):
            if not ArraySpec(size, spec.dtype).shape.is_compatible_with(np.shape(tensor)):
                raise ValueError(
                    f"{self.name} was saved for a tensor of shape {tuple(size)}, not "
                    f"{np.shape(tensor)}, as its program depends on sizes that were unknown: give "
                    "the shape in its input_signature, or to get_concrete_function, and save it "
                    "again."
                )
        values = [each.value for each in self._variables[: about["reads"]]]
        with jax.enable_x64(True):
            leaves, after = program(values, *tensors)
        for at, value in zip(about["writes"], after, strict=True):
            self._variables[at].assign(value)

        def output(leaf: Mapping[str, Any]) -> Any:
            found = leaves[leaf["output"]]
            if "names" in leaf:
                found = ClassNames(found, tuple(leaf["names"])).numpy()
            return wrap(found)

        return _structure(about["structure"], lambda leaf: result_described(leaf, output, rows))

    def __repr__(self) -> str:
        args = [*map(str, self._args), *(f"{key}={each}" for key, each in self._kwargs.items())]
        return f"<ConcreteFunction {self.name}({', '.join(args)}) -> {self.structured_outputs}>"


class ServedTrace(RestoredTrace):
    """A signature of an Estimator's: its program is given what the host prepares of the tensors.

    Args:
        name: of the signature.
        about: its description in the file.
        programs: all of the file.
        variables: those of the model.
    """

    def __init__(
        self,
        name: str,
        about: Mapping[str, Any],
        programs: Sequence[Any],
        variables: Sequence[Any],
    ):
        # What it needs of feature columns is not loaded for other models.
        from drumline.compat.training.host_part import HostPart

        super().__init__(name, about, programs, variables)
        self._program = RestoredTrace(name, about, programs, variables)
        self._host = HostPart.of(about["host"])
        self._kwargs = dict(self._host.inputs)
        self._specs = list(self._kwargs.values())

    def compute(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return self._program.compute((), self._host.arguments(kwargs))


class RestoredFunction:
    """A function that was saved, for the kinds of arguments that it was traced for.

    Args:
        name: of the function.
        parameters: names, kinds and defaults of its parameters; None if they are not known.
        traces: a function for each kind.
        has_signature: whether it had an ``input_signature``.
        problem: why it is known for no arguments.

    Attributes:
        input_signature: the specs of its arguments if it had such a signature, else None.
    """

    def __init__(
        self,
        name: str,
        parameters: Any,
        traces: Sequence[RestoredTrace],
        has_signature: bool = False,
        problem: str = "",
    ):
        self.name = self.__name__ = name
        self.parameters = parameters
        self.concrete_functions = list(traces)
        self.problem = problem
        self.input_signature: tuple[Any, ...] | None = None
        if has_signature:
            self.input_signature = traces[0].structured_input_signature[0]
        self._signature: inspect.Signature | None = None
        if parameters is not None:
            self._signature = inspect.Signature(
                [
                    inspect.Parameter(
                        each,
                        inspect._ParameterKind(kind),
                        default=default if has_default else inspect.Parameter.empty,
                    )
                    for each, kind, has_default, default in parameters
                ]
            )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute it.

        Raises:
            TypeError: the function does not have such arguments.
            ValueError: it was not traced for them.
        """
        given, named = self._bound(args, kwargs)
        for trace in self.concrete_functions:
            if trace.problem(given, named) is None:
                return trace.compute(given, named)
        for trace in self.concrete_functions:
            cast = trace.with_numbers_cast(given, named)
            if trace.problem(*cast) is None:
                return trace.compute(*cast)
        raise self._no_match((given, named))

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> RestoredTrace:
        """The function for arguments of these specs.

        Raises:
            ValueError: it was not traced for them.
        """
        if not args and not kwargs and len(self.concrete_functions) == 1:
            return self.concrete_functions[0]
        given = map_structure(_spec_of, self._bound(args, kwargs))
        signatures = [each.structured_input_signature for each in self.concrete_functions]
        for accepts in (operator.eq, covers):
            for trace, signature in zip(self.concrete_functions, signatures, strict=True):
                if accepts(signature, given):
                    return trace
        raise self._no_match(given)

    def _bound(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments by position and by name, as the function's own parameters say."""
        if self._signature is None:
            return args, kwargs
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _no_match(self, given: Any) -> ValueError:
        if self.problem:
            return ValueError(f"{self.name} was not saved with its model: {self.problem}")
        shown = [_arguments(each.structured_input_signature) for each in self.concrete_functions]
        options = "\n\n".join(f"Option {at + 1}:\n{text}" for at, text in enumerate(shown))
        return ValueError(
            "Could not find matching concrete function to call loaded from the SavedModel. Got:\n"
            f"{_arguments(given)}\n\n Expected these arguments to match one of the "
            f"following {len(shown)} option(s):\n\n{options}"
        )


def _spec_of(leaf: Any) -> Any:
    """The spec of a tensor; other values as they are."""
    leaf = spec_of_argument(leaf)
    if isinstance(leaf, TypeSpec) or not hasattr(leaf, "dtype"):
        return leaf
    return ArraySpec.from_tensor(wrap(convert(leaf)))


def _arguments(given: Any) -> str:
    args, kwargs = given
    lines = [f"  Positional arguments ({len(args)} total):"]
    lines += [f"    * {each}" for each in args]
    return "\n".join([*lines, f"  Keyword arguments: {dict(kwargs)}"])


def _cast(spec: Any, value: Any) -> Any:
    """Python's numbers and numpy's arrays as tensors, the former of the spec's type."""
    if not isinstance(spec, ArraySpec) or isinstance(value, Tensor):
        return value
    return Tensor(convert(value, None if hasattr(value, "dtype") else spec.dtype))


def _mismatch(spec: Any, value: Any) -> str | None:
    """Why a value is not what a structure of specs and Python values says."""
    if isinstance(spec, ArraySpec):
        try:
            tensor = wrap(convert(value))
        except (TypeError, ValueError):
            return f"{value!r:.80} is no tensor, and {spec} is expected"
        if spec.is_compatible_with(tensor):
            return None
        return f"a {tensor.dtype.name} of shape {tuple(tensor.shape)} is given for {spec}"
    if isinstance(spec, _COMPOSITE):
        same = spec.is_compatible_with(value)
        return None if same else f"{value!r:.200} is given for {spec}"
    if isinstance(spec, Mapping):
        if not isinstance(value, Mapping) or value.keys() != spec.keys():
            return f"a dictionary of {list(spec)} is expected, not {value!r:.80}"
        found = (_mismatch(each, value[key]) for key, each in spec.items())
    elif isinstance(spec, (list, tuple)):
        if not isinstance(value, (list, tuple)) or len(value) != len(spec):
            return f"{len(spec)} values are expected, not {value!r:.80}"
        found = (_mismatch(each, inner) for each, inner in zip(spec, value, strict=True))
    else:
        same = type(value) is type(spec) and value == spec
        return None if same else f"{value!r:.80} is given for {spec!r}"
    return next((each for each in found if each is not None), None)


def _structure(described: Mapping[str, Any], leaf: Callable[[Any], Any]) -> Any:
    """The nested value that a description has, with `leaf` of what its leaves have there."""
    ((kind, inner), *_) = described.items()
    if kind == "dict":
        return {key: _structure(each, leaf) for key, each in inner}
    if kind in ("list", "tuple"):
        made: Iterator[Any] = (_structure(each, leaf) for each in inner)
        return list(made) if kind == "list" else tuple(made)
    return None if kind == "none" else leaf(described)


RestoredObject.__name__ = RestoredObject.__qualname__ = "_UserObject"
