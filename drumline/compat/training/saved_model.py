"""``tf.saved_model``: functions as StableHLO with their variables, loaded without the script.

A directory holds one file, ``saved_model.safetensors``: variables, the programs that
``jax.export`` serializes, and a description in JSON; its metadata are a checksum of each. It takes
its name when it is whole and on the disk, so a directory has a whole model or none.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np

from drumline import _safetensors
from drumline._local_path import local_path
from drumline._safetensors import ArrayLayout
from drumline.compat.keras.legacy import MODEL
from drumline.compat.training.composites import (
    COMPOSITE_SPECS,
    described_result,
    described_spec,
    is_portable,
    saved_argument,
)
from drumline.compat.training.function import ConcreteFunction, TensorFunction
from drumline.compat.training.module import TensorModule
from drumline.compat.training.restored import (
    FILE,
    FORMAT,
    VERSION,
    RestoredFunction,
    RestoredObject,
    RestoredTrace,
)
from drumline.compat.values.boundary import map_structure, unwrap, wrap
from drumline.compat.values.composite import CompositeTensor
from drumline.compat.values.specs import ArraySpec
from drumline.estimator.values import ClassNames
from drumline.training.checkpoint.file_format import replacing
from drumline.training.jax_internals import UnknownSize
from drumline.training.state_scope import StateScope

DEFAULT_SERVING_SIGNATURE_DEF_KEY = "serving_default"
PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
_RANKS = range(6)
_MOST_SHAPES = 4
_NOT_TRACED = (TypeError, ValueError, IndexError, UnknownSize)
_SEED = "seed_generator_state"
_KERAS_OWN = set(vars(keras.Layer())) | {"_functional", "_nested_inputs"}


class SaveOptions:
    """How a model is saved, as ``tf.saved_model.SaveOptions``.

    Args:
        namespace_whitelist: accepted; there are no operations of other namespaces.
        save_debug_info: accepted; programs have the places of their operations in any case.
        function_aliases: None: functions have the names of their attributes.
        experimental_debug_stripper: accepted; programs have no operations for debugging.
        experimental_io_device: accepted; files are written by this process.
        experimental_variable_policy: accepted; variables are saved once.
        experimental_custom_gradients: accepted; gradients are saved in any case.
        experimental_image_format: False: the file is in safetensors' format.
        experimental_skip_saver: accepted; loading needs no operations of a saver's.
        experimental_sharding_callback: None: there is one file.
        extra_tags: None: the tag is ``"serve"``.

    Raises:
        NotImplementedError: an option asks for what is not done.
    """

    def __init__(
        self,
        namespace_whitelist: Any = None,
        save_debug_info: bool = False,
        function_aliases: Any = None,
        experimental_debug_stripper: bool = False,
        experimental_io_device: Any = None,
        experimental_variable_policy: Any = None,
        experimental_custom_gradients: bool = True,
        experimental_image_format: bool = False,
        experimental_skip_saver: bool = False,
        experimental_sharding_callback: Any = None,
        extra_tags: Any = None,
    ):
        refused = {
            "function_aliases": function_aliases,
            "experimental_image_format": experimental_image_format,
            "experimental_sharding_callback": experimental_sharding_callback,
            "extra_tags": extra_tags,
        }
        for name, value in refused.items():
            if value:
                raise NotImplementedError(f"SaveOptions does nothing with {name}; leave it out.")
        self.experimental_io_device = experimental_io_device


class LoadOptions:
    """How a model is loaded, as ``tf.saved_model.LoadOptions``.

    Args:
        allow_partial_checkpoint: accepted; a model's file has all of its variables.
        experimental_io_device: accepted; files are read by this process.
        experimental_skip_checkpoint: False: variables have the values that were saved.
        experimental_variable_policy: accepted; variables are saved once.
        experimental_load_function_aliases: accepted; there are none.

    Raises:
        NotImplementedError: an option asks for what is not done.
    """

    def __init__(
        self,
        allow_partial_checkpoint: bool = False,
        experimental_io_device: Any = None,
        experimental_skip_checkpoint: bool = False,
        experimental_variable_policy: Any = None,
        experimental_load_function_aliases: bool = False,
    ):
        if experimental_skip_checkpoint:
            raise NotImplementedError(
                "LoadOptions does nothing with experimental_skip_checkpoint; leave it out."
            )
        self.experimental_io_device = experimental_io_device


@dataclasses.dataclass(frozen=True)
class _Specialization:
    """A function for one kind of arguments: specs, and Python values that are part of it."""

    target: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]


def save(obj: Any, export_dir: Any, signatures: Any = None, options: Any = None) -> None:
    """Write an object's variables and compiled functions, as ``tf.saved_model.save``.

    Functions are those of its attributes, and of the modules and layers in it: for the arguments
    that their ``input_signature`` says, or that they were called with. Unknown dimensions stay
    unknown, for at most five dimensions where their number is unknown.

    Args:
        obj: a ``tf.Module``, a Keras model or layer that was built, or another object whose
            attributes hold such.
        export_dir: a local directory; a model that it has is replaced.
        signatures: a function with an ``input_signature``, a concrete one, or a dictionary of such;
            by default a Keras model's call, if it is built.
        options: `SaveOptions`.

    Raises:
        TypeError: a signature's name is no string.
        ValueError: `obj` or a signature is nothing to save, a signature's arguments are not known,
            or a function uses variables that `obj` has not.
        NotImplementedError: a function takes or gives strings, or calls back into Python.
    """
    if isinstance(obj, (str, bytes, int, float)) or obj is None:
        raise ValueError(f"tf.saved_model.save takes a tf.Module or a Keras model, not {obj!r:.60}")
    graph = _SavedObjects()
    graph.add(obj)
    named = _signatures(graph, obj, signatures)
    graph.write(Path(local_path(export_dir, "tf.saved_model.save", "a model")), named)


class SavedFunctions:
    """An object with signatures that a part of the host's goes before, such as an Estimator's.

    Args:
        root: a module that holds the variables.
    """

    def __init__(self, root: TensorModule):
        self._graph = _SavedObjects()
        self._graph.add(root)
        self._signatures: dict[str, _Specialization] = {}
        self._hosts: dict[str, Any] = {}

    def add_signature(
        self,
        name: str,
        function: Callable[..., Any],
        specs: Mapping[str, ArraySpec],
        host: Any,
    ) -> None:
        """Add a signature.

        Args:
            name: of the signature.
            function: takes tensors by name, and gives a dictionary of them.
            specs: of what it takes.
            host: describes what makes that of the signature's tensors; see `HostPart`.
        """

        def serve(**given: Any) -> dict[str, Any]:
            return _named(function(**given))

        self._signatures[name] = _Specialization(serve, (), dict(specs))
        self._hosts[name] = host

    def write_to(self, directory: Path) -> None:
        """Write the file."""
        self._graph.write(directory, self._signatures, self._hosts)


def export_model(model: Any, export_dir: Any) -> None:
    """Write a Keras model's call as the function ``serve`` and as signatures, as ``Model.export``.

    Raises:
        ValueError: the model is not built.
    """
    call, serve = _serving(model)
    graph = _SavedObjects()
    graph.add(model, functions=False)
    graph.functions[0] = {"serve": [call]}
    named = {"serve": serve, DEFAULT_SERVING_SIGNATURE_DEF_KEY: serve}
    graph.write(Path(local_path(export_dir, "Model.export", "a model")), named)


class _SavedObjects:
    """The objects that are reached from one: their variables, children and functions.

    Attributes:
        nodes: for each object what it is, with its children by key.
        functions: the functions of the objects among them, by the object's number and name.
        unsaved: the functions that are not saved, by the same, and why.
        variables: all of them.
    """

    def __init__(self) -> None:
        self.nodes: list[dict[str, Any]] = []
        self.functions: dict[int, dict[str, list[_Specialization]]] = {}
        self.about_functions: dict[tuple[int, str], dict[str, Any]] = {}
        self.unsaved: dict[tuple[int, str], str] = {}
        self.variables: list[Any] = []
        self._numbers: dict[int, int | None] = {}
        self._alive: list[Any] = []

    def add(self, value: Any, functions: bool = True) -> int | None:
        """Note an object and what it holds; None if there is nothing to save in it."""
        if id(value) in self._numbers:
            return self._numbers[id(value)]
        if isinstance(value, keras.Variable):
            return self._new(value, {"variable": self._variable(value)})
        if isinstance(value, Mapping):
            found = [(key, each) for key, each in value.items() if isinstance(key, str)]
            return self._container(value, "dict", found)
        if isinstance(value, (list, tuple)):
            return self._container(value, "list", list(enumerate(value)))
        if isinstance(value, (keras.optimizers.Optimizer, keras.Metric)):
            for each in value.variables:
                self._variable(each)
            return None
        is_object = isinstance(value, TensorModule) or hasattr(value, "trackable_attributes")
        if not is_object and self.nodes:
            return None
        number = self._new(value, {"children": []})
        for key, each in _attributes(value):
            child = self.add(each)
            if child is not None:
                self.nodes[number]["children"].append([key, child])
        for each in getattr(value, "variables", ()):
            self._variable(each)
        if functions:
            self._add_functions(number, value)
        return number

    def _new(self, value: Any, about: dict[str, Any]) -> int:
        self._numbers[id(value)] = len(self.nodes)
        self._alive.append(value)
        self.nodes.append(about)
        return len(self.nodes) - 1

    def _variable(self, value: Any) -> int:
        for at, each in enumerate(self.variables):
            if each is value:
                return at
        self.variables.append(value)
        return len(self.variables) - 1

    def _container(self, value: Any, kind: str, found: Sequence[tuple[Any, Any]]) -> int | None:
        self._numbers[id(value)] = None  # until it is known to hold something
        self._alive.append(value)
        children = [(key, self.add(each)) for key, each in found]
        children = [(key, child) for key, child in children if child is not None]
        return self._new(value, {kind: children}) if children else None

    def _add_functions(self, number: int, value: Any) -> None:
        found = functions_of(value)
        for name, (function, bound) in found.items():
            about: dict[str, Any]
            if isinstance(function, TensorFunction):
                given = function.traced_arguments(bound)
                target = _called(function, bound)
                about = {
                    "parameters": _parameters(function, len(bound)),
                    "has_signature": function.input_signature is not None,
                }
            elif isinstance(function, RestoredFunction):
                self._add_loaded(number, name, function)
                continue
            else:
                given = [function.structured_input_signature]
                target = _target(function)
                about = {"parameters": None, "concrete": True}
                if isinstance(function, RestoredTrace):
                    self._add_variables(function)
            traces = [
                _Specialization(target, args, kwargs)
                for args, kwargs in given
                if _is_portable(args) and _is_portable(kwargs)
            ]
            self._add_traces(number, name, traces, about)
            if not given:
                self.unsaved[number, name] = (
                    "it had not been called, and so was known for no arguments: call it, or its "
                    "get_concrete_function, before it is saved"
                )
            elif not traces:
                self.unsaved[number, name] = (
                    f"it takes a {' and a '.join(_other_kinds(given))}, and only tensors, numbers "
                    "and strings are saved as arguments: save a function of their tensors that "
                    "calls it"
                )

    def _add_loaded(self, number: int, name: str, function: RestoredFunction) -> None:
        traces = function.concrete_functions
        if not traces:
            self.unsaved[number, name] = function.problem
        for each in traces:
            self._add_variables(each)
        about = {
            "parameters": function.parameters,
            "has_signature": function.input_signature is not None,
        }
        specialized = [
            _Specialization(_target(each), *each.structured_input_signature) for each in traces
        ]
        self._add_traces(number, name, specialized, about)

    def _add_traces(
        self, number: int, name: str, traces: list[_Specialization], about: dict[str, Any]
    ) -> None:
        if traces:
            self.functions.setdefault(number, {})[name] = traces
            self.about_functions[number, name] = about

    def _add_variables(self, trace: RestoredTrace) -> None:
        """Note the variables of the model that a loaded function is of."""
        for each in trace.variables:
            self._variable(each)

    def _default_signature(self, functions: Sequence[Any]) -> dict[str, _Specialization]:
        """The one function of the first object's that may be a signature, if there is one.

        Args:
            functions: the descriptions of all.
        """
        found = []
        for each in functions:
            if each["object"] != 0 or not (each.get("has_signature") or each.get("concrete")):
                continue
            (trace,) = self.functions[0][each["name"]]
            leaves = [*trace.args, *trace.kwargs.values()]
            flat = _is_flat(each["traces"][0]["programs"][0]["structure"])
            if flat and leaves and all(isinstance(leaf, ArraySpec) for leaf in leaves):
                found.append((each["name"], trace))
        if len(found) != 1:
            return {}
        ((name, trace),) = found
        return {
            DEFAULT_SERVING_SIGNATURE_DEF_KEY: _by_names(
                name, trace.target, trace.args, trace.kwargs
            )
        }

    def write(
        self,
        directory: Path,
        named: Mapping[str, _Specialization] | None,
        hosts: Mapping[str, Any] | None = None,
    ) -> None:
        """Export the functions and write all into a file.

        Args:
            directory: is made.
            named: the signatures; None for the one function that may be one.
            hosts: the parts of the host's of signatures, by name.
        """
        payloads: list[bytes] = []
        functions = [
            {
                "object": number,
                "name": name,
                **self.about_functions.get((number, name), {"parameters": None}),
                "traces": [self._exported(name, trace, payloads) for trace in traces],
            }
            for number, found in self.functions.items()
            for name, traces in found.items()
        ]
        if named is None:
            named = self._default_signature(functions)
        signatures = {name: self._exported(name, trace, payloads) for name, trace in named.items()}
        for name, host in (hosts or {}).items():
            signatures[name]["host"] = host
        with_strings = hosts or any(
            "names" in leaf for each in signatures.values() for leaf in _leaves_of(each)
        )
        description = {
            "format": FORMAT,
            # Others than the first version are written where they are needed alone.
            "version": VERSION if with_strings else 1,
            "jax": jax.__version__,
            "objects": self.nodes,
            "variables": [
                {"name": str(each.name), "trainable": bool(each.trainable)}
                for each in self.variables
            ],
            "functions": functions,
            "unsaved": [
                {"object": number, "name": name, "problem": problem}
                for (number, name), problem in self.unsaved.items()
            ],
            "signatures": signatures,
        }
        arrays = {f"variable/{at}": np.asarray(v.value) for at, v in enumerate(self.variables)}
        arrays |= {
            f"program/{at}": np.frombuffer(each, np.uint8) for at, each in enumerate(payloads)
        }
        arrays["description"] = np.frombuffer(json.dumps(description).encode(), np.uint8)
        checksums = {name: _safetensors.checksum(array) for name, array in arrays.items()}
        directory.mkdir(parents=True, exist_ok=True)
        with replacing(directory / FILE) as file:
            layout = {name: (array.shape, array.dtype) for name, array in arrays.items()}
            file.write(ArrayLayout(layout).header({_safetensors.CHECKSUMS: checksums}))
            for array in arrays.values():
                file.write(_safetensors.bytes_of(array).data)
        (directory / MODEL).unlink(missing_ok=True)  # of a model that was there before

    def _exported(self, name: str, trace: _Specialization, payloads: list[bytes]) -> dict[str, Any]:
        """Export a function for one kind of arguments; of unknown rank, for each that works."""
        specs: list[ArraySpec] = []

        def tensor(spec: ArraySpec) -> Any:
            specs.append(spec)
            shape = None if spec.shape.rank is None else list(spec.shape)
            return [shape, spec.dtype.name, spec.name]

        def argument(leaf: Any) -> Any:
            return described_spec(leaf, tensor)

        about = {
            "args": [_described(each, argument) for each in trace.args],
            "kwargs": {key: _described(each, argument) for key, each in trace.kwargs.items()},
        }
        for spec in specs:
            if spec.dtype.name == "string":
                raise NotImplementedError(
                    f"{name} takes strings, which no device holds: save a function of numbers"
                )
        unknown = any(spec.shape.rank is None for spec in specs)
        programs: list[dict[str, Any]] = []
        problem: Exception | None = None
        for rank in _RANKS if unknown else (0,):
            known = [
                ArraySpec([None] * rank, spec.dtype) if spec.shape.rank is None else spec
                for spec in specs
            ]
            try:
                payload, program = self._program(name, trace, known)
            except _NOT_TRACED as error:
                problem = error  # the function may be for tensors of other ranks
                if not unknown:
                    break
                found = self._program_of_sizes(name, trace, specs, rank)
                if found is None:
                    continue
                payload, program = found
            payloads.append(payload)
            ranks = [spec.shape.rank for spec in known]
            programs.append({"payload": len(payloads) - 1, "ranks": ranks, **program})
        if not programs:
            assert problem is not None
            if all(spec.shape.is_fully_defined() for spec in specs):
                raise problem
            taken = ", ".join(map(str, specs))
            raise ValueError(
                f"{name} cannot be saved for {taken}, as its program depends on the sizes that are "
                f"None there: give them in its input_signature, or to get_concrete_function, such "
                f"as tf.TensorSpec([None, 28, 28, 1]) ({problem})"
            ) from problem
        return about | {"programs": programs}

    def _program_of_sizes(
        self, name: str, trace: _Specialization, specs: Sequence[ArraySpec], rank: int
    ) -> tuple[bytes, dict[str, Any]] | None:
        """A program for tensors of a variable's shape, where it depends on sizes; None if none is.

        Args:
            name: of the function.
            trace: the function.
            specs: of its tensors; those of unknown rank get the shape.
            rank: of the shape.
        """
        shapes = dict.fromkeys(tuple(each.shape) for each in self.variables)
        for shape in [shape for shape in shapes if len(shape) == rank and rank][:_MOST_SHAPES]:
            known = [ArraySpec(shape, s.dtype) if s.shape.rank is None else s for s in specs]
            with contextlib.suppress(*_NOT_TRACED):
                payload, program = self._program(name, trace, known)
                return payload, program | {"sizes": [list(each.shape) for each in known]}
        return None

    def _program(
        self, name: str, trace: _Specialization, specs: Sequence[ArraySpec]
    ) -> tuple[bytes, dict[str, Any]]:
        """A function of the variables' values and its tensors, serialized, and what it gives."""
        found: list[dict[str, Any]] = []

        def pure(values: Any, *arrays: Any) -> Any:
            rest, rows = map(wrap, arrays), []  # type: ignore[var-annotated]
            args, kwargs = map_structure(
                lambda leaf: saved_argument(leaf, rest, rows),
                (tuple(trace.args), dict(trace.kwargs)),
            )
            leaves: list[Any] = []

            def output(leaf: Any) -> Any:
                if isinstance(leaf, CompositeTensor):
                    return described_result(leaf, output)
                if isinstance(leaf, ClassNames):
                    leaves.append(leaf.ids)
                    return {"output": len(leaves) - 1, "names": list(leaf.names)}
                leaf = leaf.value if isinstance(leaf, keras.Variable) else unwrap(leaf)
                if not isinstance(leaf, (jax.Array, np.ndarray, np.generic, int, float, complex)):
                    raise NotImplementedError(
                        f"{name} gives a {type(leaf).__name__}, and programs give numbers alone"
                    )
                leaves.append(leaf)
                return {"output": len(leaves) - 1}

            with StateScope(self.variables, values) as scope:
                described = _described(trace.target(*args, **kwargs), output)
                written = scope.written
                after = [scope.value_of(each) for each in written]
            known = set(map(id, self.variables))
            unknown = [each for each in scope.discovered if id(each) not in known]
            seeds = [each for each in unknown if each.name == _SEED]
            if len(seeds) < len(unknown):
                unknown = [each for each in unknown if each.name != _SEED]
                raise ValueError(
                    f"{name} uses the variable {unknown[0].name!r} (shape "
                    f"{tuple(unknown[0].shape)}), which the saved object has not: make it, or the "
                    "module that has it, an attribute of the object."
                )
            for each in seeds:  # of random numbers; saved as the others, and traced again with
                self._variable(each)
            places = [self._variable(each) for each in written]
            found.append({"structure": described, "writes": places})
            return leaves, after

        def export(shared: bool) -> Any:
            symbols = jax.export.SymbolicScope()
            kinds = [
                jax.ShapeDtypeStruct(
                    _dimensions(at, spec, symbols, shared), spec.dtype.as_numpy_dtype
                )
                for at, spec in enumerate(specs)
            ]
            count = len(self.variables)
            values = [jax.ShapeDtypeStruct(v.shape, v.value.dtype) for v in self.variables]
            made = jax.export.export(jax.jit(pure), platforms=PLATFORMS)(values, *kinds)
            return made if len(self.variables) == count else export(shared)

        with jax.enable_x64(True):
            try:
                exported = export(shared=False)
            except _NOT_TRACED:
                if sum(None in spec.shape[:1] for spec in specs) < 2:
                    raise
                exported = export(shared=True)  # the first dimensions are one batch
            payload = bytes(exported.serialize(vjp_order=1))
        outputs = len(exported.out_avals) - len(found[-1]["writes"])
        shapes = [
            [[size if isinstance(size, int) else None for size in aval.shape], aval.dtype.name]
            for aval in exported.out_avals[:outputs]
        ]
        return payload, {"reads": len(self.variables), "outputs": shapes, **found[-1]}


def _called(function: TensorFunction, bound: tuple[Any, ...]) -> Callable[..., Any]:
    return lambda *args, **kwargs: function.call_plain(bound, args, kwargs)


def _target(function: ConcreteFunction | RestoredTrace) -> Callable[..., Any]:
    """A concrete function as part of whoever traces it."""
    if isinstance(function, RestoredTrace):
        return lambda *args, **kwargs: function.compute(args, kwargs)
    return lambda *args, **kwargs: function.call_plain(args, kwargs)


def functions_of(value: Any) -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """The functions among an object's attributes by name, each with what it is bound to.

    They are `TensorFunction`, `ConcreteFunction`, and those that were loaded.
    """
    found: dict[str, tuple[Any, tuple[Any, ...]]] = {}
    if isinstance(value, RestoredObject):
        found |= {name: (each, ()) for name, each in value.saved_functions().items()}
    for kind in reversed(type(value).__mro__):
        for name, each in vars(kind).items():
            if isinstance(each, TensorFunction):
                found[name] = (each, (value,))
    kinds = (TensorFunction, ConcreteFunction, RestoredFunction, RestoredTrace)
    for name, each in vars(value).items() if hasattr(value, "__dict__") else ():
        if isinstance(each, kinds):
            found[name] = (each, ())
    return found


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object that may hold something to save, without Keras's own."""
    if isinstance(value, keras.Layer):
        yield from ((k, v) for k, v in sorted(vars(value).items()) if k not in _KERAS_OWN)
    elif hasattr(value, "trackable_attributes"):
        yield from value.trackable_attributes()
    else:
        yield from sorted(getattr(value, "__dict__", {}).items())


def _is_portable(value: Any) -> bool:
    """Whether all leaves are specs, or values that JSON has."""
    if isinstance(value, Mapping):
        return all(map(_is_portable, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_portable, value))
    return is_portable(value)


def _other_kinds(given: Any) -> list[str]:
    """The names of the classes of leaves that are not portable."""
    found: set[str] = set()

    def note(leaf: Any) -> None:
        if not _is_portable(leaf):
            found.add(type(leaf).__name__)

    map_structure(note, list(given))
    return sorted(found)


def _parameters(function: TensorFunction, skip: int) -> list[Any] | None:
    """Names, kinds and defaults of a function's parameters; None if JSON does not have one."""
    found = []
    for each in list(inspect.signature(function.python_function).parameters.values())[skip:]:
        has_default = each.default is not inspect.Parameter.empty
        if has_default and not _is_portable(each.default):
            return None
        found.append(
            [each.name, int(each.kind), has_default, each.default if has_default else None]
        )
    return found


def _signatures(graph: _SavedObjects, obj: Any, given: Any) -> dict[str, _Specialization] | None:
    """The signatures; None if the one function that has an ``input_signature`` is it."""
    if given is None:
        if not isinstance(obj, keras.Model):
            return None
        shapes = obj.built and getattr(obj, "_build_shapes_dict", None)
        is_known = bool(getattr(obj, "inputs", None) or shapes)
        return {DEFAULT_SERVING_SIGNATURE_DEF_KEY: _serving(obj)[1]} if is_known else {}
    if not isinstance(given, Mapping):
        given = {DEFAULT_SERVING_SIGNATURE_DEF_KEY: given}
    for name, value in given.items():
        if not isinstance(name, str):
            raise TypeError(f"Signatures have names that are strings, not {name!r}")
        if isinstance(value, RestoredTrace):
            graph._add_variables(value)
    return {name: _signature(name, value) for name, value in given.items()}


def _leaves_of(trace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The leaves of what a trace's programs give."""
    found: list[Mapping[str, Any]] = []

    def note(described: Any) -> None:
        ((kind, inner), *_) = described.items()
        if kind == "dict":
            for _, each in inner:
                note(each)
        elif kind in ("list", "tuple"):
            for each in inner:
                note(each)
        elif kind != "none":
            found.append(described)

    for program in trace["programs"]:
        note(program["structure"])
    return found


def _is_flat(described: Mapping[str, Any]) -> bool:
    """Whether a function gives tensors without nesting: what a signature can."""
    ((kind, inner), *_) = described.items()
    found = [each for _, each in inner] if kind == "dict" else inner
    found = found if kind in ("dict", "list", "tuple") else [described]
    return all("output" in each for each in found)


def _serving(model: Any) -> tuple[_Specialization, _Specialization]:
    """A Keras model's call, and as a signature: by the names of its inputs."""
    inputs = getattr(model, "inputs", None)
    if not inputs:
        return _serving_of_calls(model)
    specs = [ArraySpec(each.shape, each.dtype, each.name.split(":")[0]) for each in inputs]
    names = [str(spec.name) for spec in specs]
    # As the model was made of them: a subclass and a Sequential have no structure of their own.
    one = inputs[0] if len(inputs) == 1 else inputs
    structure = jax.tree.structure(getattr(model, "_inputs_struct", one))

    def call(*args: Any) -> Any:
        return model(jax.tree.unflatten(structure, args), training=False)

    def serve(**kwargs: Any) -> dict[str, Any]:
        return _named(call(*(kwargs[name] for name in names)))

    return _Specialization(call, specs, {}), _Specialization(
        serve, (), dict(zip(names, specs, strict=True))
    )


def _serving_of_calls(model: Any) -> tuple[_Specialization, _Specialization]:
    """The call of a model that was not made of inputs, for shapes of its first one, any batch."""
    shapes = getattr(model, "_build_shapes_dict", None)
    if not shapes or not model.built:
        raise ValueError(
            f"{model.name} is not built: call it on a batch once before it is saved, or make it of "
            "keras.Input."
        )
    specs: list[ArraySpec] = []

    def argument(structure: Any, name: str) -> Any:
        """Specs in place of shapes, which are tuples or lists of sizes."""
        if isinstance(structure, Mapping):
            return {key: argument(each, str(key)) for key, each in structure.items()}
        if any(isinstance(each, (Mapping, list, tuple)) for each in structure):
            kind = list if isinstance(structure, list) else tuple
            return kind(argument(each, f"{name}_{at}") for at, each in enumerate(structure))
        specs.append(ArraySpec([None, *structure[1:]], model.input_dtype, name))
        return specs[-1]

    names_of_arguments = [each.removesuffix("_shape") for each in shapes]
    names_of_arguments = ["inputs" if each == "input" else each for each in names_of_arguments]
    args = [
        argument(shape, name)
        for shape, name in zip(shapes.values(), names_of_arguments, strict=True)
    ]
    names = [str(spec.name) for spec in specs]

    def call(*given: Any) -> Any:
        return model(*given, training=False)

    def serve(**kwargs: Any) -> dict[str, Any]:
        filled = map_structure(
            lambda leaf: kwargs[str(leaf.name)] if isinstance(leaf, ArraySpec) else leaf, args
        )
        return _named(call(*filled))

    return _Specialization(call, args, {}), _Specialization(
        serve, (), dict(zip(names, specs, strict=True))
    )


def _signature(name: str, value: Any) -> _Specialization:
    """A function whose arguments are passed by name, and that gives a dictionary."""
    if not isinstance(value, (ConcreteFunction, RestoredTrace)):
        if not hasattr(value, "get_concrete_function"):
            raise ValueError(
                "Expected a TensorFlow function for which to generate a signature, but got "
                f"{value!r:.80} for {name!r}: give a tf.function with an input_signature, or pass "
                "get_concrete_function(tf.TensorSpec(...))."
            )
        if value.input_signature is None:
            raise ValueError(
                f"Signature {name!r} has no input_signature: give tf.function one, or pass "
                "get_concrete_function(tf.TensorSpec(...))."
            )
        value = value.get_concrete_function()
    args, kwargs = value.structured_input_signature
    return _by_names(name, _target(value), args, kwargs)


def _by_names(
    name: str, target: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> _Specialization:
    """A function as one that takes its tensors by name."""
    leaves = [*args, *kwargs.values()]
    if any(isinstance(leaf, (Mapping, list, tuple, *COMPOSITE_SPECS)) for leaf in leaves):
        raise ValueError(f"Signature {name!r} takes more than tensors: {args}, {kwargs}")
    specs = [leaf for leaf in leaves if isinstance(leaf, ArraySpec)]
    names = [str(spec.name) for spec in specs]
    if len(set(names)) < len(names):
        raise ValueError(f"Signature {name!r} has two arguments of one name: {names}")

    def call(**given: Any) -> Any:
        rest = iter([given[each] for each in names])

        def fill(leaf: Any) -> Any:
            return next(rest) if isinstance(leaf, ArraySpec) else leaf

        filled = {key: fill(leaf) for key, leaf in kwargs.items()}
        return _named(target(*(fill(leaf) for leaf in args), **filled))

    return _Specialization(call, (), dict(zip(names, specs, strict=True)))


def _named(result: Any) -> dict[str, Any]:
    """A signature's results by name: those that have none are numbered."""
    if isinstance(result, Mapping):
        return dict(sorted(result.items()))
    outputs = result if isinstance(result, (list, tuple)) else [result]
    return {f"output_{at}": each for at, each in enumerate(outputs)}


def _dimensions(at: int, spec: ArraySpec, symbols: Any, shared: bool) -> tuple[Any, ...]:
    """Its dimensions, with a symbol for unknown ones; first ones may be one batch everywhere."""
    names = [
        str(size) if size is not None else "batch" if axis == 0 and shared else f"d{at}_{axis}"
        for axis, size in enumerate(spec.shape)
    ]
    return tuple(jax.export.symbolic_shape(",".join(names), scope=symbols)) if names else ()


def _described(value: Any, leaf: Callable[[Any], Any]) -> Any:
    """A nested value's structure in JSON, with `leaf` of its leaves."""
    if isinstance(value, Mapping):
        return {"dict": [[str(key), _described(each, leaf)] for key, each in value.items()]}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_described(each, leaf) for each in value]}
    return {"none": True} if value is None else leaf(value)
