"""Writes the list of TensorFlow's public names, or checks that it is what TensorFlow has.

It runs where TensorFlow is installed. The list has a section for each namespace, and for each of
the classes whose methods scripts call; ``name=other`` states that both are one object::

    [math]
    abs=abs
    accumulate_n
    [class data.Dataset]
    apply
    batch

``compat.v2`` and the namespaces that ``compat.v1`` shares are left out: their names are those of
TensorFlow 2. So are those that ``compat.v1.keras`` has, which needs another package.

    python scripts/tf_names.py [--check]
"""

from __future__ import annotations

import inspect
import pathlib
import sys
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

LIST = pathlib.Path(__file__).parent.parent / "drumline/compat/symbols/tensorflow_names.txt"
VERSION = "2.21"
_WRAPPER = textwrap.TextWrapper(100, break_long_words=False, break_on_hyphens=False)

CLASSES = """
    DType GradientTape Tensor TensorShape Variable data.Dataset data.Iterator distribute.Strategy
"""
"""The classes whose methods are listed."""
SHARED = ("compat.v2", "compat.v1.compat", "compat.v1.keras", "compat.v1.raw_ops")
"""Namespaces whose names are those of others."""
LEGACY = {
    "compat.v1.layers": """
        AveragePooling1D AveragePooling2D AveragePooling3D BatchNormalization Conv1D Conv2D
        Conv2DTranspose Conv3D Conv3DTranspose Dense Dropout Flatten InputSpec Layer MaxPooling1D
        MaxPooling2D MaxPooling3D SeparableConv1D SeparableConv2D average_pooling1d
        average_pooling2d average_pooling3d batch_normalization conv1d conv2d conv2d_transpose
        conv3d conv3d_transpose dense dropout experimental flatten max_pooling1d max_pooling2d
        max_pooling3d separable_conv1d separable_conv2d
    """,
    "compat.v1.nn.rnn_cell": """
        BasicLSTMCell BasicRNNCell DeviceWrapper DropoutWrapper GRUCell LSTMCell LSTMStateTuple
        MultiRNNCell RNNCell ResidualWrapper
    """,
    "compat.v1.flags": """
        ArgumentParser DEFINE DEFINE_alias DEFINE_bool DEFINE_boolean DEFINE_enum
        DEFINE_enum_class DEFINE_flag DEFINE_float DEFINE_integer DEFINE_list DEFINE_multi
        DEFINE_multi_enum DEFINE_multi_enum_class DEFINE_multi_float DEFINE_multi_integer
        DEFINE_multi_string DEFINE_spaceseplist DEFINE_string Error FLAGS Flag FlagValues
        declare_key_flag mark_flag_as_required mark_flags_as_mutual_exclusive
        mark_flags_as_required register_validator set_default validator
    """,
}
"""Names of modules that TensorFlow has from other packages: tf_keras, which it does not install,
and absl."""


def public_names(tensorflow: Any) -> dict[str, Any]:
    """The object under each public name, without ``tf.``.

    Args:
        tensorflow: the module.
    """
    homes = (
        str(pathlib.Path(tensorflow.__file__).parent / "_api"),
        str(pathlib.Path(tensorflow.keras.layers.__file__).parents[3]),
    )
    found: dict[str, Any] = {}

    def is_of_the_interface(value: Any) -> bool:
        return (getattr(value, "__file__", None) or "").startswith(homes)

    def walk(module: Any, path: str, above: frozenset[int]) -> None:
        for name in sorted(dir(module)):
            full = f"{path}.{name}" if path else name
            if name.startswith("_") or full in SHARED:
                continue
            try:
                value = getattr(module, name)
                listed = dir(value)
            except ModuleNotFoundError:  # tf_keras
                listed = []
            if full in LEGACY or not listed:
                found[full] = None
                found.update({f"{full}.{each}": None for each in LEGACY[full].split()})
            elif not isinstance(value, ModuleType):
                found[full] = value
            elif is_of_the_interface(value) or "Lazy" in type(value).__name__:
                found[full] = value
                if id(value) not in above:
                    walk(value, full, above | {id(value)})

    walk(tensorflow, "", frozenset([id(tensorflow)]))
    return found


def methods(tensorflow: Any) -> Iterator[tuple[str, list[str]]]:
    """The classes of `CLASSES`, each with its public methods and properties."""
    for path in CLASSES.split():
        cls = tensorflow
        for part in path.split("."):
            cls = getattr(cls, part)
        names = {name for name in dir(cls) if not name.startswith("_")}
        if path == "data.Dataset":  # what one has is another class, with methods of its own
            names -= {"from_structure"}
        yield path, sorted(names)


def same_objects(names: dict[str, Any], dtype: type) -> dict[str, str]:
    """For each name of an object that has several, the shortest of them."""
    groups: dict[int, list[str]] = {}
    for name, value in names.items():
        named = inspect.isclass(value) or inspect.isroutine(value) or isinstance(value, dtype)
        if named and not name.startswith("keras."):
            groups.setdefault(id(_undecorated(value)), []).append(name)
    found = {}
    for group in groups.values():
        group.sort(key=lambda name: (name.startswith("compat."), name.count("."), len(name), name))
        found.update(dict.fromkeys(group[1:], group[0]))
    for name, value in names.items():
        of_v2 = name.removeprefix("compat.v1.")
        if isinstance(value, (str, int)) and of_v2 != name and names.get(of_v2) == value:
            found.setdefault(name, of_v2)
    return found


def _undecorated(value: Any) -> Any:
    """A function within TensorFlow's decorators, which namespaces may have applied differently."""
    return inspect.unwrap(value) if inspect.isroutine(value) else value


def text(tensorflow: Any) -> str:
    """The list, as it is written."""
    names = public_names(tensorflow)
    same = same_objects(names, tensorflow.DType)
    sections: dict[str, list[str]] = {}
    for name in names:
        path, _, last = name.rpartition(".")
        shown = f"{last}={same[name]}" if name in same else last
        sections.setdefault(path, []).append(shown)
    lines = [f"# Public names of TensorFlow {VERSION}, written by scripts/tf_names.py"]
    listed = [(path, sections[path]) for path in sorted(sections)]
    listed += [(f"class {path}", found) for path, found in methods(tensorflow)]
    for title, found in listed:
        lines += [f"[{title}]", *_WRAPPER.wrap(" ".join(sorted(found)))]
    return "\n".join(lines) + "\n"


def main() -> int:
    import tensorflow

    if not tensorflow.__version__.startswith(VERSION):
        raise SystemExit(f"the list is of TensorFlow {VERSION}, this is {tensorflow.__version__}")
    made = text(tensorflow)
    if "--check" not in sys.argv[1:]:
        LIST.write_text(made)
        return 0
    if LIST.read_text() != made:
        print(f"{LIST.name} is not what TensorFlow has: run python scripts/tf_names.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
