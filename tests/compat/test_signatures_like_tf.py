"""Functions and classes take TensorFlow's arguments, by name and by position.

A parameter that is missing, at another place, or with another default makes a script give another
number without a word; so each difference is either mended or listed here with its reason.
"""

import collections
import inspect

import pytest

from drumline.compat import tf as ours
from drumline.compat.symbols import table

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)

_INTERNAL = "made by the library, not by scripts"
_NO_CROSS_DEVICE = "cross-device operations are names that a strategy takes; XLA does the work"
_SESSIONS = "there are no sessions to save in"
_GRAPHS = "an option of TensorFlow 1's graphs"
EXCEPTIONS = {
    "DType": _INTERNAL,
    "RaggedTensor": _INTERNAL,
    "RaggedTensorSpec": "flat values are tensors",
    "Variable.value": "Keras's variables have it as a property, which answers calls as well",
    "compat.v1.Variable.value": "as of Variable",
    "compat.v1.VariableScope": _INTERNAL,
    "compat.v1.data.Iterator": _INTERNAL,
    "compat.v1.data.Iterator.get_next": "a name of graphs",
    "compat.v1.custom_gradient": "takes the function that it decorates",
    "compat.v1.data.NumpyIterator": _INTERNAL,
    "compat.v1.distribute.CrossDeviceOps.broadcast": _NO_CROSS_DEVICE,
    "compat.v1.distribute.HierarchicalCopyAllReduce.broadcast": _NO_CROSS_DEVICE,
    "compat.v1.distribute.NcclAllReduce.broadcast": _NO_CROSS_DEVICE,
    "compat.v1.distribute.ReductionToOneDevice.broadcast": _NO_CROSS_DEVICE,
    "compat.v1.distribute.ReplicaContext": _INTERNAL,
    "compat.v1.distribute.Strategy": _INTERNAL,
    "compat.v1.distribute.StrategyExtended": _INTERNAL,
    "compat.v1.train.Checkpoint.save": _SESSIONS,
    "compat.v1.train.Checkpoint.write": _SESSIONS,
    "compat.v1.distribute.Server": "a server needs to know which task it is",
    "compat.v1.experimental.RowPartition": _INTERNAL,
    "compat.v1.io.TFRecordOptions": "the remaining options of zlib are its defaults",
    "compat.v1.train.Optimizer": "its subclasses are what scripts make",
    "compat.v1.train.SessionRunContext": "estimators make it, without a session",
    "data.Dataset": _INTERNAL,
    "distribute.ReplicaContext": _INTERNAL,
    "distribute.Strategy": _INTERNAL,
    "distribute.StrategyExtended": _INTERNAL,
    "distribute.coordinator.PerWorkerValue": _INTERNAL,
    "experimental.dtensor.DVariable.value": "as of Variable",
    "experimental.dtensor.Mesh": "create_mesh makes it, of JAX's devices",
    "image.stateless_random_saturation": "TensorFlow's fails without its seed",
    "summary.create_file_writer": "there are no meshes of DTensor",
}
OPTIONAL = {
    "skip_gradients_aggregation": _GRAPHS,
    "use_own_namescope_for_non_slot_vars": _GRAPHS,
    "support_partition": _GRAPHS,
    "sampling_rate": "folders are read at the rate of their files; the option is refused",
    "format": "datasets are drumline's; the option is refused",
}


def _parameters(function):
    """The parameters of a function by name, without that of the object; None for a C function."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return {each.name: each for each in found if each.name not in ("self", "cls")}


def _differences(mine, reference):
    by_position = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    kinds = {each.kind for each in mine.values()}
    places = [each.name for each in mine.values() if each.kind in by_position]
    any_place, any_name = (kind in kinds for kind in variable)
    for place, (name, each) in enumerate(reference.items()):
        if each.kind in variable or each.kind is inspect.Parameter.POSITIONAL_ONLY:
            continue
        if name not in mine:
            if not any_name and name not in OPTIONAL:
                yield f"lacks {name}"
            continue
        own = mine[name]
        if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and not any_place:
            if places[place : place + 1] != [name] and not OPTIONAL.keys() & set(reference):
                yield f"has {name} at another place than {place}"
        if own.default is inspect.Parameter.empty:
            if each.default is not inspect.Parameter.empty:
                yield f"requires {name}"
        elif isinstance(each.default, (bool, int, float, str)) and own.default is not None:
            simple = isinstance(own.default, (bool, int, float, str))
            if simple and own.default != each.default and name != "name":
                yield f"has {name}={own.default!r} for {each.default!r}"


def _get(root, name):
    for part in name.split("."):
        root = getattr(root, part)
    return root


def _callables():
    """The names of what both have and can be called, with both; each object of theirs once."""
    seen = set()
    for name in table.present():
        if name.startswith("compat.v1.flags"):  # absl's, which read the command line when looked at
            continue
        try:
            reference = _get(theirs, name)
        except (AttributeError, ImportError):
            continue
        if id(reference) in seen or not callable(reference) or inspect.ismodule(reference):
            continue
        seen.add(id(reference))
        mine = _get(ours, name)
        if not inspect.isclass(reference) or not inspect.isclass(mine):
            yield name, mine, reference
            continue
        own = mine.__init__ if "__init__" in vars(mine) else mine
        yield name, own, reference.__init__
        tuples = issubclass(reference, tuple)
        if name.startswith(("keras.", "compat.v1.test.")) or tuples:
            continue
        for method in dir(reference):
            pair = [inspect.getattr_static(each, method, None) for each in (mine, reference)]
            if method.startswith("_") or None in pair:
                continue
            functions = [getattr(each, method, None) for each in (mine, reference)]
            if functions[0] is None:
                continue
            if all(callable(each) for each in functions):
                yield f"{name}.{method}", *functions
            elif callable(functions[1]) and inspect.isfunction(pair[1]):
                yield f"{name}.{method}", None, functions[1]


def test_arguments_are_tensorflows():
    found = collections.defaultdict(list)
    count = 0
    for name, mine, reference in _callables():
        own, expected = _parameters(mine), _parameters(reference)
        if mine is None:
            found[name].append("is no method")
        if own is None or expected is None:
            continue
        count += 1
        found[name].extend(_differences(own, expected))
    assert count > 1500
    different = {name: each for name, each in found.items() if each}
    unexplained = [f"{name} {', '.join(each)}" for name, each in different.items()]
    unexplained = [each for each in unexplained if each.split()[0] not in EXCEPTIONS]
    assert not unexplained, "\n".join(unexplained)
    assert set(EXCEPTIONS) <= set(different), "an exception is no difference any more"
