"""Extension types give what TensorFlow's give, where it is installed."""

from collections.abc import Mapping
from typing import Any, Optional, Tuple, Union  # noqa: UP035 (as users write)

import numpy as np
import pytest

from drumline.compat import tf as ours

theirs = pytest.importorskip(
    "tensorflow", reason="compares with TensorFlow, which the reference extra has"
)


class Types:
    """The same classes, of one of both libraries."""

    def __init__(self, tf):
        class Player(tf.experimental.ExtensionType):
            name: tf.Tensor
            attributes: Mapping[str, tf.Tensor]
            number: int = 3
            others: Tuple[tf.Tensor, ...] = ()  # noqa: UP006
            team: Optional[tf.Tensor] = None  # noqa: UP045

        class Mixed(tf.experimental.ExtensionType):
            x: Union[int, tf.Tensor, str]  # noqa: UP007
            shape: tf.TensorShape = None
            kind: tf.DType = tf.int32

        class Masked(tf.experimental.BatchableExtensionType):
            values: tf.Tensor
            mask: tf.Tensor

            def __validate__(self):
                if not self.mask.dtype.is_bool:
                    raise ValueError("mask must be bool")

        class Wide(Masked):
            weight: tf.Tensor = 1.0

        class Sized(tf.experimental.BatchableExtensionType):
            shape: tf.TensorShape
            values: tf.Tensor

            def __init__(self, values):
                self.values = tf.convert_to_tensor(values)
                self.shape = self.values.shape[:-1]

        class Unset(tf.experimental.ExtensionType):
            x: int

            def __init__(self):
                pass

        class Further(tf.experimental.ExtensionType):
            x: int

            def __init__(self):
                self.x = 1
                self.z = 2

        self.tf = tf
        self.Player, self.Mixed, self.Masked, self.Wide = Player, Mixed, Masked, Wide
        self.Sized, self.Unset, self.Further = Sized, Unset, Further

    def masked(self):
        return self.Masked([1.0, 2.0, 3.0], [True, False, True])


def annotated(tf, kind):
    return type(tf.experimental.ExtensionType)(
        "Made", (tf.experimental.ExtensionType,), {"__annotations__": {"x": kind}}
    )


def set_field(t):
    t.masked().values = 3


def delete_field(t):
    del t.masked().mask


def spec(t, value):
    return t.tf.type_spec_from_value(value)


def rows(dataset):
    return [repr(each.values.numpy().tolist()) for each in dataset]


def graded(t):
    x = t.tf.Variable([1.0, 2.0, 3.0])
    with t.tf.GradientTape() as tape:
        y = t.Masked(x * x, [True, False, True])
        total = t.tf.reduce_sum(t.tf.where(y.mask, y.values, 0.0))
    return tape.gradient(total, x)


def looped(t):
    def body(i, m):
        return i + 1, t.Masked(m.values + 1.5, m.mask)

    return t.tf.while_loop(lambda i, _: i < 4, body, [0, t.masked()])[1].values


def compiled(t):
    @t.tf.function
    def f(m, flag):
        if flag:  # noqa: SIM108 (a statement, for autograph)
            m = t.Masked(m.values * 2, m.mask)
        else:
            m = t.Masked(m.values * 3, m.mask)
        for _ in t.tf.range(3):
            m = t.Masked(m.values + 1, m.mask)
        return m

    return [f(t.masked(), t.tf.constant(flag)).values for flag in (True, False)]


def signed(t):
    kind = t.Masked.Spec(t.tf.TensorSpec([3]), t.tf.TensorSpec([3], t.tf.bool))
    f = t.tf.function(lambda m: m.values * 2, input_signature=[kind])
    return f(t.masked())


def concrete(t):
    f = t.tf.function(lambda m: m.values * 2)
    return f.get_concrete_function(spec(t, t.masked()))(t.masked())


def mapped(t):
    given = t.Sized([[1.0, 2.0], [3.0, 4.0]])
    made = t.tf.map_fn(lambda one: t.Sized(one.values * 2), given)
    return repr(made.shape), made.values


def generated(t):
    kind = t.Masked.Spec(t.tf.TensorSpec([2], t.tf.int32), t.tf.TensorSpec([2], t.tf.bool))
    made = t.tf.data.Dataset.from_generator(
        lambda: (t.Masked([i, i + 1], [True, False]) for i in range(3)), output_signature=kind
    )
    return rows(made), rows(made.batch(2)), rows(made.batch(2).unbatch())


PROGRAMS = {
    "repr": lambda t: repr(t.Player("a", {"h": 1.0})),
    "spec": lambda t: repr(spec(t, t.Player("a", {"h": 1.0}))),
    "mapping": lambda t: t.Player("a", 3),
    "mapping of tensors": lambda t: t.Player("a", {"h": None}),
    "int": lambda t: t.Player("a", {}, number="x"),
    "tuple": lambda t: t.Player("a", {}, others=3),
    "converted": lambda t: repr(t.Player("a", {}, others=[1, 2.5], team="s")),
    "missing": lambda t: t.Player(),
    "unknown": lambda t: t.Player(1, {}, zz=3),
    "union": lambda t: [repr(t.Mixed(x, [2, None])) for x in ("a", 1, 1.5, [1, 2])],
    "shape": lambda t: repr(t.Mixed(1, None, "float32")),
    "validate": lambda t: t.Masked([1], [0]),
    "inherited": lambda t: repr(t.Wide([1], [True])),
    "set": set_field,
    "delete": delete_field,
    "unset": lambda t: t.Unset(),
    "further": lambda t: t.Further(),
    "abstract": lambda t: t.tf.experimental.ExtensionType(),
    "hash": lambda t: hash(t.masked()),
    "equal": lambda t: t.masked() == t.masked(),
    "unequal": lambda t: t.masked() != t.masked(),
    "other value": lambda t: t.masked() == t.Masked([1.0, 2.0, 4.0], [True, False, True]),
    "other shape": lambda t: t.masked() == t.Masked([1.0], [True]),
    "other class": lambda t: t.masked() == t.masked().values,
    "compatible": lambda t: [
        spec(t, t.masked()).is_compatible_with(x)
        for x in (t.masked(), 3, t.Masked([1], [True]), spec(t, t.masked()))
    ],
    "most specific": lambda t: repr(
        spec(t, t.masked()).most_specific_compatible_type(spec(t, t.Masked([1.0], [True])))
    ),
    "spec of a number": lambda t: repr(spec(t, [1])),
    "equal specs": lambda t: spec(t, t.masked()) == spec(t, t.masked()),
    "operator": lambda t: t.masked() + 1,
    "gradient": graded,
    "loop": looped,
    "function": compiled,
    "signature": signed,
    "concrete": concrete,
    "map_fn": mapped,
    "from_tensors": lambda t: rows(t.tf.data.Dataset.from_tensors(t.masked())),
    "slices": lambda t: rows(t.tf.data.Dataset.from_tensor_slices(t.masked())),
    "slices of shapes": lambda t: [
        repr(x.shape) for x in t.tf.data.Dataset.from_tensor_slices(t.Sized([[1.0], [2.0]]))
    ],
    "element_spec": lambda t: repr(
        t.tf.data.Dataset.from_tensor_slices(t.Sized([[1.0], [2.0]])).batch(2).element_spec
    ),
    "map": lambda t: rows(
        t.tf.data.Dataset.from_tensor_slices(t.masked()).map(
            lambda m: t.Masked(m.values * 2, m.mask)
        )
    ),
    "generator": generated,
    "cond": lambda t: t.tf.cond(t.tf.constant(True), t.masked, t.masked).values,
    "flat": lambda t: len(t.tf.nest.flatten(t.masked())),
}


def outcome(program: Any, tf: Any) -> Any:
    try:
        return plain(program(Types(tf)))
    except (TypeError, ValueError, AttributeError, AssertionError) as error:
        return type(error).__name__, str(error)


def plain(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return (np.asarray(value).tolist(), value.dtype.name) if hasattr(value, "dtype") else value


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_tensorflow(name):
    assert outcome(PROGRAMS[name], ours) == outcome(PROGRAMS[name], theirs)


@pytest.mark.parametrize("kind", [list, dict, object, list[int]], ids=str)
def test_refuses_the_annotations_that_tensorflow_refuses(kind):
    with pytest.raises(TypeError, match="In field 'x'"):
        annotated(theirs, kind)
    with pytest.raises(TypeError, match="In field 'x': Unsupported type annotation"):
        annotated(ours, kind)
