"""Models with strings among their inputs: what computes with strings runs before the compiled step.

No device holds strings. Of a model made of layers' outputs (`keras.Model(inputs, outputs)`,
`Sequential`), the layers with an ``on_host`` (`HostLayer`), and what they are computed from, run on
the host: in a map of the dataset that `fit` is given, or at once. The rest of the model is
compiled; it is given the host's results as a dict whose names begin with `_PREFIX`. Of layers with
a ``prepare`` (``prepare(features)`` gives a dict of arrays, ``keys`` says of which features) the
host computes this part, and gives it to them in place of features.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax
import keras
import numpy as np

from drumline.data import Dataset
from drumline.data.elements.spec import as_array
from drumline.data.functions.native.symbol import Symbol, ValueNeedsPython
from drumline.keras.layers.host_layer import host_values

_PREFIX = "computed_on_host_"
_PART = "part_"
_PLAN = "_drumline_host_plan"

_to_arrays: list[Callable[[Any], Any]] = []
"""What makes arrays and datasets of another interface's values, where models are given such."""


def convert_inputs_by(to_arrays: Callable[[Any], Any]) -> None:
    """Have inputs of models be converted, where another interface has values of its own.

    Args:
        to_arrays: gives nested values of drumline's for nested values of the interface's.
    """
    _to_arrays.append(to_arrays)


def _converted(value: Any) -> Any:
    for to_arrays in _to_arrays:
        value = to_arrays(value)
    return value


@dataclasses.dataclass(frozen=True)
class _HostPlan:
    """How a model is cut.

    Attributes:
        nodes: the operations of the host, in order.
        inputs: the model's symbolic inputs.
        frontier: the symbolic tensors that the host gives to the rest.
        later: the other operations, in order.
        graph: of the model.
        prepared: those of ``later`` of which the host computes a part: layers of feature columns.
    """

    nodes: tuple[Any, ...]
    inputs: tuple[Any, ...]
    frontier: tuple[Any, ...]
    later: tuple[Any, ...]
    graph: Any
    prepared: tuple[Any, ...] = ()

    def on_host(self, inputs: Any) -> dict[str, Any]:
        """The host's results, of numpy's arrays, or of symbols and tracers in a map."""
        values = dict(zip(map(id, self.inputs), inputs, strict=True))
        for node in self.nodes:
            args, kwargs = node.arguments.fill_in(values)
            layer = node.operation
            own = hasattr(layer, "on_host")
            results = layer.on_host(*args, **kwargs) if own else _converted(layer(*args, **kwargs))
            leaves = [results] if own else jax.tree.leaves(results)
            values.update(zip(map(id, node.outputs), leaves, strict=True))
        names = [f"{_PREFIX}{number:03}" for number in range(len(self.frontier))]
        made = {name: values[id(each)] for name, each in zip(names, self.frontier, strict=True)}
        for number, node in enumerate(self.prepared):
            (features,) = node.arguments.fill_in(values)[0][:1]
            parts = node.operation.prepare(features)
            made.update(
                (f"{_PREFIX}{_PART}{number:03}/{name}", each) for name, each in parts.items()
            )
        return made

    def _parts(self, results: dict[str, Any], node: Any) -> dict[str, Any]:
        """What the host has prepared for a layer."""
        start = f"{_PREFIX}{_PART}{self.prepared.index(node):03}/"
        return {
            name.removeprefix(start): each
            for name, each in results.items()
            if name.startswith(start)
        }

    def rest(self, results: dict[str, Any], training: bool | None) -> Any:
        """The model's outputs, of the host's results."""
        whole = sorted(name for name in results if not name.startswith(_PREFIX + _PART))
        values = {
            id(each): keras.ops.convert_to_tensor(results[name], dtype=each.dtype)
            for name, each in zip(whole, self.frontier, strict=True)
        }
        for node in self.later:
            if node in self.prepared:
                args, kwargs = (self._parts(results, node),), {}
            else:
                args, kwargs = node.arguments.fill_in(values)
            if training is not None and getattr(node.operation, "_call_has_training_arg", False):
                kwargs["training"] = training
            leaves = keras.tree.flatten(node.operation(*args, **kwargs))
            values.update(zip(map(id, node.outputs), leaves, strict=True))
        outputs = [values[id(each)] for each in self.graph.outputs]
        return keras.tree.pack_sequence_as(self.graph._outputs_struct, outputs)


def _graph(model: Any) -> Any:
    """The graph of a model, with its inputs and nodes; None if it has none."""
    graph = getattr(model, "_functional", model)
    return graph if hasattr(graph, "_nodes_by_depth") else None


def _on_host(operation: Any) -> bool:
    if hasattr(operation, "on_host"):
        return True
    return isinstance(operation, keras.Model) and _plan(operation) is not None


def _is_string(tensor: Any) -> bool:
    return keras.backend.standardize_dtype(tensor.dtype) == "string"


def _plan(model: Any) -> _HostPlan | None:
    """How a model is cut; None if nothing of it runs on the host."""
    graph = _graph(model)
    if graph is None or not graph.inputs:
        return None
    known = vars(model).get(_PLAN)
    if known is None or known[0] is not graph:
        known = vars(model)[_PLAN] = (graph, _made(graph))
    plan: _HostPlan | None = known[1]
    return plan


def _made(graph: Any) -> _HostPlan | None:
    depths = sorted(graph._nodes_by_depth, reverse=True)
    nodes = [node for depth in depths for node in graph._nodes_by_depth[depth] if not node.is_input]
    needed: set[int] = set()
    chosen: list[Any] = []
    prepared = [node for node in nodes if hasattr(node.operation, "prepare")]
    for node in reversed(nodes):
        if node in prepared:
            needed.update(map(id, node.input_tensors))
            continue
        strings = any(map(_is_string, node.input_tensors))
        if strings or _on_host(node.operation) or any(id(out) in needed for out in node.outputs):
            chosen.append(node)
            needed.update(map(id, node.input_tensors))
    if not chosen and not prepared:
        return None
    chosen.reverse()
    taken = {id(node) for node in chosen}
    there = {id(each): each for each in graph.inputs}
    there.update((id(out), out) for node in chosen for out in node.outputs)
    later = [node for node in nodes if id(node) not in taken]
    used = [each for node in later if node not in prepared for each in node.input_tensors]
    frontier = {id(each): each for each in (*used, *graph.outputs) if id(each) in there}
    return _HostPlan(
        tuple(chosen),
        tuple(graph.inputs),
        tuple(frontier.values()),
        tuple(later),
        graph,
        tuple(prepared),
    )


def _flat_inputs(model: Any, given: Any) -> list[Any]:
    """A model's inputs in the order of its symbolic ones, of their ranks."""
    graph = _graph(model)
    struct = graph._inputs_struct
    if isinstance(given, dict) and not isinstance(struct, dict):
        by_name = {each.name: each for each in graph.inputs}
        if set(by_name) <= set(given):
            given = [given[name] for name in by_name]
    elif isinstance(given, dict):
        given = {name: given[name] for name in struct}
    flat = keras.tree.flatten(given) if isinstance(given, (dict, list, tuple)) else [given]
    if len(flat) != len(graph.inputs):
        raise ValueError(f"{model.name} has {len(graph.inputs)} inputs, and was given {len(flat)}")
    return [_ranked(value, each) for value, each in zip(flat, graph.inputs, strict=True)]


def _ranked(value: Any, wanted: Any) -> Any:
    rank = len(wanted.shape)
    if isinstance(value, Symbol):
        if len(value.shape) != rank:
            raise ValueNeedsPython("the model's input has another rank")
        return value
    value = value if hasattr(value, "dtype") else host_values(value)
    if value.ndim == rank - 1 and wanted.shape[-1] == 1:
        return value[..., None]
    if value.ndim == rank + 1 and value.shape[-1] == 1:
        return value[..., 0]
    return value


def _of_host(inputs: Any) -> bool:
    """Whether inputs are the host's results."""
    return (
        isinstance(inputs, dict)
        and bool(inputs)
        and all(isinstance(name, str) and name.startswith(_PREFIX) for name in inputs)
    )


def _without_tables(inputs: Any) -> Any:
    """Inputs with arrays in place of columns of pandas' tables, whose strings are objects.

    A list of strings is one input, as in TensorFlow before Keras 3, which refuses it.
    """
    if isinstance(inputs, (list, tuple)) and inputs and isinstance(inputs[0], (str, bytes)):
        if all(isinstance(each, (str, bytes)) for each in inputs):
            return as_array(list(inputs))

    def array(leaf: Any) -> Any:
        is_table = not isinstance(leaf, Symbol) and hasattr(leaf, "to_numpy")
        return as_array(leaf.to_numpy()) if is_table else leaf

    return _map_structure(array, inputs)


def _map_structure(function: Callable[[Any], Any], value: Any) -> Any:
    """``function`` of each leaf; structures are those of inputs: lists, tuples and mappings."""
    if isinstance(value, Mapping) and not hasattr(value, "iloc"):
        return {key: _map_structure(function, each) for key, each in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_map_structure(function, each) for each in value)
    return function(value)


def _is_text(leaf: Any) -> bool:
    if isinstance(leaf, Symbol):
        return leaf.spec.is_string
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind in "OSU"
    if isinstance(leaf, (jax.Array, keras.KerasTensor, keras.Variable)):
        return False
    if isinstance(leaf, (str, bytes)):
        return True
    # What has values at some places only, such as ragged rows.
    values = getattr(leaf, "values", None)
    return isinstance(values, np.ndarray) and values.dtype.kind in "OSU"


def _has_strings(inputs: Any) -> bool:
    if isinstance(inputs, Mapping):
        return any(map(_has_strings, inputs.values()))
    if type(inputs) in (list, tuple):
        return any(map(_has_strings, inputs))
    return _is_text(inputs)


def with_host_results(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``Layer.__call__``: strings are taken, and by models what the host made of them."""

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not args:
            return call(self, *args, **kwargs)
        if not isinstance(self, keras.Model):
            return _called_with_text(call, self, args, kwargs)
        if _of_host(args[0]):
            return _rest(self, args[0], kwargs)
        if isinstance(args[0], (jax.Array, keras.KerasTensor)):
            return call(self, *args, **kwargs)
        given = _converted(_without_tables(args[0]))
        if not _has_strings(given):
            return call(self, *args, **kwargs)
        _build(self, given)
        plan = _plan(self)
        if plan is None and _takes_features(self, given):
            return call(self, with_prepared(self, given), *args[1:], **kwargs)
        if plan is None:
            return call(self, *args, **kwargs)
        return _rest(self, plan.on_host(_flat_inputs(self, given)), kwargs)

    return called


def _called_with_text(call: Callable[..., Any], layer: Any, args: Any, kwargs: Any) -> Any:
    """Call a layer, which gets strings as they are if it is of a user's class.

    Keras would make arrays of JAX's of all arguments, which hold no strings.
    """
    of_keras = type(layer).__module__.partition(".")[0] == "keras"
    if of_keras or not layer._convert_input_args or not _has_strings(args[0]):
        return call(layer, *args, **kwargs)
    allowed = layer._allow_non_tensor_positional_args
    layer._convert_input_args, layer._allow_non_tensor_positional_args = False, True
    try:
        return call(layer, *args, **kwargs)
    finally:
        layer._convert_input_args, layer._allow_non_tensor_positional_args = True, allowed


def with_host_call(call: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the ``call`` of models made of layers' outputs, which compiled steps call."""

    def called(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        if not _of_host(inputs):
            return call(self, inputs, *args, **kwargs)
        return _rest(self, inputs, kwargs)

    return called


def _layers_of_features(model: Any) -> list[Any]:
    return [each for each in model._flatten_layers() if hasattr(each, "prepare")]


def _takes_features(model: Any, inputs: Any) -> bool:
    """Whether a model without a graph has layers of feature columns, and is given features."""
    is_features = isinstance(inputs, dict) and not _of_host(inputs)
    return is_features and bool(_layers_of_features(model))


def with_prepared(model: Any, features: dict[str, Any]) -> dict[str, Any]:
    """Features without strings, and what is prepared of them for each layer of feature columns.

    Layers whose columns' features are not among these are left out: the model makes those itself.
    """
    given = _converted(features)
    made = {name: each for name, each in given.items() if not _is_text(each)}
    for layer in _layers_of_features(model):
        if layer.keys <= set(given):
            made.update(layer.prepare(given))
    return made


def _rest(model: Any, results: dict[str, Any], options: dict[str, Any]) -> Any:
    plan = _plan(model)
    if plan is None:
        raise ValueError(f"{model.name} has no layer of strings")
    return plan.rest(results, options.get("training"))


def _build(model: Any, inputs: Any) -> None:
    """Build a `Sequential` that begins with a layer of strings for inputs of this rank."""
    if not isinstance(model, keras.Sequential) or model.built or not model.layers:
        return
    if not hasattr(model.layers[0], "on_host"):
        return
    shape = getattr(inputs, "shape", None)
    rank = np.ndim(inputs) if shape is None else len(shape)
    model.build((None,) * min(rank, 1) + tuple(shape[1:] if shape is not None and rank > 1 else ()))


def of_strings(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap ``fit`` and the like: the host's part of the model is computed of what they are given.

    Of a dataset in a map, of arrays at once, of generators and `PyDataset`s batch by batch.
    """

    def fitted(self: Any, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        layers = self._flatten_layers()
        if not any(hasattr(each, "on_host") or hasattr(each, "prepare") for each in layers):
            return fit(self, x, *args, **kwargs)
        x = _computed(self, x)
        validation = kwargs.get("validation_data")
        if isinstance(validation, (tuple, list)):
            kwargs["validation_data"] = (_computed(self, validation[0]), *validation[1:])
        elif validation is not None:
            kwargs["validation_data"] = _computed(self, validation)
        return fit(self, x, *args, **kwargs)

    return fitted


def _computed(model: Any, x: Any) -> Any:
    given = _without_tables(_converted(x))
    if isinstance(given, Dataset):
        return _mapped(model, given)
    if isinstance(given, keras.utils.PyDataset):
        return given if isinstance(given, _ComputedBatches) else _ComputedBatches(model, given)
    if isinstance(given, types.GeneratorType):
        # Keras refuses a generator's batch that is no tuple, and shows it.
        return (
            _computed_batch(model, batch) if isinstance(batch, (tuple, list)) else batch
            for batch in given
        )
    of_features = _takes_features(model, given)
    if not _has_strings(given) and not of_features:
        return x
    _build(model, given)
    plan = _plan(model)
    if plan is None and of_features:
        return with_prepared(model, given)
    return x if plan is None else plan.on_host(_flat_inputs(model, given))


def _computed_batch(model: Any, batch: Any) -> Any:
    """A batch of a generator or a `PyDataset`: inputs, or a tuple of these and more."""
    if isinstance(batch, list) and not all(isinstance(each, (str, bytes)) for each in batch):
        batch = tuple(batch)
    if isinstance(batch, tuple) and batch:
        return (_computed(model, batch[0]), *batch[1:])
    return _computed(model, batch)


class _ComputedBatches(keras.utils.PyDataset):
    """A `PyDataset` with the host's results in place of inputs.

    Args:
        model: the model that is given them.
        source: the user's.
    """

    def __init__(self, model: Any, source: Any):
        super().__init__(source.workers, source.use_multiprocessing, source.max_queue_size)
        self._model, self._source = model, source
        if not model.built:
            _computed_batch(model, source[0])  # builds it, which several threads must not

    def __getitem__(self, index: int) -> Any:
        return _computed_batch(self._model, self._source[index])

    @property
    def num_batches(self) -> int | None:
        """As the user's has."""
        count: int | None = self._source.num_batches
        return count

    def on_epoch_begin(self) -> None:
        self._source.on_epoch_begin()

    def on_epoch_end(self) -> None:
        self._source.on_epoch_end()


def _mapped(model: Any, dataset: Dataset) -> Dataset:
    spec = dataset.element_spec
    first = spec[0] if isinstance(spec, tuple) else spec
    if _of_host(first):
        return dataset
    _build(model, first)
    plan = _plan(model)
    if plan is None and _takes_features(model, first):

        def prepared(*element: Any) -> Any:
            made = with_prepared(model, element[0])
            return made if len(element) == 1 else (made, *element[1:])

        return dataset.map(prepared)
    if plan is None:
        return dataset

    def on_host(*element: Any) -> Any:
        results = plan.on_host(_flat_inputs(model, element[0]))
        return results if len(element) == 1 else (results, *element[1:])

    return dataset.map(on_host)
