"""`function`: a Python function as compiled programs, and its input signature."""

from __future__ import annotations

import functools
import inspect
import types
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from drumline import config
from drumline._function_identity import python_runs_once
from drumline.autograph.datasets import with_loops
from drumline.data import TensorSpec
from drumline.distribute.functions.batches import is_batches
from drumline.distribute.functions.called import note_call
from drumline.distribute.functions.program import FunctionProgram
from drumline.distribute.functions.staged_loop import LoopOverData, Loops
from drumline.distribute.replica import default_strategy, running_replica
from drumline.distribute.step.arguments import flatten_arguments
from drumline.distribute.step.central_programs import StepsApart
from drumline.distribute.values import PerReplica, PerReplicaSpec
from drumline.training.keras_internals import get_stateless_scope
from drumline.training.state_scope import StateScope

_ARRAYS = (jax.Array, np.ndarray, np.generic)


class InputSignature:
    """The specification of a function's arguments, which every call is checked against.

    Args:
        function: the function; messages name it and its parameters.
        specs: for each parameter a pytree of `TensorSpec` and `PerReplicaSpec`.
        skip: how many parameters come before those that the specification describes.

    Raises:
        TypeError: if `specs` is no sequence of such trees.
    """

    def __init__(self, function: Callable[..., Any], specs: Any, skip: int = 0) -> None:
        self._name = getattr(function, "__qualname__", repr(function))
        if not isinstance(specs, (tuple, list)):
            raise TypeError(
                f"input_signature of {self._name} is a {type(specs).__name__}; it takes a list "
                "with an entry for each argument: `input_signature=[dl.TensorSpec([None])]`."
            )
        for leaf in jax.tree.leaves(specs):
            if not isinstance(leaf, (TensorSpec, PerReplicaSpec)):
                raise TypeError(
                    f"input_signature of {self._name} holds {leaf!r:.60}; it takes dl.TensorSpec "
                    "and what the element_spec of a distributed dataset holds."
                )
        self._specs = tuple(specs)
        parameters = list(inspect.signature(function).parameters.values())[skip:]
        self._parameters = inspect.Signature(parameters)
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        named = [parameter for parameter in parameters if parameter.kind in positional]
        self._names = [parameter.name for parameter in named]
        variadic = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
        if len(specs) > len(named) and not variadic:
            raise TypeError(
                f"input_signature of {self._name} has {len(specs)} entries, but the function has "
                f"{len(named)} arguments ({', '.join(self._names)})."
            )
        bare = [p.name for p in named[len(specs) :] if p.default is inspect.Parameter.empty]
        if bare:
            raise TypeError(
                f"input_signature of {self._name} has no entry for {', '.join(bare)}, which has no "
                "default."
            )

    @property
    def specs(self) -> tuple[Any, ...]:
        """The specifications, an entry for each argument."""
        return self._specs

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The positional arguments of a call, arrays where the specification has them.

        Raises:
            TypeError: if they do not fit; the message names the argument, and where in it.
        """
        given = self._in_order(args, kwargs)
        return [
            self._checked(name, spec, value)
            for (name, value), spec in zip(given, self._specs, strict=True)
        ]

    def _in_order(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
        try:
            bound = self._parameters.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from None
        names = [self._names[i] if i < len(self._names) else f"*[{i}]" for i in range(len(args))]
        covered = [*self._names[: len(self._specs)], *names[len(self._names) : len(self._specs)]]
        extra = [name for name in [*names, *kwargs] if name not in covered]
        if extra:
            raise TypeError(
                f"{self._name} got {', '.join(extra)}, which its input_signature does not "
                "describe. Pass only what it describes, or add an entry."
            )
        bound.apply_defaults()
        values = [*bound.args][: len(self._specs)]
        if len(values) < len(self._specs):
            raise TypeError(
                f"{self._name} got {len(values)} arguments, its input_signature describes "
                f"{len(self._specs)}."
            )
        return list(zip(covered, values, strict=True))

    def _checked(self, name: str, spec: Any, value: Any) -> Any:
        paths, treedef = jax.tree_util.tree_flatten_with_path(spec)
        try:
            values = treedef.flatten_up_to(value)  # type: ignore[attr-defined]
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"{self._name}: {name} has another structure than its input_signature: {error}"
            ) from None
        leaves = [
            self._leaf(name + jax.tree_util.keystr(path), leaf, given)
            for (path, leaf), given in zip(paths, values, strict=True)
        ]
        return jax.tree.unflatten(treedef, leaves)

    def _leaf(self, name: str, spec: Any, value: Any) -> Any:
        if isinstance(spec, TensorSpec):
            return self._array(name, spec, value)
        if not isinstance(value, PerReplica) or len(value.values) != len(spec.value_specs):
            raise TypeError(
                f"{self._name}: {name} is to be {spec}, got {_described(value)}. Pass what "
                "iterating over the distributed dataset gives."
            )
        if value.is_stacked:
            first, *others = spec.value_specs
            if all(other == first for other in others):
                self._fits(name, first, value.stacked.shape[1:], value.stacked.dtype)
                return value
        for index, (each, replica) in enumerate(zip(value.values, spec.value_specs, strict=True)):
            self._array(f"{name}, replica {index}", replica, each)
        return value

    def _array(self, name: str, spec: TensorSpec, value: Any) -> Any:
        if not isinstance(value, _ARRAYS):
            value = self._converted(name, spec, value)
        self._fits(name, spec, np.shape(value), value.dtype)
        return value

    def _fits(self, name: str, spec: TensorSpec, shape: Any, dtype: Any) -> None:
        wanted = TensorSpec(spec.shape, _on_device(spec.dtype))
        if not wanted.accepts(shape, _on_device(dtype)):
            raise TypeError(
                f"{self._name}: {name} is to be {spec}, got an array of shape {tuple(shape)} and "
                f"dtype {dtype}. Convert it, or widen the input_signature."
            )

    def _converted(self, name: str, spec: TensorSpec, value: Any) -> np.ndarray:
        """A Python number, or a list of numbers, as an array of the dtype that is asked for."""
        kind = None if isinstance(value, PerReplica) else np.asarray(value).dtype
        if (
            kind is None
            or kind.kind not in "biufc"
            or not np.can_cast(_smallest(kind), spec.dtype, casting="same_kind")
        ):
            raise TypeError(f"{self._name}: {name} is to be {spec}, got {_described(value)}.")
        return np.asarray(value, spec.dtype)


def _smallest(dtype: np.dtype) -> np.dtype:
    """The smallest type of its kind: a Python number has a kind and no size."""
    return np.dtype({"b": "?", "i": "i1", "u": "u1", "f": "f2", "c": "c8"}[dtype.kind])


def _on_device(dtype: Any) -> np.dtype:
    kept = np.dtype(dtype)
    return kept if kept.kind in "OSU" else np.dtype(jax.dtypes.canonicalize_dtype(kept))


def _described(value: Any) -> str:
    if isinstance(value, PerReplica):
        return f"a PerReplica of {len(value.values)} values"
    return f"{value!r:.60} ({type(value).__name__})"


MOST_PROGRAMS = 64
"""How many compiled programs a function keeps."""


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Sequence[Any] | None = None,
    *,
    keep_64_bits: bool = False,
) -> Any:
    """Compile `func`, as ``tf.function``; a decorator.

    The function is traced when it is first called, and again for arguments of another structure,
    shape or Python value. What it prints and what it does to Python objects happens then. Variables
    are found while tracing. Inside, `Strategy.run` becomes part of the program.

    A function that loops over a dataset or a distributed dataset (``for batch in dataset:``), its
    own argument or not, runs as Python, but for those loops: the body of each is compiled, and runs
    on several batches at a time where they are small. Names that the body
    assigns are carried from step to step; they keep structure, shape and dtype after the first.
    Loops with ``break``, ``continue``, ``return``, ``yield`` or ``else``, and bodies that need
    concrete values, run step by step, with a warning that gives the reason.

    A function that runs steps of a strategy whose variables live on another device, as
    `CentralStorageStrategy`'s, runs as Python: each step is a program of its own, which updates the
    variables where they live. That is found by tracing it once, up to the first step.

    With `drumline.config.run_functions_eagerly` everything runs as plain Python.

    Args:
        func: a Python function; None gives the decorator.
        input_signature: a specification of the arguments, an entry for each: a pytree of
            `TensorSpec` and of what a distributed dataset's `element_spec` holds. Every call is
            checked against it, compiled or not. Python numbers become arrays of the given dtype,
            so that another number is not compiled again. A dimension of None accepts any size;
            each size that occurs is compiled once, since a compiled program has fixed shapes.
        keep_64_bits: whether 64-bit numbers in numpy's arrays among the arguments, and in the
            batches that it loops over, keep their bits. By default they become 32-bit ones, as
            everywhere in JAX, and integers that do not fit are refused.

    Returns:
        A `Function`.

    Raises:
        TypeError: if `input_signature` does not suit the function; and from a call that does not
            fit it.
        OverflowError: from a call with integers that do not fit.
    """
    if func is None:
        return functools.partial(
            function, input_signature=input_signature, keep_64_bits=keep_64_bits
        )
    return Function(func, input_signature, keep_64_bits=keep_64_bits)


class Function:
    """A function that `function` compiles; called like the function itself.

    Args:
        python_function: the function.
        input_signature: what it is called with; see `function`.
        keep_64_bits: see `function`.
        adapt: makes what is traced of the function, given what stages its loops over datasets (None
            where they are not staged): the hook for interfaces whose functions see other classes
            than arrays. By default `with_loops`.

    Attributes:
        python_function: the function.
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        input_signature: Sequence[Any] | None = None,
        *,
        keep_64_bits: bool = False,
        adapt: Callable[[Callable[..., Any], Loops | None], Callable[..., Any]] | None = None,
    ) -> None:
        self._keep_64_bits = keep_64_bits
        adapt = adapt or _with_staged_loops
        self.python_function = python_function
        self._specs = input_signature
        self._signatures: dict[int, InputSignature] = {}
        name = getattr(python_function, "__qualname__", repr(python_function))
        self._loops = Loops(name, keep_64_bits=keep_64_bits)
        self._with_loops = adapt(python_function, self._loops)
        self._plain = adapt(python_function, None)
        self._runs_as_python = False
        self._programs: OrderedDict[Hashable, FunctionProgram] = OrderedDict()
        functools.update_wrapper(self, python_function)

        def of_instance(instance: Any, *args: Any, **kwargs: Any) -> Any:
            return self._call((instance,), *args, **kwargs)

        self._of_instance = of_instance

    @property
    def input_signature(self) -> Sequence[Any] | None:
        """The specification of the arguments, if one was given."""
        return self._specs

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        # A method: that of one access is equal to that of the next, so steps are compiled once.
        return self if instance is None else types.MethodType(self._of_instance, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call((), *args, **kwargs)

    def _call(self, bound: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
        if self._specs is not None:
            args, kwargs = tuple(self._signature(len(bound)).arguments(args, kwargs)), {}
        args = (*bound, *args)
        if config.functions_run_eagerly() or isinstance(get_stateless_scope(), StateScope):
            return self._plain(*args, **kwargs)
        if running_replica() is not None:
            return self._plain(*args, **kwargs)
        if self._runs_as_python or any(map(is_batches, (*args, *kwargs.values()))):
            return self._uncompiled(args, kwargs)
        try:
            return self._compiled(args, kwargs)
        except LoopOverData:
            self._runs_as_python = True
        except StepsApart:
            self._runs_as_python = self._loops.steps_apart = True
        return self._uncompiled(args, kwargs)

    def _uncompiled(self, args: Any, kwargs: Any) -> Any:
        with python_runs_once():
            return self._with_loops(*args, **kwargs)

    def _compiled(self, args: Any, kwargs: Any) -> Any:
        form, arrays = flatten_arguments(args, kwargs)
        program = self._programs.get(form)
        if program is None:
            program = FunctionProgram(
                default_strategy(), self._with_loops, form, keep_64_bits=self._keep_64_bits
            )
            # By itself a step would not keep the bits that this program does.
            program.may_be_left = not self._keep_64_bits
            self._programs[form] = program
            if len(self._programs) > MOST_PROGRAMS:
                self._programs.popitem(last=False)
        self._programs.move_to_end(form)
        outputs = program(arrays)
        note_call(self.python_function, program, arrays)
        return outputs

    def _signature(self, bound: int) -> InputSignature:
        """What is checked when so many of the parameters are bound, as a method's instance is."""
        if bound not in self._signatures:
            self._signatures[bound] = InputSignature(self.python_function, self._specs, bound)
        return self._signatures[bound]


def _with_staged_loops(function: Callable[..., Any], loops: Loops | None) -> Callable[..., Any]:
    return function if loops is None else with_loops(function, loops)
