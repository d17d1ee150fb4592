"""Methods that take a function of an element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from drumline.data.functions.user_function import UserFunction
from drumline.data.methods.arguments import check_deterministic, parallel_calls
from drumline.data.methods.drawing import build_over, without_key
from drumline.data.methods.planned import Planned
from drumline.data.plan import function_nodes
from drumline.data.spec import TensorSpec


class Functions(Planned):
    """What applies users' functions."""

    def map(
        self,
        map_func: Callable[..., Any],
        num_parallel_calls: int | None = None,
        deterministic: bool | None = None,
        synchronous: bool | None = None,
        use_unbounded_threadpool: bool = False,
        name: str | None = None,
    ) -> Self:
        """Applies a function to every element; a tuple is spread over its arguments.

        The function is traced now and compiled for blocks of elements. One that cannot be traced,
        or depends on outside state, runs as Python with numpy leaves; ``explain()`` says why.

        Args:
            map_func: takes an element, returns a nested structure of arrays.
            num_parallel_calls: how many workers call the function, or ``AUTOTUNE``, which finds a
                number while the dataset runs; by default compiled functions are parallelized by
                the optimizer and Python functions run in order, as elements are asked for. With
                several workers the input is read ahead of what was asked, by two tasks for each; a
                task is one element, or as many as take 20 ms.
            deterministic: ``False`` says that no worker should wait for a slow element, for which
                ``tf.data`` lets others overtake it. Here results come in order all the same, and
                the input is read further ahead: by 32 tasks for each worker, as far as memory
                allows. By default as ``options.deterministic`` says.
            synchronous: whether the optimizer must leave it to the thread that asks for elements.
            use_unbounded_threadpool: whether its workers are not among the threads of
                ``options.threading.private_threadpool_size``, which all other maps share: for
                functions that wait.
            name: shown by ``explain()``.

        Raises:
            ValueError: ``synchronous`` and ``num_parallel_calls`` are both given.
            Exception: what the function itself raises for the first element. For a later element
                it is raised when that element's turn comes, with the index in a note.
        """
        check_deterministic(deterministic, "map")
        workers = parallel_calls(num_parallel_calls, "map")
        if synchronous and workers is not None:
            raise ValueError(
                f"map: synchronous=True and num_parallel_calls={num_parallel_calls} exclude each "
                "other"
            )
        plan, built = build_over(self._plan, map_func, "map")
        label = UserFunction(map_func, "map").name
        made = function_nodes.Map(
            (plan,),
            built,
            label,
            1 if synchronous else workers,
            bool(use_unbounded_threadpool),
            deterministic,
        )
        return self._with(made, name)

    def filter(self, predicate: Callable[..., Any], name: str | None = None) -> Self:
        """The elements for which ``predicate`` returns true.

        Raises:
            TypeError: it does not return one bool.
        """
        plan, built = build_over(self._plan, predicate, "filter")
        label = UserFunction(predicate, "filter").name
        if built.spec.leaves != (TensorSpec((), np.bool_),) or built.spec.structure.kind != "leaf":
            raise TypeError(f"filter({label}) must return one bool, it returns {built.spec.tree()}")
        kept = self._with(function_nodes.Filter((plan,), built, label), name)
        return kept if plan is self._plan else kept.map(without_key)
