"""``function``: a Python function as compiled programs."""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any

from drumline import config
from drumline.distribute.arguments import take_apart
from drumline.distribute.functions.batches import is_batches
from drumline.distribute.functions.loops import with_loops
from drumline.distribute.functions.program import FunctionProgram
from drumline.distribute.functions.staged_loop import LoopOverData, Loops
from drumline.distribute.one_device import default_strategy
from drumline.distribute.replica_context import running_replica
from drumline.training.keras_internals import get_stateless_scope
from drumline.training.state_scope import StateScope

MOST_PROGRAMS = 64
"""How many compiled programs a function keeps."""


def function(func: Callable[..., Any] | None = None) -> Any:
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

    Returns:
        A `Function`.
    """
    if func is None:
        return function
    return Function(func)


class Function:
    """A function that `function` compiles; called like the function itself.

    Attributes:
        python_function: the function.
    """

    def __init__(self, python_function: Callable[..., Any]) -> None:
        self.python_function = python_function
        name = getattr(python_function, "__qualname__", repr(python_function))
        self._with_loops = with_loops(python_function, Loops(name))
        self._over_data = False
        self._programs: OrderedDict[Hashable, FunctionProgram] = OrderedDict()
        functools.update_wrapper(self, python_function)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if config.functions_run_eagerly() or isinstance(get_stateless_scope(), StateScope):
            return self.python_function(*args, **kwargs)
        if running_replica() is not None:
            return self.python_function(*args, **kwargs)
        if self._over_data or any(map(is_batches, (*args, *kwargs.values()))):
            return self._with_loops(*args, **kwargs)
        try:
            return self._compiled(args, kwargs)
        except LoopOverData:
            self._over_data = True
            return self._with_loops(*args, **kwargs)

    def _compiled(self, args: Any, kwargs: Any) -> Any:
        form, arrays = take_apart(args, kwargs)
        program = self._programs.get(form)
        if program is None:
            program = FunctionProgram(default_strategy(), self._with_loops, form)
            self._programs[form] = program
            if len(self._programs) > MOST_PROGRAMS:
                self._programs.popitem(last=False)
        self._programs.move_to_end(form)
        return program(arrays)
