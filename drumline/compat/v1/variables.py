"""``get_variable``, ``variable_scope``, ``make_template`` and the global step of ``tf.compat.v1``.

As in TensorFlow 2 `get_variable` makes a new variable at each call, but in a template and in a
scope with ``reuse=tf.compat.v1.AUTO_REUSE`` or ``reuse=True``: there it gives the one that has the
name already. Layers of `drumline.compat.v1.layers` share their variables in the same way.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
import numpy as np

from drumline.compat.ops.arrays import zeros
from drumline.compat.training.scopes import NameScope
from drumline.compat.training.variable import TensorVariable
from drumline.compat.values import dtypes
from drumline.compat.values.boundary import unwrap
from drumline.compat.values.convert import static_shape
from drumline.distribute import VariableAggregation, VariableSynchronization
from drumline.estimator.graph import default_graph


class ReuseMode(enum.Enum):
    """Whether names that are known give the object that has them."""

    AUTO_REUSE = 1


AUTO_REUSE = ReuseMode.AUTO_REUSE


class FormerVariable(TensorVariable):
    """A variable, as ``tf.compat.v1.Variable``: `tf.Variable` with the arguments' former order.

    Raises:
        NotImplementedError: with ``collections``: there are no graphs to collect variables in.
    """

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: Any = None,
        constraint: Any = None,
        use_resource: Any = None,
        synchronization: Any = VariableSynchronization.AUTO,
        aggregation: Any = VariableAggregation.NONE,
        shape: Any = None,
    ):
        if collections:
            raise NotImplementedError("Variable(collections=): keep variables in a list of yours")
        super().__init__(
            initial_value,
            trainable=trainable,
            name=name,
            dtype=dtype,
            constraint=constraint,
            synchronization=synchronization,
            aggregation=aggregation,
            shape=shape,
        )


FormerVariable.__name__ = FormerVariable.__qualname__ = "Variable"


class VariableScope:
    """Names below one name, as ``tf.compat.v1.VariableScope``.

    Attributes:
        name: with those of the scopes around it, ``"outer/inner"``.
        reuse: whether `get_variable` gives what has a name already.
        initializer: that of `get_variable` without one.
        regularizer: must be None here.
        dtype: that of `get_variable` without one.
    """

    def __init__(self, name: str, reuse: Any, initializer: Any, dtype: Any):
        self.name = name
        self.reuse = reuse
        self.initializer = initializer
        self.regularizer = None
        self.dtype = dtype
        self.objects: dict[str, Any] = {}

    @property
    def original_name_scope(self) -> str:
        """Its name, with a slash."""
        return f"{self.name}/"

    def reuse_variables(self) -> None:
        """Have `get_variable` give what has a name already, from now on."""
        self.reuse = True


class _ScopesOfThread(threading.local):
    """What threads have of their own: the scopes they are in.

    Attributes:
        scopes: the outermost first.
        objects: the variables and layers that scopes share, by kind and full name.
        names: how often a default name was given out in a scope.
    """

    def __init__(self) -> None:
        self.scopes = [VariableScope("", None, None, np.float32)]
        self.objects: dict[tuple[str, str], Any] = {}
        self.names: Counter[str] = Counter()


_state = _ScopesOfThread()


@contextlib.contextmanager
def fresh_scopes() -> Iterator[None]:
    """A block outside of all scopes, in which no name was used."""
    before = vars(_state).copy()
    vars(_state).update(
        scopes=[VariableScope("", None, None, np.float32)], objects={}, names=Counter()
    )
    try:
        yield
    finally:
        vars(_state).update(before)


def get_variable_scope() -> VariableScope:
    """The scope that this code is in."""
    return _state.scopes[-1]


def full_name(name: str) -> str:
    """A name with those of the scopes around it."""
    scope = get_variable_scope().name
    return f"{scope}/{name}" if scope else name


def default_name(base: str) -> str:
    """``base``, ``base_1``, ...: the next that was not given out since this scope was entered."""
    name = full_name(base)
    count = _state.names[name]
    _state.names[name] += 1
    return f"{base}_{count}" if count else base


def shared(kind: str, name: str, make: Callable[[], Any], reuse: Any = None) -> Any:
    """What has a name in this scope, or a new object, as the scope's ``reuse`` has it.

    Args:
        kind: of objects that share names among themselves only.
        name: without that of the scope.
        make: makes one.
        reuse: in place of the scope's.

    Raises:
        ValueError: the scope has ``reuse=True``, and nothing has the name.
    """
    scope, path = get_variable_scope(), full_name(name)
    known = _state.objects.get((kind, path))
    reuse = scope.reuse if reuse is None else reuse
    if reuse:
        if known is None and reuse is True:
            raise ValueError(
                f"Variable {path} does not exist, or was not created with tf.get_variable(). Did "
                "you mean to set reuse=tf.AUTO_REUSE in VarScope?"
            )
        if known is not None:
            return known
    made = _state.objects[kind, path] = make()
    for each in _state.scopes:
        each.objects[f"{kind} {path}"] = made
    return made


@contextlib.contextmanager
def variable_scope(
    name_or_scope: Any,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: Any = None,
    constraint: Any = None,
    auxiliary_name_scope: bool = True,
) -> Iterator[VariableScope]:
    """Put a name before those of variables and layers.

    Args:
        name_or_scope: a name, or a scope to enter again.
        default_name: the name if ``name_or_scope`` is None; a number is added if it was used.
        initializer: of variables without one.
        reuse: None (as around), `AUTO_REUSE`, True or False.
        dtype: of variables without one.
        auxiliary_name_scope: whether to enter a `NameScope` of this name, too.
        values: and ``caching_device``, ``use_resource``: no effect.

    Raises:
        ValueError: there is neither a name nor a default.
        NotImplementedError: with a regularizer, partitioner, custom getter or constraint.
    """
    refused = {
        "regularizer": regularizer,
        "partitioner": partitioner,
        "custom_getter": custom_getter,
        "constraint": constraint,
    }
    _refuse("variable_scope", refused)
    around = get_variable_scope()
    if isinstance(name_or_scope, VariableScope):
        name = name_or_scope.name
        around = name_or_scope
        beside = name and f"{name}/"
    else:
        given = name_or_scope
        if given is None:
            if default_name is None:
                raise ValueError("If default_name is None then name_or_scope is required")
            given = globals()["default_name"](default_name)
        name, beside = full_name(given), given
    scope = VariableScope(
        name,
        around.reuse if reuse is None else reuse,
        around.initializer if initializer is None else initializer,
        around.dtype if dtype is None else dtype,
    )
    for used in [each for each in _state.names if each.startswith(f"{name}/")]:
        del _state.names[used]
    _state.scopes.append(scope)
    try:
        with NameScope(beside) if auxiliary_name_scope else contextlib.nullcontext():
            yield scope
    finally:
        _state.scopes.pop()


def _refuse(function: str, options: dict[str, Any]) -> None:
    for option, value in options.items():
        if value is not None:
            raise NotImplementedError(
                f"tf.compat.v1.{function}({option}=): use a layer of tf.keras, which has it"
            )


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: Any = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: Any = VariableSynchronization.AUTO,
    aggregation: Any = VariableAggregation.NONE,
) -> TensorVariable:
    """A variable: a new one, or in a scope that reuses, the one that has the name.

    Args:
        name: within its scope.
        shape: with fixed dimensions; not needed with a tensor as initializer.
        dtype: by default that of the scope, float32.
        initializer: of Keras or ``tf.compat.v1``, a function, or a tensor; by default the scope's,
            else Glorot's uniform one for floats and zeros for other types.
        trainable: whether `GradientTape` watches it.
        caching_device: and ``validate_shape``, ``use_resource``: no effect.

    Raises:
        ValueError: the variable that has the name has another shape or dtype, or there is neither
            a shape nor a tensor.
        NotImplementedError: with a regularizer, collections, partitioner, custom getter or
            constraint.
    """
    refused = {
        "regularizer": regularizer,
        "collections": collections,
        "partitioner": partitioner,
        "custom_getter": custom_getter,
        "constraint": constraint,
    }
    _refuse("get_variable", refused)
    scope = get_variable_scope()
    kind = dtypes.as_dtype(scope.dtype if dtype is None else dtype)
    chosen = scope.initializer if initializer is None else initializer
    sizes = None if shape is None else static_shape(shape)

    def make() -> TensorVariable:
        path = full_name(name)
        if chosen is not None and not callable(chosen):
            value = chosen
        elif sizes is None:
            raise ValueError(f"Shape of a new variable ({path}) must be fully defined")
        elif chosen is None and not kind.is_floating:
            value = zeros(sizes, kind)
        else:
            value = _initial(chosen, sizes, kind)
        of_value = chosen is not None and not callable(chosen) and dtype is None
        with NameScope(scope.name and f"{scope.name}/"):
            return TensorVariable(
                value,
                trainable=trainable,
                name=name,
                dtype=None if of_value else kind,
                synchronization=synchronization,
                aggregation=aggregation,
            )

    found: TensorVariable = shared("variable", name, make)
    if sizes is not None and tuple(found.shape) != sizes:
        raise ValueError(
            f"Trying to share variable {full_name(name)}, but specified shape {sizes} and found "
            f"shape {tuple(found.shape)}."
        )
    return found


def _initial(initializer: Any, sizes: tuple[int, ...], kind: Any) -> Any:
    if initializer is None:
        initializer = keras.initializers.GlorotUniform()
    if isinstance(initializer, type):
        initializer = initializer()
    if isinstance(initializer, keras.initializers.Initializer):
        if kind.size < 8:
            return unwrap(initializer(sizes, dtype=kind.name))
        with jax.enable_x64(True):
            return unwrap(initializer(sizes, dtype=kind.name))
    try:
        return initializer(sizes, dtype=kind)
    except TypeError:
        return initializer()


class Template:
    """A function whose variables and layers are made at its first call and shared by the others.

    Args:
        name: of the scope in which it runs.
        function: takes and gives what it likes.
        options: arguments of each call.
    """

    def __init__(self, name: str, function: Callable[..., Any], options: dict[str, Any]):
        self.name = default_name(name)
        self._function = function
        self._options = options
        self._scope: VariableScope | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first = self._scope is None
        with variable_scope(self._scope or self.name, reuse=AUTO_REUSE) as scope:
            if first:
                self._scope = scope
            else:
                known = self._scope
                assert known is not None
                scope.objects = known.objects
            return self._function(*args, **{**self._options, **kwargs})

    @property
    def variables(self) -> list[Any]:
        """Its variables, by their names."""
        objects = {} if self._scope is None else self._scope.objects
        made = [objects[path] for path in sorted(objects, key=lambda path: path.split()[1])]
        found = [each.variables if isinstance(each, keras.Layer) else [each] for each in made]
        return [variable for each in found for variable in each]

    @property
    def trainable_variables(self) -> list[Any]:
        """Those of its variables that `GradientTape` watches."""
        return [variable for variable in self.variables if variable.trainable]

    global_variables = variables


def make_template(
    name_: str,
    func_: Callable[..., Any],
    create_scope_now_: bool = False,
    unique_name_: str | None = None,
    custom_getter_: Any = None,
    **kwargs: Any,
) -> Template:
    """A function whose variables are made at its first call and shared by the others.

    Raises:
        NotImplementedError: with a custom getter.
    """
    _refuse("make_template", {"custom_getter_": custom_getter_})
    return Template(unique_name_ or name_, func_, kwargs)


_steps: dict[str, TensorVariable] = {}


def get_global_step(graph: Any = None) -> TensorVariable | None:
    """The variable that counts steps, int64; None if there is none yet.

    That of the Estimator that this code runs in, if it does.
    """
    found = default_graph()
    return _steps.get("global_step") if found is None else found.global_step


def create_global_step(graph: Any = None) -> TensorVariable:
    """Make the variable that counts steps.

    Raises:
        ValueError: there is one already.
    """
    if get_global_step() is not None:
        raise ValueError('"global_step" already exists.')
    made = TensorVariable(np.int64(0), trainable=False, name="global_step", dtype="int64")
    return _steps.setdefault("global_step", made)


def get_or_create_global_step(graph: Any = None) -> TensorVariable:
    """The variable that counts steps, int64; one in a process, or in an Estimator."""
    found = get_global_step()
    return create_global_step() if found is None else found


def global_variables_initializer() -> None:
    """Do nothing, as TensorFlow 2 does: variables have their values once they are made."""


def local_variables_initializer() -> None:
    """Do nothing, as TensorFlow 2 does: variables have their values once they are made."""


def variables_initializer(var_list: Any, name: str = "init") -> None:
    """Do nothing, as TensorFlow 2 does: variables have their values once they are made."""


def tables_initializer(name: str = "init_all_tables") -> None:
    """Do nothing, as TensorFlow 2 does: tables have their values once they are made."""
