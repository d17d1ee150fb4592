"""What stands for the graph of an Estimator's model_fn: its variables, its tape, its mode.

In TensorFlow a model_fn is called once, to make a graph. Here it is called when a step is traced,
and once before that, so that its variables are made: the first call makes them, the later ones get
the same again, by their names. Names are those of a fresh graph in each call.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras

from drumline._changes import full_name, note
from drumline.distribute import Variable, get_strategy
from drumline.estimator.values import ModelValues
from drumline.keras import internals
from drumline.training.keras_internals import get_stateless_scope
from drumline.training.state_scope import StateScope

_WHY = "a model_fn is called again for each trace, and gets the variables of its first call"
_OFF = "do not use dl.estimator or tf.estimator"


class GraphOp:
    """What ``minimize`` returns in a model_fn: it has run with the step. A ``tf.Operation``."""

    is_graph_op = True

    def __init__(self, name: str):
        self.name = name

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}'>"


class _GraphOfThread(threading.local):
    """What a thread is in: a call of a model_fn, and an Estimator's loop."""

    def __init__(self) -> None:
        self.call: ModelCall | None = None
        self.graph: ModelGraph | None = None


_running = _GraphOfThread()


def running() -> ModelCall | None:
    """The call of a model_fn that this code is in."""
    return _running.call


def default_graph() -> ModelGraph | None:
    """The graph of the model_fn, or of the loop of an Estimator, that this code is in."""
    return _running.graph if _running.call is None else _running.call.graph


def get_global_step() -> Any:
    """The variable that counts the steps of the Estimator that this code is in: int32, scalar.

    In a model_fn, and in hooks. The step adds 1 to it.

    Raises:
        RuntimeError: no Estimator runs here.
    """
    graph = default_graph()
    if graph is None:
        raise RuntimeError(
            "get_global_step: no Estimator runs here; call it in a model_fn, or in a hook."
        )
    return graph.global_step


class ModelGraph:
    """The variables of a model_fn, by name.

    Attributes:
        mode: for what it is called: one of `ModeKeys`.
        values: what model_fn computes with.
        variables: in the order in which they were made, `global_step` among them.
        global_step: counts steps, int64.
        checkpoint: of what `saved` gives; None until model_fn was called.
        keep_checkpoints: how many; None for all.
        spans_processes: whether several processes make its steps.
        on_servers: whether its variables are on parameter servers, which apply its gradients.
        is_traced: whether its first call is traced, so that there is nothing to undo.
        rates: optimizers with a function that gives the learning rate, where `on_servers`.
        local: those of metrics, which no checkpoint holds, by their ids.
        summaries: what writes a value that model_fn has a summary of, by its tag.
    """

    def __init__(self, mode: str, values: ModelValues):
        _install()
        self.local: set[int] = set()
        self.summaries: dict[str, Callable[..., Any]] = {}
        self.mode = mode
        self.values = values
        self.checkpoint: Any = None
        self.keep_checkpoints: int | None = None
        self.spans_processes = False
        self.on_servers = self.is_traced = False
        self.rates: list[tuple[Any, Callable[[], Any]]] = []
        self._optimizers: dict[int, Any] = {}
        self.global_step = values.global_step()
        self.variables: dict[str, Any] = {"global_step": self.global_step}
        self._initial: list[tuple[Any, Any]] = []
        self._built = False

    @contextlib.contextmanager
    def as_default(self) -> Iterator[None]:
        """A block in which `default_graph` gives it."""
        before, _running.graph = _running.graph, self
        try:
            yield
        finally:
            _running.graph = before

    @contextlib.contextmanager
    def build(self) -> Iterator[ModelCall]:
        """A block in which model_fn is called for the first time.

        What it assigns to variables is undone at its end: no step was made.
        """
        self.note_initial(self.global_step)
        with self.call() as call:
            yield call
        self.built()

    def built(self) -> None:
        """The first call has ended: its assignments are undone."""
        self._built = True
        for variable, value in self._initial:
            if variable.value is not value:
                variable.assign(value)
        self._initial.clear()

    @contextlib.contextmanager
    def call(self) -> Iterator[ModelCall]:
        """A block in which model_fn is called, and gets variables by their names."""
        call, before = ModelCall(self), _running.call
        _running.call = call
        try:
            with internals.fresh_object_names(), self.values.called(call):
                yield call
        finally:
            _running.call = before

    @property
    def is_building(self) -> bool:
        """Whether the first call has not ended."""
        return not self._built

    def settle(self) -> None:
        """Wait for the steps that have begun; where there are servers, several run at a time."""

    def look_at_losses(self) -> None:
        """Look for NaN in the losses of all steps that have begun, in an Estimator's training.

        Raises:
            NanLossDuringTrainingError: one is NaN.
        """

    def optimizer_of(self, optimizer: Any) -> Any:
        """The optimizer that the servers know: of all with the same counter, the first.

        Each trace of model_fn makes other optimizers, of the same variables.
        """
        counter = optimizer.variables[0]
        return self._optimizers.setdefault(id(counter), optimizer)

    def known(self, name: str) -> Any:
        """The variable that has a name; None if it is to be made now.

        Raises:
            ValueError: the first call has not made it.
        """
        found = self.variables.get(name)
        if found is None and self._built:
            raise ValueError(
                f"model_fn makes the variable {name!r}, which its first call has not made: it must "
                "make the same variables at each call, whatever its batch. It is called for each "
                "form of the batches: let no condition on features, time or a counter of its own "
                "choose its layers, and drop a smaller last batch (batch(..., "
                "drop_remainder=True)) if it is another model for it."
            )
        return found

    def note_initial(self, variable: Any) -> None:
        """Note with which value a variable is made."""
        if not self._built and not self.is_traced:
            self._initial.append((variable, variable.value))


class ModelCall:
    """One call of a model_fn.

    Attributes:
        graph: what it is a call of.
        tape: records what it computes, for ``minimize``, where `ModelValues` sets one.
        sums_loss: whether the replicas' losses are parts of a sum, and not of a mean.
        summaries: what there is a summary of, by its tag.
    """

    def __init__(self, graph: ModelGraph):
        self.graph = graph
        self.tape: Any = None
        self.sums_loss = False
        self.summaries: dict[str, Any] = {}
        self._counts: Counter[str] = Counter()
        self._tags: Counter[str] = Counter()
        self._given: set[int] = set()

    @property
    def training(self) -> bool:
        """Whether ``minimize`` updates variables."""
        return self.graph.mode == "train"

    @property
    def building(self) -> bool:
        """Whether it is the first call, which makes the variables."""
        return self.graph.is_building

    @property
    def replicas(self) -> int:
        """How many replicas make a step together."""
        return int(get_strategy().num_replicas_in_sync)

    def summarize(self, tag: str, value: Any, write: Callable[..., Any]) -> None:
        """Have a value of the step written now and then; only training writes summaries.

        Args:
            tag: its name; a number is appended if there is one of it.
            value: an array of JAX's, or what stands for it.
            write: takes the tag, the value as an array of numpy's, and ``step=``.
        """
        if not self.training:
            return
        count = self._tags[tag]
        self._tags[tag] += 1
        tag = f"{tag}_{count}" if count else tag
        self.summaries[tag] = value
        self.graph.summaries[tag] = write

    def create(self, name: str, make: Callable[[], Any]) -> Any:
        """Make a variable of a class that is not Keras's, or give that of the first call."""
        name = self._unique(name)
        known = self.graph.known(name)
        if known is None:
            known = self.graph.variables[name] = make()
        return known

    def take(self, name: str) -> tuple[str, Any]:
        """The full name of one of Keras's variables, and the one that has it, or None."""
        parent = internals.current_path()
        full = self._unique(f"{parent}/{name}" if parent else name)
        known = self.graph.known(full)
        if known is not None:
            self._given.add(id(known))
        return full, known

    def was_given(self, variable: Any) -> bool:
        """Whether `take` gave it in this call."""
        return id(variable) in self._given

    def _unique(self, name: str) -> str:
        count = self._counts[name]
        self._counts[name] += 1
        return f"{name}_{count}" if count else name


@contextlib.contextmanager
def _created_at_once(call: ModelCall | None) -> Iterator[None]:
    """A block in which a traced first call makes variables that have values already."""
    scope = get_stateless_scope()
    if call is None or not call.building or not isinstance(scope, StateScope):
        yield
        return
    before, scope.creates = scope.creates, True
    try:
        with jax.ensure_compile_time_eval():
            yield
    finally:
        scope.creates = before


@functools.cache
def _install() -> None:
    """Have Keras's variables be given again within calls of a model_fn, once."""
    variable = internals.Variable
    make, begin, initialize = variable.__new__, variable.__init__, variable._initialize

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:
        call = _running.call
        # Those of the look-alike's classes are made through its creators.
        if call is None or cls not in (keras.Variable, Variable):
            return make(cls)
        name, known = call.take(kwargs.get("name") or "variable")
        if known is None:
            known = call.graph.variables[name] = make(cls)
        return known

    @functools.wraps(begin)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        call = _running.call
        if call is None or not call.was_given(self):
            with _created_at_once(call):
                begin(self, *args, **kwargs)
            if call is not None and call.graph.on_servers:
                call.graph.note_initial(self)
            return
        shape = kwargs.get("shape", args[1] if len(args) > 1 else None)
        if shape is not None and tuple(shape) != tuple(self.shape):
            raise ValueError(
                f"model_fn makes the variable {self.path!r} with the shape {tuple(shape)}, and has "
                f"made it with {tuple(self.shape)} at first: it must make the same variables at "
                "each call, whatever its batch. Let no shape depend on the batch's size."
            )

    @functools.wraps(initialize)
    def initialized(self: Any, value: Any) -> None:
        initialize(self, value)
        if _running.call is not None:
            _running.call.graph.note_initial(self)

    apply = internals.BaseOptimizer.apply

    @functools.wraps(apply)
    def applied(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        call = _running.call
        if call is None or (call.training and not call.graph.on_servers):
            return apply(self, grads, trainable_variables)
        optimizer = call.graph.optimizer_of(self) if call.graph.on_servers else self
        if not optimizer.built and trainable_variables is not None:
            # Here, and not where the gradients arrive: its variables get their names in model_fn.
            trainable_variables = list(trainable_variables)
            with keras.name_scope(optimizer.name, caller=optimizer):
                optimizer.build(trainable_variables)
        # In a graph nothing runs what trains, unless it is for training.
        return apply(optimizer, grads, trainable_variables) if call.training else None

    add = keras.Metric.add_variable

    @functools.wraps(add)
    def added(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = add(self, *args, **kwargs)
        if _running.call is not None:
            _running.call.graph.local.add(id(made))
        return made

    for owner, name, method in (
        (variable, "__new__", new),
        (variable, "__init__", init),
        (variable, "_initialize", initialized),
        (keras.Metric, "add_variable", added),
        (internals.BaseOptimizer, "apply", applied),
    ):
        setattr(owner, name, method)
        note("Keras", full_name(owner, name), _WHY, _OFF)
