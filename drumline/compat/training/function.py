"""``tf.function``: drumline's compiled functions, whose Python sees tensors."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import jax
import keras
import numpy as np

from drumline import config
from drumline.compat.composite.extension import ExtensionTypeSpec, tensors_within
from drumline.compat.composite.sparse import SparseSpec
from drumline.compat.ops.host import Checks
from drumline.compat.training.composites import (
    COMPOSITE_SPECS,
    array_specs,
    filled,
    spec_of_argument,
)
from drumline.compat.training.variable import CreatedWhileTraced
from drumline.compat.values.boundary import map_structure, unwrap, with_control_flow, wrap
from drumline.compat.values.composite import CompositeTensor
from drumline.compat.values.convert import convert
from drumline.compat.values.errors import InvalidArgumentError, OpError
from drumline.compat.values.specs import ArraySpec, RaggedSpec, TypeSpec
from drumline.compat.values.tensor import Tensor
from drumline.data.functions.native.symbol import ValueNeedsPython
from drumline.distribute.functions.function import MOST_PROGRAMS, Function
from drumline.distribute.step.arguments import StringArgument
from drumline.training.jax_internals import is_staging


class TensorFunction(Function):
    """A function that `function` compiles, as ``tf.function`` gives.

    Args:
        python_function: sees tensors in place of arrays; Python's numbers are part of the trace.
        input_signature: a sequence of nested ``tf.TensorSpec``.
    """

    def __init__(
        self, python_function: Callable[..., Any], input_signature: Sequence[Any] | None = None
    ):
        # Those of ragged tensors and of any number of dimensions are checked here.
        specs = None
        if input_signature is not None and _core_checks(input_signature):
            specs = unwrap(list(input_signature))
        adapt = functools.partial(_of_tensors, weakref.ref(self))
        super().__init__(python_function, specs, keep_64_bits=True, adapt=adapt)
        self._given_signature = input_signature
        self._checks = Checks()
        self._needs_python = False
        self._created_variables: dict[int, weakref.ref[Any]] = {}
        self._methods: dict[int, tuple[weakref.ref[Any], Callable[..., Any]]] = {}
        self._traced: list[tuple[weakref.ref[Any] | None, Any, Any]] = []
        self._warned_of_strings = False

    @property
    def input_signature(self) -> Sequence[Any] | None:
        """The specs of the arguments, if some were given."""
        return self._given_signature

    def _call(self, bound: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = map_structure(_argument, args), map_structure(_argument, kwargs)
        if is_staging():  # it becomes part of who calls it, and is yet known for these arguments
            self.note_trace((*bound, *wrap(args)), wrap(kwargs))
        if self._specs is not None:
            args, kwargs = unwrap(args), unwrap(kwargs)
        elif self._given_signature is not None:
            args, kwargs = self._fitting(len(bound), args, kwargs), {}
        with self._checks.collecting():
            return wrap(self._run(bound, args, kwargs))

    def _fitting(self, skip: int, args: Any, kwargs: Any) -> tuple[Any, ...]:
        """The arguments that the signature describes, of its types."""
        parameters = list(inspect.signature(self.python_function).parameters.values())[skip:]
        call = inspect.Signature(parameters).bind(*args, **kwargs)
        assert self._given_signature is not None
        name = getattr(self.python_function, "__qualname__", "the function")
        if call.kwargs or len(call.args) != len(self._given_signature):
            raise TypeError(
                f"{name} takes {len(self._given_signature)} arguments, as its input_signature "
                f"says, not {len(call.args) + len(call.kwargs)}"
            )
        given = []
        for spec, value in zip(self._given_signature, call.args, strict=True):
            if isinstance(spec, ArraySpec) and not isinstance(value, Tensor):
                value = Tensor(convert(value, spec.dtype))
            if not spec.is_compatible_with(value):
                raise TypeError(
                    f"{name} is to be given {spec}, as its input_signature says, not {value!r:.80}"
                )
            given.append(value)
        return tuple(given)

    def _run(self, bound: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
        """Run it compiled, or as Python if a tensor's value is needed while it is traced."""
        if not self._needs_python:
            try:
                return super()._call(bound, *args, **kwargs)
            except ValueNeedsPython as error:
                if is_staging():  # whoever traces this function runs as Python
                    raise
                if isinstance(error, CreatedWhileTraced) and self._creates_variables(bound):
                    return self._plain(*bound, *args, **kwargs)
                if isinstance(error, CreatedWhileTraced):
                    raise ValueError(
                        "tf.function only supports singleton tf.Variables created on the first "
                        "call. Make sure the tf.Variable is only created once or created outside "
                        "tf.function."
                    ) from error
                self._needs_python = True
                self._warn(str(error), stacklevel=5)
        return self._plain(*bound, *args, **kwargs)

    def note_trace(self, args: Any, kwargs: Any) -> None:
        """Note what arguments it is traced for, the object of a method among them."""
        if _of_guessed_sizes.get():
            return
        owner: weakref.ref[Any] | None = None
        if args and not isinstance(args[0], (Tensor, CompositeTensor, TypeSpec)):
            with contextlib.suppress(TypeError):  # a value without weak references is no object
                owner = weakref.ref(args[0])
        rest = args if owner is None else args[1:]
        specs = [map_structure(functools.partial(_spec, None), each) for each in (rest, kwargs)]
        known = [each for each in self._traced if each[0] is None or each[0]() is not None]
        if not any(each[0] is owner and _same(each[1:], tuple(specs)) for each in known):
            known.append((owner, *specs))
        self._traced = known[-MOST_PROGRAMS:]

    def traced_arguments(self, bound: tuple[Any, ...]) -> list[tuple[tuple[Any, ...], Any]]:
        """The arguments, by position and by name, for which it is known for an object.

        Args:
            bound: the object whose method it is, if it is one.

        Returns:
            Specs in place of tensors. Parameters are by position if the function has no ``*args``.
        """
        given: list[tuple[tuple[Any, ...], Any]]
        if self._given_signature is not None:
            given = [(tuple(self._given_signature), {})]
        else:
            owners = [None if owner is None else owner() for owner, _, _ in self._traced]
            mine = bound[0] if bound else None
            given = [
                (tuple(args), kwargs)
                for owner, (_, args, kwargs) in zip(owners, self._traced, strict=True)
                if owner is mine
            ]
        parameters = list(inspect.signature(self.python_function).parameters.values())[len(bound) :]
        signature = inspect.Signature(parameters)
        names = [each.name for each in parameters]
        found: list[tuple[tuple[Any, ...], Any]] = []
        for args, kwargs in given:
            call = signature.bind(*args, **kwargs)
            call.apply_defaults()
            named = [
                map_structure(functools.partial(_spec, name), value)
                for name, value in zip(names, call.args, strict=False)
            ]
            each = ((*named, *call.args[len(named) :]), call.kwargs)
            if not any(_same(other, each) for other in found):
                found.append(each)
        return found

    def general_arguments(self, bound: tuple[Any, ...], given: Any) -> Any:
        """The arguments that it is known for that cover others; None if only these do.

        Args:
            bound: the object whose method it is, if it is one.
            given: specs by position and by name.

        Raises:
            TypeError: the ``input_signature`` does not cover them.
        """
        known = self.traced_arguments(bound)
        if any(_same(each, given) for each in known):
            return None
        for each in known:
            if covers(each, given):
                return each
        if self._given_signature is not None and _has_specs_alone(given):
            raise TypeError(
                f"Binding inputs to tf.function failed due to `Can not cast {given[0]} to "
                f"{known[0][0]}`: {getattr(self, '__name__', 'it')} has that input_signature."
            )
        return None

    def call_plain(self, bound: tuple[Any, ...], args: Any, kwargs: Any) -> Any:
        """Run it as part of whoever traces it; checks of values are left out."""
        with self._checks.collecting():
            return wrap(self._plain(*bound, *args, **kwargs))

    def _creates_variables(self, bound: tuple[Any, ...]) -> bool:
        """Whether no call, for this object if it is a method, has created variables before."""
        owner = bound[0] if bound else self
        known = self._created_variables.get(id(owner))
        if known is not None and known() is owner:
            return False
        with contextlib.suppress(TypeError):  # an object without weak references
            self._created_variables[id(owner)] = weakref.ref(owner)
        return True

    def _compiled(self, args: Any, kwargs: Any) -> Any:
        """Run it compiled, or as Python if an argument holds strings, which no device does."""
        try:
            return super()._compiled(args, kwargs)
        except StringArgument:
            if is_staging():
                return self._plain(*args, **kwargs)
        if not self._warned_of_strings:
            self._warned_of_strings = True
            self._warn("an argument holds strings, which no device does", stacklevel=7)
        return self._uncompiled(args, kwargs)

    def _warn(self, reason: str, stacklevel: int) -> None:
        name = getattr(self.python_function, "__qualname__", "a function")
        text = f"tf.function {name} runs as Python, not compiled: {reason}"
        warnings.warn(text, stacklevel=stacklevel)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self._method_of(instance), instance)

    def _method_of(self, instance: Any) -> Callable[..., Any]:
        """The function that is bound to an object: the same one at each access.

        Methods give attributes of their function, which must therefore know the object.
        """
        known = self._methods.get(id(instance))
        if known is not None and known[0]() is instance:
            return known[1]
        try:
            reference = weakref.ref(instance, functools.partial(self._forget, id(instance)))
        except TypeError:  # an object without weak references: of a class with __slots__
            return self._of_instance

        @functools.wraps(self.python_function)
        def method(instance: Any, *args: Any, **kwargs: Any) -> Any:
            return self._call((instance,), *args, **kwargs)

        def get_concrete_function(*args: Any, **kwargs: Any) -> ConcreteFunction:
            return ConcreteFunction(self, (reference(),), args, kwargs)

        known_attributes = {
            "get_concrete_function": get_concrete_function,
            "pretty_printed_concrete_signatures": lambda verbose=True: self._signatures_of(
                (reference(),), verbose
            ),
            "experimental_get_tracing_count": self.experimental_get_tracing_count,
            "input_signature": self.input_signature,
            "python_function": self.python_function,
        }
        vars(method).update(known_attributes)
        self._methods[id(instance)] = reference, method
        return method

    def _forget(self, key: int, _: Any) -> None:
        self._methods.pop(key, None)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """The function for one kind of arguments; see `ConcreteFunction`.

        Args:
            args: tensors, specs, or Python values; those of the ``input_signature`` by default.
            kwargs: the same, by name.
        """
        return ConcreteFunction(self, (), args, kwargs)

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        """What it was traced for, and what it gives for that, as text."""
        return self._signatures_of((), verbose)

    def _signatures_of(self, bound: tuple[Any, ...], verbose: bool = True) -> str:
        found = [ConcreteFunction(self, bound, *each) for each in self.traced_arguments(bound)]
        shown = (each.pretty_printed_signature(verbose) for each in found)
        return ("\n\n" if verbose else "\n").join(shown)

    def experimental_get_tracing_count(self) -> int:
        """For how many kinds of arguments it was traced."""
        return len(self._traced)


_of_guessed_sizes: ContextVar[bool] = ContextVar("drumline_compat_guessed_sizes", default=False)
"""Whether functions are traced for sizes that stand for unknown ones."""


@contextlib.contextmanager
def _guessing(is_guessed: bool) -> Iterator[None]:
    token = _of_guessed_sizes.set(is_guessed)
    try:
        yield
    finally:
        _of_guessed_sizes.reset(token)


_KNOWN_SPECS = (ArraySpec, *COMPOSITE_SPECS)


class _UnknownResults:
    """Stands for results that are not known before a call."""

    def __init__(self, error: Exception):
        self.error = error

    def __repr__(self) -> str:
        return "<unknown>"


class FunctionType(inspect.Signature):
    """A signature of specs, as ``tf.types.experimental.FunctionType``."""

    def __str__(self) -> str:
        shown = (f"{name}: {_typed(each.annotation)}" for name, each in self.parameters.items())
        return f"({', '.join(shown)}) -> {_typed(self.return_annotation)}"

    def __repr__(self) -> str:
        parameters = (
            f"  {name} ({each.kind.name}): {_typed(each.annotation)}"
            for name, each in self.parameters.items()
        )
        lines = ["Input Parameters:", *parameters]
        return "\n".join([*lines, "Output Type:", f"  {_typed(self.return_annotation)}"])


class ConcreteFunction:
    """A function for one kind of arguments: for tensors of these specs.

    Variables that the function creates are created now.

    Args:
        compiled: the function.
        bound: the object whose method it is, if it is one.
        args: tensors, specs or Python values.
        kwargs: the same, by name.

    Attributes:
        structured_input_signature: the specs of the arguments, by position and by name.

    Raises:
        TypeError: the arguments are not those of the function.
    """

    def __init__(self, compiled: TensorFunction, bound: tuple[Any, ...], args: Any, kwargs: Any):
        self._compiled = compiled
        self._bound = bound
        signature = compiled.input_signature
        if signature is not None and not args and not kwargs:
            args = tuple(signature)
        parameters = list(inspect.signature(compiled.python_function).parameters.values())
        self._signature = inspect.Signature(parameters[len(bound) :])
        call = self._signature.bind(*args, **kwargs)
        call.apply_defaults()
        self._parameters = {
            name: map_structure(functools.partial(_spec, name), value)
            for name, value in call.arguments.items()
        }
        map_structure(self._refuse, list(self._parameters.values()))
        call.arguments.update(self._parameters)
        general = compiled.general_arguments(bound, (call.args, call.kwargs))
        if general is not None:
            call = self._signature.bind(*general[0], **general[1])
            self._parameters = dict(call.arguments)
        self.structured_input_signature: tuple[Any, dict[str, Any]] = (call.args, call.kwargs)
        try:
            self._outputs = self._specs_of_results()
        except CreatedWhileTraced:
            given = map_structure(_zeros, self.structured_input_signature)
            # Variables are created; what is assigned to others is dropped.
            with keras.StatelessScope():
                compiled._plain(*bound, *given[0], **given[1])
            self._outputs = self._specs_of_results()
        args, kwargs = self.structured_input_signature
        compiled.note_trace((*bound, *args), kwargs)

    def _refuse(self, leaf: Any) -> None:
        """Refuse specs of what a concrete function does not take."""
        if isinstance(leaf, TypeSpec) and not isinstance(leaf, _KNOWN_SPECS):
            raise TypeError(
                f"{self.name}: a concrete function takes no {leaf!r}. Call the tf.function "
                "with such values, or have a function of the tensors in them."
            )

    def _specs_of_results(self) -> Any:
        """The specs of the results; dimensions that follow from unknown ones are unknown."""
        fixed = all(spec.shape.is_fully_defined() for spec in self.inputs)
        try:
            first = self._results_for(2)
        except (TypeError, ValueError) as error:
            if fixed or isinstance(error, ValueNeedsPython):
                raise
            # The size may be wrong, and not the function: 1 goes with any other one.
            try:
                found = self._results_for(1)
            except (TypeError, ValueError):
                raise error from None
            return map_structure(_of_any_shape, found)
        if fixed or isinstance(first, _UnknownResults):
            return first
        others: list[Any] = []
        map_structure(others.append, self._results_for(3))
        rest = iter(others)

        def merged(leaf: Any) -> Any:
            other = next(rest)
            same = isinstance(leaf, _KNOWN_SPECS) and isinstance(other, _KNOWN_SPECS)
            return leaf.most_specific_compatible_type(other) if same else leaf

        return map_structure(merged, first)

    def _results_for(self, size: int) -> Any:
        """The specs of the results, found by tracing with a size for unknown dimensions."""
        found: list[Any] = []

        def traced(*arrays: Any) -> Any:
            rest = iter(arrays)
            args, kwargs = map_structure(
                lambda leaf: filled(leaf, lambda _: Tensor(next(rest)), size),
                self.structured_input_signature,
            )
            with keras.StatelessScope():
                results = self._compiled._plain(*self._bound, *args, **kwargs)
            found.append(map_structure(_result_spec, wrap(results)))

        specs = self.inputs
        try:
            if any(spec.dtype.name == "string" for spec in specs):
                raise ValueNeedsPython("an argument holds strings")
            known = all(spec.shape.is_fully_defined() for spec in specs)
            with jax.enable_x64(True), self._compiled._checks.collecting(), _guessing(not known):
                jax.eval_shape(traced, *(_shaped(spec, size) for spec in specs))
        except CreatedWhileTraced:
            raise
        except ValueNeedsPython:  # strings, for one: with values of any kind, then
            try:
                traced(*(_zeros(spec, size)._value for spec in specs))
            except (OSError, ValueError, OpError) as error:
                if not any(spec.dtype.name == "string" for spec in specs):
                    raise
                return _UnknownResults(error)  # there is no file of that name, for one
        return found[-1]

    @property
    def structured_outputs(self) -> Any:
        """The specs of what it gives, in its structure.

        Raises:
            ValueError: they are not known, since it fails for empty strings.
        """
        if isinstance(self._outputs, _UnknownResults):
            raise ValueError(
                f"What {self._compiled.python_function.__name__} gives is not known before it is "
                f"called, since it fails for empty strings: {self._outputs.error}"
            ) from self._outputs.error
        return self._outputs

    @property
    def inputs(self) -> list[Any]:
        """The specs of the tensors that it takes."""
        return array_specs(self.structured_input_signature)

    @property
    def outputs(self) -> list[Any]:
        """The specs of the tensors that it gives."""
        return array_specs(self.structured_outputs)

    @property
    def output_shapes(self) -> Any:
        """The shapes of what it gives, in its structure."""
        return map_structure(lambda leaf: getattr(leaf, "shape", None), self.structured_outputs)

    @property
    def output_dtypes(self) -> Any:
        """The types of what it gives, in its structure."""
        return map_structure(lambda leaf: getattr(leaf, "dtype", None), self.structured_outputs)

    @property
    def name(self) -> str:
        """That of the Python function."""
        return str(getattr(self._compiled, "__name__", "function"))

    @property
    def graph(self) -> Any:
        """There is none."""
        raise AttributeError(
            f"{self.name} has no graph of TensorFlow's operations; its program is that of "
            "jax.jit: look at it with jax.make_jaxpr, or print the function's signature."
        )

    @property
    def inference_fn(self) -> Any:
        """There is none."""
        raise AttributeError(
            f"{self.name} has no graph, and so no inference_fn of one: call {self.name} itself."
        )

    @property
    def function_type(self) -> FunctionType:
        """Its signature, whose annotations are the specs of what it takes and gives."""
        parameters = [
            each.replace(annotation=self._parameters[name], default=inspect.Parameter.empty)
            for name, each in self._signature.parameters.items()
            if name in self._parameters
        ]
        return FunctionType(parameters, return_annotation=self._outputs)

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """What it takes and gives, as text."""
        return repr(self.function_type) if verbose else str(self.function_type)

    def __str__(self) -> str:
        return f"ConcreteFunction {self.pretty_printed_signature()}"

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.name}{self.pretty_printed_signature(verbose=False)}>"

    def call_plain(self, args: Any, kwargs: Any) -> Any:
        """Run it as part of whoever traces it, with arguments that fit."""
        return self._compiled.call_plain(self._bound, args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute it; Python values that it was traced for need not be passed again.

        Raises:
            TypeError: an argument is missing, or one too many, or not of its spec.
        """
        try:
            given = self._structured(args, kwargs)
        except TypeError as error:
            given = self._flat(args, kwargs, error)
        return self._compiled._call(self._bound, *given.args, **given.kwargs)

    def _structured(self, args: Any, kwargs: Any) -> inspect.BoundArguments:
        """The arguments as those of the Python function."""
        call = self._signature.bind_partial(*args, **kwargs)
        for name, expected in self._parameters.items():
            if name in call.arguments:
                call.arguments[name] = self._checked(name, expected, call.arguments[name])
            elif _has_tensors(expected):
                raise TypeError(f"{self.name} missing required argument: {name}")
            else:
                call.arguments[name] = expected
        # Those that bind left out are at the end now.
        call.arguments = {name: call.arguments[name] for name in self._parameters}
        return call

    def _flat(self, args: Any, kwargs: Any, error: TypeError) -> inspect.BoundArguments:
        """The arguments where tensors alone are passed, in their order or by their names."""
        inputs = self.inputs
        rest = inputs[len(args) :]
        leaves: list[Any] = []
        map_structure(leaves.append, self._parameters)
        if any(isinstance(leaf, COMPOSITE_SPECS) for leaf in leaves):
            raise error
        if len(args) > len(inputs) or {str(spec.name) for spec in rest} != kwargs.keys():
            raise TypeError(
                f"Binding inputs to tf.function failed due to `{error}`: {self.name} takes "
                f"{self.pretty_printed_signature(verbose=False)}"
            ) from None
        given = [
            self._checked(str(spec.name), spec, value)
            for spec, value in zip(
                inputs, [*args, *(kwargs[str(spec.name)] for spec in rest)], strict=True
            )
        ]
        values = iter(given)
        call = self._signature.bind_partial()
        call.arguments = map_structure(
            lambda leaf: filled(leaf, lambda _: next(values)), self._parameters
        )
        return call

    def _checked(self, name: str, expected: Any, value: Any) -> Any:
        """An argument, a tensor if one is expected; refused unless it was traced for such."""
        if isinstance(expected, ArraySpec):
            if isinstance(value, (list, tuple, dict)):
                raise TypeError(f"{self.name} takes {expected}, not a {type(value).__name__}")
            given = Tensor(convert(value, None if hasattr(value, "dtype") else expected.dtype))
            if given.dtype != expected.dtype:
                raise InvalidArgumentError(
                    None,
                    None,
                    f"cannot compute {self.name} as {name} was expected to be a "
                    f"{expected.dtype.name} tensor but is a {given.dtype.name} tensor: cast it, or "
                    "call the tf.function, which is compiled for other arguments.",
                )
            if not expected.is_compatible_with(given):
                raise TypeError(
                    "Binding inputs to tf.function failed due to `Can not cast TensorSpec(shape="
                    f"{tuple(given.shape)}, dtype={given.dtype!r}) to {expected}`: {self.name} was "
                    "traced for the latter; get another concrete function, or call the tf.function."
                )
            return given
        if isinstance(expected, COMPOSITE_SPECS):
            if not expected.is_compatible_with(value):
                raise TypeError(
                    f"Binding inputs to tf.function failed due to `Can not cast {value!r:.200} to "
                    f"{expected}`: {self.name} was traced for the latter, as {name}."
                )
        elif not _has_tensors(expected) and expected is not value:
            if type(expected) is not type(value) or expected != value:
                raise TypeError(f"{self.name} was traced for {name}={expected!r}, not {value!r}")
        return value


def _core_checks(signature: Sequence[Any]) -> bool:
    """Whether drumline's own functions check such arguments: arrays of so many dimensions."""
    leaves: list[Any] = []
    map_structure(leaves.append, list(signature))
    return not any(
        isinstance(leaf, TypeSpec) and (not isinstance(leaf, ArraySpec) or leaf.shape.rank is None)
        for leaf in leaves
    )


def _same(one: Any, other: Any) -> bool:
    """Whether two structures of specs and other values are the same kind of arguments."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (tuple, list)):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, (TypeSpec, bool, int, float, str, bytes)):
        return bool(one == other)
    return one is other


def covers(general: Any, given: Any) -> bool:
    """Whether what is traced for some arguments takes others: specs may be more general.

    Args:
        general: specs and Python values, nested.
        given: the same, of the arguments.

    Returns:
        True if all tensors that `given` describes are what `general` says, and the rest is equal.
    """
    if isinstance(general, ArraySpec) and type(general) is type(given):
        if general.dtype != given.dtype or given.shape.rank is None:
            return general.dtype == given.dtype and general.shape.rank is None
        if general.shape.rank is None:
            return True
        pairs = zip(general.shape, given.shape, strict=False)
        same_rank = general.shape.rank == given.shape.rank
        return same_rank and all(size is None or size == other for size, other in pairs)
    if type(general) is not type(given):
        return False
    if isinstance(general, ExtensionTypeSpec):
        parts = zip(tensors_within(general), tensors_within(given), strict=False)
        return general.is_compatible_with(given) and all(covers(*pair) for pair in parts)
    if isinstance(general, (RaggedSpec, SparseSpec)):
        shapes = (ArraySpec(each.shape) for each in (general, given))
        return general.is_compatible_with(given) and covers(*shapes)
    if isinstance(general, (tuple, list)):
        return len(general) == len(given) and all(map(covers, general, given))
    if isinstance(general, dict):
        same_keys = general.keys() == given.keys()
        return same_keys and all(covers(general[key], given[key]) for key in general)
    return _same(general, given)


def _has_specs_alone(value: Any) -> bool:
    leaves: list[Any] = []
    map_structure(leaves.append, value)
    return all(isinstance(leaf, ArraySpec) for leaf in leaves)


def _has_tensors(value: Any) -> bool:
    return bool(array_specs(value))


def _typed(value: Any) -> str:
    """A structure of specs and Python values, as TensorFlow shows it."""
    if isinstance(value, dict):
        return f"Dict[{', '.join(f'[{key!r}, {_typed(each)}]' for key, each in value.items())}]"
    if isinstance(value, (list, tuple)):
        kind = "List" if isinstance(value, list) else "Tuple"
        return f"{kind}[{', '.join(map(_typed, value))}]"
    if isinstance(value, ArraySpec):
        return f"TensorSpec(shape={value.shape}, dtype={value.dtype!r}, name=None)"
    if isinstance(value, (_UnknownResults, TypeSpec)):
        return repr(value)
    return "None" if value is None else f"Literal[{value!r}]"


def _spec(name: str | None, leaf: Any) -> Any:
    """The spec of an argument that is a tensor; other values as they are."""
    if isinstance(leaf, ArraySpec):
        return ArraySpec(leaf.shape, leaf.dtype, leaf.name or name)
    if isinstance(leaf, Tensor):
        return ArraySpec(leaf.shape, leaf.dtype, name)
    if isinstance(leaf, (np.ndarray, np.generic)):
        return ArraySpec(leaf.shape, convert(leaf).dtype, name)
    return spec_of_argument(leaf)


def _result_spec(leaf: Any) -> Any:
    if isinstance(leaf, CompositeTensor):
        return spec_of_argument(leaf)
    return ArraySpec(leaf.shape, leaf.dtype) if isinstance(leaf, Tensor) else leaf


def _of_any_shape(leaf: Any) -> Any:
    return ArraySpec(None, leaf.dtype, leaf.name) if isinstance(leaf, ArraySpec) else leaf


def _known(spec: ArraySpec, size: int) -> list[int]:
    """The dimensions, `size` for unknown ones, and one less of them where the rank is unknown."""
    if spec.shape.rank is None:
        return [size] * (size - 1)
    return [size if each is None else each for each in spec.shape]


def _shaped(spec: ArraySpec, size: int) -> Any:
    return jax.ShapeDtypeStruct(_known(spec, size), spec.dtype.dtype)


def _zeros(leaf: Any, size: int = 2) -> Any:
    if isinstance(leaf, COMPOSITE_SPECS):
        return filled(leaf, lambda part: _zeros(part, size), size)
    if not isinstance(leaf, ArraySpec):
        return leaf
    if leaf.dtype.name == "string":
        return Tensor(convert(np.full(_known(leaf, size), b"", object)))
    return Tensor(np.zeros(_known(leaf, size), leaf.dtype.dtype))


TensorFunction.__name__ = TensorFunction.__qualname__ = "Function"


def _argument(leaf: Any) -> Any:
    """numpy's arrays become tensors, as in TensorFlow; Python's numbers stay."""
    return Tensor(convert(leaf)) if isinstance(leaf, (np.ndarray, np.generic)) else leaf


def _of_tensors(
    function: weakref.ref[TensorFunction], traced: Callable[..., Any], loops: Any
) -> Callable[..., Any]:
    target = with_control_flow(traced, loops)

    @functools.wraps(traced)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = [wrap(value) for value in args]
        named = {name: wrap(value) for name, value in kwargs.items()}
        if loops is not None and (noted := function()) is not None:
            noted.note_trace(tuple(given), named)
        result = target(*given, **named)
        if loops is not None and is_staging():
            map_structure(_computable, result)
        return result

    with contextlib.suppress(TypeError, ValueError):
        call.__signature__ = inspect.signature(traced)  # type: ignore[attr-defined]
    return call


def _computable(leaf: Any) -> None:
    """Refuse a string among the results of a compiled function."""
    value = leaf._value if type(leaf) is Tensor else leaf
    if isinstance(value, np.ndarray) and value.dtype == object:
        raise ValueNeedsPython("it returns a string, which no device holds")


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Sequence[Any] | None = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    **others: Any,
) -> Any:
    """Compile a function, as ``tf.function``; a decorator.

    Args:
        func: a Python function; None gives the decorator.
        input_signature: specs of the arguments, which every call is checked against.
        autograph: accepted; control flow over tensors is prepared in any case.
        jit_compile: accepted; XLA compiles always.
        reduce_retracing: accepted; each shape is compiled once.
        others: TensorFlow's experimental options, accepted if their names are TensorFlow's.

    Raises:
        TypeError: for an option that ``tf.function`` does not have.
    """
    unknown = [name for name in others if not name.startswith("experimental_")]
    if unknown:
        raise TypeError(f"tf.function takes no {', '.join(unknown)}")
    if func is None:
        return lambda made: function(made, input_signature, autograph, jit_compile)
    return func if isinstance(func, TensorFunction) else TensorFunction(func, input_signature)


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Have all compiled functions run as plain Python, or not."""
    config.run_functions_eagerly(run_eagerly)


def functions_run_eagerly() -> bool:
    """Whether they do."""
    return bool(config.functions_run_eagerly())
