"""``function``: a Python function as compiled programs."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from drumline import config
from drumline.distribute.arguments import take_apart
from drumline.distribute.functions.batches import is_batches
from drumline.distribute.functions.input_signature import InputSignature
from drumline.distribute.functions.loops import with_loops
from drumline.distribute.functions.program import FunctionProgram
from drumline.distribute.functions.staged_loop import LoopOverData, Loops
from drumline.distribute.made_anew import in_function
from drumline.distribute.one_device import default_strategy
from drumline.distribute.replica_context import running_replica
from drumline.training.keras_internals import get_stateless_scope
from drumline.training.state_scope import StateScope

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

    With `drumline.config.run_functions_eagerly` everything runs as plain Python.

    Args:
        func: a Python function; None gives the decorator.
        input_signature: a specification of the arguments, an entry for each: a pytree of
            `TensorSpec` and of what a distributed dataset's `element_spec` holds. Every call is
            checked against it, compiled or not. Python numbers become arrays of the given dtype,
            so that another number does not compile anew. A dimension of None accepts any size;
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

    Attributes:
        python_function: the function.
    """

    def __init__(
        self,
        python_function: Callable[..., Any],
        input_signature: Sequence[Any] | None = None,
        *,
        keep_64_bits: bool = False,
    ) -> None:
        self._keep_64_bits = keep_64_bits
        self.python_function = python_function
        self._specs = input_signature
        self._signatures: dict[int, InputSignature] = {}
        name = getattr(python_function, "__qualname__", repr(python_function))
        self._with_loops = with_loops(python_function, Loops(name, keep_64_bits=keep_64_bits))
        self._over_data = False
        self._programs: OrderedDict[Hashable, FunctionProgram] = OrderedDict()
        functools.update_wrapper(self, python_function)

    @property
    def input_signature(self) -> Sequence[Any] | None:
        """The specification of the arguments, if one was given."""
        return self._specs

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self._call, (instance,))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call((), *args, **kwargs)

    def _call(self, bound: tuple[Any, ...], /, *args: Any, **kwargs: Any) -> Any:
        if self._specs is not None:
            args, kwargs = tuple(self._signature(len(bound)).arguments(args, kwargs)), {}
        args = (*bound, *args)
        if config.functions_run_eagerly() or isinstance(get_stateless_scope(), StateScope):
            return self.python_function(*args, **kwargs)
        if running_replica() is not None:
            return self.python_function(*args, **kwargs)
        if self._over_data or any(map(is_batches, (*args, *kwargs.values()))):
            return self._uncompiled(args, kwargs)
        try:
            return self._compiled(args, kwargs)
        except LoopOverData:
            self._over_data = True
            return self._uncompiled(args, kwargs)

    def _uncompiled(self, args: Any, kwargs: Any) -> Any:
        with in_function():
            return self._with_loops(*args, **kwargs)

    def _compiled(self, args: Any, kwargs: Any) -> Any:
        form, arrays = take_apart(args, kwargs)
        program = self._programs.get(form)
        if program is None:
            program = FunctionProgram(
                default_strategy(), self._with_loops, form, keep_64_bits=self._keep_64_bits
            )
            self._programs[form] = program
            if len(self._programs) > MOST_PROGRAMS:
                self._programs.popitem(last=False)
        self._programs.move_to_end(form)
        return program(arrays)

    def _signature(self, bound: int) -> InputSignature:
        """What is checked when so many of the parameters are bound, as a method's instance is."""
        if bound not in self._signatures:
            self._signatures[bound] = InputSignature(self.python_function, self._specs, bound)
        return self._signatures[bound]
