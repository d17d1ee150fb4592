"""Options of a dataset: how it runs. No option changes what it yields.

``Options`` holds one ``Group`` for each subject (automatic choice of numbers, sharing by several
processes, rules that rewrite a plan, threads), whose attributes are checked when they are set.
Names and meanings are those of ``tf.data.Options``.

`BaseDataset` is what modules below ``Dataset`` know of one: a plan, and the options it runs under.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

from drumline.data.elements.errors import did_you_mean
from drumline.data.elements.spec import DatasetValue
from drumline.data.plan.node import Node
from drumline.data.runtime.statistics import Statistics


class AutoShardPolicy(enum.IntEnum):
    """How a strategy of several processes divides a dataset among them.

    As ``tf.data.experimental.AutoShardPolicy``.

    Attributes:
        OFF: every process reads all elements.
        AUTO: by file where the dataset reads at least as many files as there are processes and no
            operation counts elements, else by element.
        FILE: each process reads its own files.
        DATA: each process reads all elements and keeps its share.
        HINT: the dataset is sharded where the user says.
    """

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3

    @classmethod
    def of(cls, value: Any) -> AutoShardPolicy:
        """The policy of this value.

        Raises:
            TypeError: if it is no policy.
        """
        if not isinstance(value, cls):
            names = ", ".join(f"AutoShardPolicy.{member.name}" for member in cls)
            raise TypeError(f"auto_shard_policy must be one of {names}, got {value!r}")
        return value


Check = Callable[[str, Any], Any]
"""Takes an option's name and value; returns the value to keep, or raises."""


class Group:
    """Options that know which of them were set.

    Names that are no option are rejected: a misspelt one must not be silently without effect.
    """

    checks: ClassVar[Mapping[str, Check]] = {}
    """What values an option takes."""

    settled: ClassVar[Mapping[str, tuple[bool, str]]] = {}
    """Options of tf.data that always have the same value here, and why. Setting that is allowed."""

    refused: ClassVar[Mapping[str, str]] = {}
    """Options of tf.data that have no meaning here, and why."""

    former: ClassVar[Mapping[str, str]] = {}
    """Older names of options, which tf.data takes, too."""

    def __new__(cls, *_: Any, **given: Any) -> Self:
        """Names that are no option are rejected with the words that assigning them gives."""
        made = super().__new__(cls)
        for name, value in given.items():
            if name in cls.settled:
                made._agree(name, value)
                always = cls.settled[name][0]
                raise TypeError(f"{cls.__name__}.{name} is always {always}; leave it out")
            if name not in made._names():
                raise TypeError(str(made._unknown(name)))
        return made

    def frozen(self) -> Self:
        """A copy that cannot be changed."""
        made = type(self)().merged(self)
        for field in dataclasses.fields(made):  # type: ignore[arg-type]
            value = getattr(made, field.name)
            if isinstance(value, Group):
                object.__setattr__(made, field.name, value.frozen())
        vars(made)["_frozen"] = True
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        if vars(self).get("_frozen"):
            raise ValueError(
                f"{type(self).__name__}.{name}: changing what Dataset.options() returns has no "
                "effect; set options of a new dl.data.Options() and give it to "
                "Dataset.with_options"
            )
        if name in self.settled:
            return self._agree(name, value)
        name = self.former.get(name, name)
        if name not in self._names():
            raise self._unknown(name)
        group = self._groups().get(name)
        if group is not None and not isinstance(value, group):
            raise TypeError(self._no_group(name, group, value))
        if name in self.checks:
            value = self.checks[name](f"{type(self).__name__}.{name}", value)
        object.__setattr__(self, name, value)
        vars(self).setdefault("_assigned", set()).add(name)

    def __getattr__(self, name: str) -> Any:
        if name in type(self).settled:
            return type(self).settled[name][0]
        if name in type(self).former:
            return getattr(self, type(self).former[name])
        raise self._unknown(name)

    def _names(self) -> list[str]:
        return [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]

    @classmethod
    def _groups(cls) -> dict[str, type[Group]]:
        """Those of its options that are groups themselves."""
        found: dict[str, type[Group]] = {}
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            made = field.default_factory
            if isinstance(made, type) and issubclass(made, Group):
                found[field.name] = made
        return found

    def _no_group(self, name: str, group: type[Group], value: Any) -> str:
        options = ", ".join(f"{name}.{field}" for field in group()._names())
        return (
            f"{type(self).__name__}.{name} takes {group.__name__}, got {shown(value)}; it is a "
            f"group of options, to be set one by one: {options}"
        )

    def _unknown(self, name: str) -> AttributeError:
        has, reason = ", ".join(self._names()), self.refused.get(name)
        said = f"{type(self).__name__} has no option {name!r}"
        if reason is not None:
            return AttributeError(f"{said}; it has {has}: {reason}")
        hint = did_you_mean(name, [*self._names(), *self.settled])
        return AttributeError(f"{said}. {hint}It has {has}.")

    def _agree(self, name: str, value: Any) -> None:
        always, reason = self.settled[name]
        if value is not None and value is not always:
            raise ValueError(
                f"{type(self).__name__}.{name} is always {always} and cannot be {value!r}: {reason}"
            )

    def __post_init__(self) -> None:
        """Options given to the constructor count as set where they are not the default."""
        untouched = {
            field.name
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if getattr(self, field.name) == field.default
        }
        vars(self)["_assigned"] -= untouched

    def merged(self, other: Self) -> Self:
        """These options with those that were set in `other`."""
        made = type(self)()
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if isinstance(mine, Group):
                setattr(made, field.name, mine.merged(theirs))
            elif field.name in vars(other)["_assigned"]:
                setattr(made, field.name, theirs)
            elif field.name in vars(self)["_assigned"]:
                setattr(made, field.name, mine)
        return made


def shown(value: Any) -> str:
    """Format a value of the wrong kind for a message; classes differ from their instances."""
    if isinstance(value, type):
        return f"the class {value.__name__} itself, not an instance: call it, {value.__name__}()"
    return f"{value!r:.40}"


def switch(name: str, value: Any) -> bool | None:
    """A bool, or ``None`` to leave it to drumline."""
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{name} must be a bool or None, got {value!r:.40}")
    return value


def amount(name: str, value: Any) -> int | None:
    """A number of 0 or more, or ``None``; 0 and ``None`` leave it to drumline."""
    if value is None:
        return None
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer or None, got {value!r:.40}") from None
    if number < 0:
        raise ValueError(f"{name} must be at least 0, got {value!r}")
    return number


@dataclasses.dataclass
class AutotuneOptions(Group):
    """As ``tf.data.experimental.AutotuneOptions``.

    Attributes:
        enabled: whether numbers given as ``AUTOTUNE`` are chosen, and changed, while the dataset
            runs. Otherwise they are fixed: as many workers as CPU cores, buffers of 4 MB.
        cpu_budget: how many cores the chosen workers may keep busy; by default all.
        ram_budget: how many bytes the buffers whose sizes are chosen may hold together; by default
            a quarter of the memory that is free at the start.
    """

    enabled: bool | None = None
    cpu_budget: int | None = None
    ram_budget: int | None = None

    checks = {"enabled": switch, "cpu_budget": amount, "ram_budget": amount}  # noqa: RUF012
    refused = {  # noqa: RUF012
        "autotune_algorithm": "there is one",
        "initial_parallelism": "the first number follows from the budget",
        "min_parallelism": "one worker is the least; give num_parallel_calls a number for more",
    }


@dataclasses.dataclass
class DistributeOptions(Group):
    """As ``tf.data.experimental.DistributeOptions``.

    Attributes:
        auto_shard_policy: how a strategy of several processes divides the dataset among them. One
            process reads all of it.
    """

    auto_shard_policy: AutoShardPolicy = AutoShardPolicy.AUTO

    checks = {"auto_shard_policy": lambda _, value: AutoShardPolicy.of(value)}  # noqa: RUF012
    refused = {"num_devices": "the strategy knows its devices"}  # noqa: RUF012


_BITS = "two programs compiled as one round differently; maps run back to back on a block instead"


@dataclasses.dataclass
class OptimizationOptions(Group):
    """As ``tf.data.experimental.OptimizationOptions``, with the rules there are here.

    The elements are the same bits with any of them. ``None`` leaves a rule to
    ``apply_default_optimizations``, but for ``map_vectorization``; a bool decides by itself.

    Attributes:
        apply_default_optimizations: whether rules apply for which nothing is said.
        noop_elimination: leaves out what changes nothing, such as ``repeat(1)``.
        map_and_batch_fusion: has native maps of several threads make whole batches, which are not
            copied then. Of other maps' blocks, batches are slices either way.
        map_vectorization: computes the elements of a block of a compiled map together. Where it is
            ``False`` each has a call of its own, of a program compiled for one element. Where a
            program rounds more than once, the length it is compiled for shows in the last bits: it
            keeps that, filled up, and costs as much for an element as for a block.
        map_parallelization: has several threads compute compiled maps.
        inject_prefetch: adds a prefetch at the end of plans that compute.
        take_skip_pushdown: moves ``take`` and ``skip`` below maps; not in tf.data.
        shard_pushdown: moves ``shard`` below maps; not in tf.data.
        window_and_batch_fusion: stacks windows that a function batches or gives as they are
            without a dataset for each; not in tf.data.
        native_arithmetic: computes without a compiled program what a map only moves within an
            element, makes float32, and scales or shifts by constants (``image[:, ::-1] / 255``),
            and what it makes of integers by constants (``label - 1``); not in tf.data.
    """

    apply_default_optimizations: bool = True
    noop_elimination: bool | None = None
    map_and_batch_fusion: bool | None = None
    map_vectorization: bool | None = None
    map_parallelization: bool | None = None
    inject_prefetch: bool | None = None
    take_skip_pushdown: bool | None = None
    shard_pushdown: bool | None = None
    window_and_batch_fusion: bool | None = None
    native_arithmetic: bool | None = None

    checks = {  # noqa: RUF012
        "noop_elimination": switch,
        "map_and_batch_fusion": switch,
        "map_vectorization": switch,
        "map_parallelization": switch,
        "inject_prefetch": switch,
        "take_skip_pushdown": switch,
        "shard_pushdown": switch,
        "window_and_batch_fusion": switch,
        "native_arithmetic": switch,
    }
    settled = {  # noqa: RUF012
        "map_fusion": (False, _BITS),
        "filter_fusion": (False, _BITS),
        "map_and_filter_fusion": (False, _BITS),
        "shuffle_and_repeat_fusion": (
            False,
            "each pass of a repeat is shuffled by itself, with a key of its own",
        ),
        "filter_parallelization": (False, "a predicate is evaluated on whole blocks already"),
        "parallel_batch": (False, "a batch that lies within a block is not copied at all"),
        "seq_interleave_prefetch": (False, "give interleave num_parallel_calls"),
    }

    def applies(self, rule: str) -> bool:
        """Whether the rule of that name is used."""
        chosen = getattr(self, rule)
        return self.apply_default_optimizations if chosen is None else chosen


@dataclasses.dataclass
class ThreadingOptions(Group):
    """As ``tf.data.ThreadingOptions``.

    Attributes:
        private_threadpool_size: how many threads the dataset's maps share, however many calls they
            may make in parallel. By default each map has threads of its own, and compiled maps
            that name no ``num_parallel_calls`` get as many as there are CPU cores but one; 1 leaves
            these to the thread that asks for elements.
        max_intra_op_parallelism: among how many threads one copy of rows (the gather of a shuffled
            block, a long batch) is divided. By default long copies use every core. Programs that
            XLA compiled use the threads of XLA, which all programs of the process share.
    """

    private_threadpool_size: int | None = None
    max_intra_op_parallelism: int | None = None

    checks = {"private_threadpool_size": amount, "max_intra_op_parallelism": amount}  # noqa: RUF012


def _statistics(name: str, value: Any) -> Statistics | None:
    if value is not None and not isinstance(value, Statistics):
        wanted = "an instance of dl.data.experimental.Statistics"
        raise TypeError(f"{name} takes {wanted}, got {shown(value)}")
    return value


def _workers(name: str, value: Any) -> str:
    if value not in ("threads", "processes"):
        raise ValueError(f"{name} must be 'threads' or 'processes', got {value!r:.40}")
    return str(value)


@dataclasses.dataclass
class Options(Group):
    """Options of a dataset, given by ``Dataset.with_options``; the last given value holds.

    Attributes:
        autotune: which numbers may be chosen for ``AUTOTUNE``.
        deterministic: ``False`` has maps with ``num_parallel_calls`` read so far ahead (32 tasks
            for each worker) that one slow element seldom stops the others. Elements come in order
            whatever it says; in ``tf.data`` others may overtake the slow one.
        experimental_distribute: how a strategy of several processes divides the dataset.
        experimental_optimization: what the optimizer may do.
        experimental_slack: whether a ``prefetch`` at the end lets some time pass after its consumer
            took elements before it makes more, so as not to compete with the start of a step. The
            plan must end with ``prefetch``.
        experimental_statistics: counts what the dataset's stages do.
        python_workers: what calls Python functions of maps with ``num_parallel_calls``. By default
            ``"threads"``, which serve where the function waits, or computes in numpy or another
            library that lets go of Python's lock. ``"processes"`` are fresh interpreters, started
            when they are first needed and kept for later epochs; arrays travel in shared memory.
            The function is pickled, with all it refers to; what it changes stays in the worker.
            Not in tf.data.
        threading: how many threads work.
    """

    autotune: AutotuneOptions = dataclasses.field(default_factory=AutotuneOptions)
    deterministic: bool | None = None
    experimental_distribute: DistributeOptions = dataclasses.field(
        default_factory=DistributeOptions
    )
    experimental_optimization: OptimizationOptions = dataclasses.field(
        default_factory=OptimizationOptions
    )
    experimental_slack: bool | None = None
    experimental_statistics: Statistics | None = None
    python_workers: str = "threads"
    threading: ThreadingOptions = dataclasses.field(default_factory=ThreadingOptions)

    checks = {  # noqa: RUF012
        "deterministic": switch,
        "experimental_slack": switch,
        "experimental_statistics": _statistics,
        "python_workers": _workers,
    }
    refused = {  # noqa: RUF012
        "dataset_name": "name the statistics, as in experimental_statistics",
        "experimental_external_state_policy": "functions with outside state run as Python, always",
        "experimental_service": "distribute takes its options itself",
        "experimental_symbolic_checkpoint": "iterators' states never hold elements",
        "experimental_warm_start": "iterators start when they are first asked",
        "framework_type": "there is one framework",
    }
    former = {  # noqa: RUF012
        "experimental_deterministic": "deterministic",
        "experimental_threading": "threading",
    }


class BaseDataset(DatasetValue):
    """An immutable plan with its options; `Dataset` adds the methods.

    The modules that build and run plans import this class, since `Dataset` imports them.

    Args:
        plan: what the elements are made of.
        options: those that were set; ``None`` for the defaults.

    Raises:
        ValueError: if an operation follows ``prefetch_to_device``.
    """

    def __init__(self, plan: Node, options: Options | None = None):
        for part in plan.inputs:
            check_on_host(part, plan.name)
        self._plan = plan
        self._given_options = options

    @property
    def _options(self) -> Options:
        """The options in force, created on first use: most datasets in functions need none."""
        if self._given_options is None:
            self._given_options = Options()
        return self._given_options

    def _with(self, plan: Node, name: str | None = None) -> Self:
        return type(self)(named(plan, name), self._given_options)


def check_on_host(plan: Node, operation: str) -> None:
    """Reject a plan whose elements are on a device, for an operation that would follow.

    Raises:
        ValueError: if ``plan`` ends with ``prefetch_to_device``.
    """
    if plan.is_last:
        raise ValueError(
            f"{operation}: prefetch_to_device must be the last operation of a dataset; call it "
            "after all others"
        )


def merged_options(datasets: Iterable[BaseDataset]) -> Options | None:
    """Merge the options of several datasets, later ones first in force.

    Returns:
        ``None`` if no dataset has any.
    """
    given = [d._given_options for d in datasets if d._given_options is not None]
    return functools.reduce(Options.merged, given) if given else None


def named(plan: Node, name: str | None) -> Node:
    """Return the operation under the name the user gave it, which ``explain()`` shows."""
    return plan if name is None else dataclasses.replace(plan, title=name)


_classes: list[type[BaseDataset]] = []


def set_dataset_class(dataset: type[BaseDataset]) -> None:
    """Say which class `Dataset` is; called once, where it is defined."""
    _classes[:] = [dataset]


def dataset_class() -> Any:
    """Return the class `Dataset`, for modules that it imports."""
    return _classes[0]


def as_dataset(plan: Node) -> Any:
    """Return a `Dataset` over ``plan``, for modules that `Dataset` imports."""
    return _classes[0](plan)
