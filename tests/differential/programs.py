"""Programs over the public surface of tf.data, drawn by hypothesis.

A program is a source and steps. What a step may do follows from the ``element_spec`` that
TensorFlow gives for the steps before it, so that drawing a program also builds TensorFlow's half.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.differential.expressions import Draw, Expression, Leaf, draw_expression
from tests.differential.sides import Theirs

KINDS = ("int", "float", "bool", "string", "vector")
LIMIT = 48
"""The most elements that are compared."""


@dataclasses.dataclass(frozen=True)
class Step:
    """What a program does next.

    Attributes:
        text: of it, for reports.
        apply: does it, with a side's names; of a source the dataset is None.
        ordered: whether the order of elements is the same on both sides from here on.
        ends: whether nothing may follow that depends on which elements come when.
    """

    text: str
    apply: Callable[[Any, Any], Any]
    ordered: bool = True


@dataclasses.dataclass(frozen=True)
class Function:
    """A structure of expressions, which is what a function of a program returns."""

    structure: Any

    def __call__(self, side: Any, element: Any) -> Any:
        def build(part: Any) -> Any:
            if isinstance(part, Expression):
                return part.render(side, element)
            if isinstance(part, dict):
                return {key: build(item) for key, item in part.items()}
            made = map(build, part)
            return list(made) if isinstance(part, list) else tuple(made)

        return build(self.structure)

    def of(self, side: Any) -> Callable[..., Any]:
        """As a function that takes the parts of a tuple as its arguments."""
        return lambda *parts: self(side, _element(parts))

    def __str__(self) -> str:
        if isinstance(self.structure, dict):
            return "{" + ", ".join(f"{k}: {Function(v)}" for k, v in self.structure.items()) + "}"
        if isinstance(self.structure, tuple | list):
            return "(" + ", ".join(str(Function(v)) for v in self.structure) + ",)"
        return str(self.structure)


def _element(parts: Sequence[Any]) -> Any:
    return parts[0] if len(parts) == 1 else tuple(parts)


def leaves_of(spec: Any, path: tuple[Any, ...] = ()) -> list[Leaf] | None:
    """The leaves of an ``element_spec`` of TensorFlow's; None if one is no tensor of known rank."""
    if isinstance(spec, dict):
        parts = [leaves_of(spec[key], (*path, key)) for key in spec]
    elif isinstance(spec, tuple):
        parts = [leaves_of(item, (*path, i)) for i, item in enumerate(spec)]
    elif type(spec).__name__ == "TensorSpec" and spec.shape.rank is not None:
        return [Leaf(path, spec.dtype.name, tuple(spec.shape))]
    else:
        return None
    return None if None in parts else list(itertools.chain.from_iterable(parts))


def draw_function(draw: Draw, leaves: Sequence[Leaf], kinds: Sequence[str] = KINDS) -> Function:
    """What a map may return."""

    def one() -> Expression:
        return draw_expression(draw, draw(st.sampled_from(kinds)), leaves)

    shape = draw(st.sampled_from(["leaf", "leaf", "pair", "dict", "nested", "list", "keep"]))
    if shape == "leaf":
        return Function(one())
    if shape == "pair":
        return Function((one(), one()))
    if shape == "list":
        return Function([draw_expression(draw, "int", leaves) for _ in range(2)])
    if shape == "dict":
        return Function({"b": one(), "a": one()})
    if shape == "nested":
        return Function(({"x": one()}, (one(), one())))
    return Function((Expression("any", "leaf", (leaves[0].path,)), one()))


def draw_source(draw: Draw) -> Step:
    """Where elements come from."""
    kind = draw(st.sampled_from(["range", "slices", "slices", "tensors", "generator", "ragged"]))
    if kind == "range":
        start, step = draw(st.integers(-3, 5)), draw(st.sampled_from([-2, -1, 1, 2, 3]))
        stop = start + step * draw(st.integers(0, 12))
        return Step(f"D.range({start}, {stop}, {step})", lambda s, _: s.D.range(start, stop, step))
    if kind == "tensors":
        value = draw(st.integers(-5, 5))
        return Step(
            f"D.from_tensors(({value}, [1, {value}]))",
            lambda s, _: s.D.from_tensors((s.array(value, "int64"), s.array([1, value], "int64"))),
        )
    if kind == "generator":
        return _generator(draw)
    if kind == "ragged":
        lengths = draw(st.lists(st.integers(0, 4), min_size=1, max_size=8))
        rows = [list(range(i, i + n)) for i, n in enumerate(lengths)]
        return Step(
            f"D.from_generator({rows})",
            lambda s, _: s.D.from_generator(
                lambda: (np.array(row, np.int64) for row in rows),
                output_signature=s.spec((None,), "int64"),
            ),
        )
    rows = draw(st.integers(0, 14))
    columns = draw(st.lists(st.sampled_from(sorted(_COLUMNS)), min_size=1, max_size=3, unique=True))
    form = draw(st.sampled_from(["tuple", "dict", "one"]))

    def slices(side: Any, _: Any) -> Any:
        made = [_COLUMNS[name](rows) for name in columns]
        if form == "one":
            return side.D.from_tensor_slices(made[0])
        given = tuple(made) if form == "tuple" else dict(zip(columns, made, strict=True))
        return side.D.from_tensor_slices(given)

    return Step(f"D.from_tensor_slices({form} of {columns}, {rows} rows)", slices)


_COLUMNS: dict[str, Callable[[int], Any]] = {
    "int64": lambda n: np.arange(n, dtype=np.int64) * 7 % 11 - 3,
    "int32": lambda n: np.arange(n, dtype=np.int32) * 5 % 7,
    "uint8": lambda n: np.arange(n, dtype=np.uint8) * 37,
    "float32": lambda n: np.arange(n, dtype=np.float32) / 4 - 1,
    "float64": lambda n: np.arange(n, dtype=np.float64) / 8,
    "bool": lambda n: np.arange(n) % 3 == 0,
    "string": lambda n: np.array([f"s{i % 5}" for i in range(n)], dtype=object),
    "rows": lambda n: np.arange(3 * n, dtype=np.int64).reshape(n, 3) % 13,
}


def _generator(draw: Draw) -> Step:
    length = draw(st.integers(0, 9))
    fails = draw(st.none() | st.integers(0, 9))

    def generate() -> Iterator[Any]:
        for i in range(length):
            if i == fails:
                raise ValueError("the generator failed")
            yield i * 3 % 5, f"g{i}"

    return Step(
        f"D.from_generator({length} pairs, fails at {fails})",
        lambda s, _: s.D.from_generator(
            generate, output_signature=(s.spec((), "int64"), s.spec((), "string"))
        ),
    )


def draw_inner(draw: Draw, leaves: Sequence[Leaf]) -> tuple[str, Callable[[Any, Any], Any]]:
    """What a function that returns a dataset makes of an element."""
    n = draw_expression(draw, "int", leaves, 1)
    value = draw_function(draw, leaves, ("int", "float", "string"))
    inside = [Leaf(("outer", *leaf.path), leaf.dtype, leaf.shape) for leaf in leaves]
    inside.append(Leaf(("inner",), "int64", ()))
    closure = draw_function(draw, inside, ("int", "float", "string", "bool"))
    predicate = draw_expression(draw, "bool", inside, 2)
    vectors = [leaf for leaf in leaves if leaf.rank == 1]
    size = draw(st.integers(1, 3))
    made: dict[str, Callable[[Any, Any], Any]] = {
        "range": lambda s, e: s.D.range(n.render(s, e) % 4),
        "repeat": lambda s, e: s.D.from_tensors(value(s, e)).repeat(n.render(s, e) % 3),
        "map": lambda s, e: s.D.range(3).map(lambda y: closure(s, {"outer": e, "inner": y})),
        "filter": lambda s, e: s.D.range(4).filter(
            lambda y: predicate.render(s, {"outer": e, "inner": y})
        ),
        "batch": lambda s, e: s.D.range(5).skip(n.render(s, e) % 3).batch(size),
        "concatenate": lambda s, e: s.D.from_tensors(n.render(s, e)).concatenate(s.D.range(2)),
        "twice": lambda s, e: s.D.range(2).flat_map(
            lambda y: s.D.range(2).map(lambda z: closure(s, {"outer": e, "inner": y + z}))
        ),
        "zip": lambda s, e: s.D.zip((s.D.range(2), s.D.from_tensors(value(s, e)).repeat())),
    }
    if vectors:
        path = vectors[0].path
        made["slices"] = lambda s, e: s.D.from_tensor_slices(_at(e, path))
    kind = draw(st.sampled_from(sorted(made)))
    return f"{kind}: n={n}, value={value}, closure={closure}, predicate={predicate}", made[kind]


def _at(element: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        element = element[key]
    return element


def _calls(draw: Draw) -> tuple[str, Callable[[Any], dict[str, Any]]]:
    """Arguments of a parallel map."""
    number = draw(st.sampled_from([None, None, 2, 3, "AUTOTUNE"]))
    deterministic = draw(st.sampled_from([None, True])) if number else None

    def arguments(side: Any) -> dict[str, Any]:
        calls = side.AUTOTUNE if number == "AUTOTUNE" else number
        return (
            {} if number is None else {"num_parallel_calls": calls, "deterministic": deterministic}
        )

    return f"num_parallel_calls={number}, deterministic={deterministic}", arguments


def draw_step(draw: Draw, ds: Any, theirs: Theirs) -> Step:
    """A step that a dataset of TensorFlow's can take."""
    spec = ds.element_spec
    leaves = leaves_of(spec)
    names = [*ALWAYS]
    if leaves:
        names += OF_TENSORS
        if len({leaf.shape[:1] for leaf in leaves}) == 1 and leaves[0].rank:
            names += OF_BATCHES
        if isinstance(spec, theirs.tf.TensorSpec) and spec.dtype.name in (
            "int64",
            "int32",
            "string",
        ):
            names += ["unique"] * (spec.shape.rank == 0)
    name = draw(st.sampled_from(names))
    return STEPS[name](draw, spec, leaves or [])


def _map(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    function, (text, arguments) = draw_function(draw, leaves), _calls(draw)
    return Step(f".map({function}, {text})", lambda s, d: d.map(function.of(s), **arguments(s)))


def _random_map(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    """Draws are other numbers: what is compared is their range, and the shape and dtype."""
    shape = draw(st.sampled_from([(), (2,)]))

    def drawn(side: Any) -> Callable[..., Any]:
        def function(*parts: Any) -> Any:
            u = side.uniform(shape)
            return _element(parts), u < 2.0

        return function

    return Step(f".map(with uniform{shape})", lambda s, d: d.map(drawn(s)))


def _predicate(name: str) -> Callable[..., Step]:
    def step(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
        made = Function(draw_expression(draw, "bool", leaves))
        return Step(f".{name}({made})", lambda s, d: getattr(d, name)(made.of(s)))

    return step


def _flat_map(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    text, inner = draw_inner(draw, leaves)
    return Step(f".flat_map({text})", lambda s, d: d.flat_map(lambda *p: inner(s, _element(p))))


def _interleave(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    text, inner = draw_inner(draw, leaves)
    calls, arguments = _calls(draw)
    # TensorFlow refuses more parallel calls than the cycle is long.
    cycle, block = draw(st.integers(3, 5)), draw(st.integers(1, 3))
    return Step(
        f".interleave({text}, {cycle}, {block}, {calls})",
        lambda s, d: d.interleave(lambda *p: inner(s, _element(p)), cycle, block, **arguments(s)),
    )


def _scan(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    inside = [Leaf(("element", *leaf.path), leaf.dtype, leaf.shape) for leaf in leaves]
    inside.append(Leaf(("state",), "int64", ()))
    state = draw_expression(draw, "int", inside)
    result = draw_function(draw, inside)
    start = draw(st.integers(-2, 2))

    def function(side: Any) -> Callable[..., Any]:
        def scanned(old: Any, element: Any) -> Any:
            both = {"state": old, "element": element}
            return state.render(side, both), result(side, both)

        return scanned

    return Step(
        f".scan({start}, state={state}, {result})",
        lambda s, d: d.scan(s.array(start, "int64"), function(s)),
    )


def _reduce(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    """What a dataset is reduced to, as a dataset of one element."""
    inside = [Leaf(("element", *leaf.path), leaf.dtype, leaf.shape) for leaf in leaves]
    inside.append(Leaf(("state",), "int64", ()))
    state, start = draw_expression(draw, "int", inside), draw(st.integers(-2, 2))

    def reduced(side: Any, ds: Any) -> Any:
        return side.D.from_tensors(
            ds.reduce(
                side.array(start, "int64"),
                lambda old, element: state.render(side, {"state": old, "element": element}),
            )
        )

    return Step(f".reduce({start}, {state})", reduced)


def _group_by_window(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    key, size = draw_expression(draw, "int", leaves), draw(st.integers(1, 4))
    batched, by_key = draw(st.booleans()), draw(st.booleans())
    batched = batched and all(None not in leaf.shape for leaf in leaves)
    sizes = (
        {"window_size_func": lambda s: lambda k: k + 1}
        if by_key
        else {"window_size": lambda s: size}
    )
    return Step(
        f".group_by_window({key} % 3, {'batch' if batched else 'itself'}, "
        f"{'key + 1' if by_key else size})",
        lambda s, d: d.group_by_window(
            key_func=lambda *p: key.render(s, _element(p)) % 3,
            reduce_func=lambda k, w: w.batch(3) if batched else w,
            **{name: made(s) for name, made in sizes.items()},
        ),
    )


def _window(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    arguments = (
        draw(st.integers(1, 4)),
        draw(st.none() | st.integers(1, 4)),
        draw(st.integers(1, 3)),
        draw(st.booleans()),
    )
    single = not isinstance(spec, tuple | dict)
    size = draw(st.integers(1, 4))

    def windowed(side: Any, ds: Any) -> Any:
        made = ds.window(*arguments)
        return made.flat_map(lambda w: w.batch(size)) if single else made

    text = f".flat_map(batch({size}))" if single else ""
    return Step(f".window{arguments}{text}", windowed)


def _batch(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    size, drop = draw(st.integers(1, 5)), draw(st.booleans())
    if any(None in leaf.shape for leaf in leaves):
        kind = draw(st.sampled_from(["padded_batch", "padded_batch", "ragged_batch"]))
    else:
        kind = draw(st.sampled_from(["batch", "batch", "padded_batch"]))
    calls = {"num_parallel_calls": 2} if kind == "batch" and draw(st.booleans()) else {}
    return Step(
        f".{kind}({size}, drop_remainder={drop}, {calls})",
        lambda s, d: getattr(d, kind)(size, drop_remainder=drop, **calls),
    )


def _bucket(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    length = draw_expression(draw, "int", leaves)
    boundaries, drop = draw(st.sampled_from([[2], [1, 3]])), draw(st.booleans())
    sizes = draw(st.lists(st.integers(1, 4), min_size=3, max_size=3))[: len(boundaries) + 1]
    return Step(
        f".bucket_by_sequence_length({length}, {boundaries}, {sizes}, drop_remainder={drop})",
        lambda s, d: d.bucket_by_sequence_length(
            lambda *p: s.cast(
                s.maximum(length.render(s, _element(p)), s.array(0, "int64")), "int32"
            ),
            boundaries,
            sizes,
            drop_remainder=drop,
        ),
    )


def _plain(name: str, *strategies: Any, **options: Any) -> Callable[..., Step]:
    def step(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
        arguments = [draw(strategy) for strategy in strategies]
        keywords = {key: draw(strategy) for key, strategy in options.items()}
        shown = ", ".join([*map(repr, arguments), *(f"{k}={v!r}" for k, v in keywords.items())])
        return Step(f".{name}({shown})", lambda s, d: getattr(d, name)(*arguments, **keywords))

    return step


def _combined(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    """With itself, or with a range."""
    kind = draw(st.sampled_from(["zip", "concatenate", "choose", "sample", "zip of a dict"]))
    n = draw(st.integers(0, 5))
    picks = draw(st.lists(st.integers(0, 1), min_size=1, max_size=9))
    stop = draw(st.booleans())
    made: dict[str, Callable[[Any, Any], Any]] = {
        "zip": lambda s, d: s.D.zip((d, s.D.range(n))),
        "zip of a dict": lambda s, d: s.D.zip({"q": s.D.range(n + 3), "p": d}),
        "concatenate": lambda s, d: d.concatenate(d.take(n)),
        "choose": lambda s, d: s.D.choose_from_datasets(
            [d, d.skip(n)], s.D.from_tensor_slices(np.array(picks, np.int64)), stop
        ),
        "sample": lambda s, d: s.D.sample_from_datasets(
            [d.take(n), d.take(2)], seed=1, stop_on_empty_dataset=False
        ),
    }
    text = f".{kind}(n={n}, picks={picks}, stop={stop})"
    return Step(text, made[kind], ordered=kind != "sample")


def _stored(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    kind = draw(st.sampled_from(["cache", "cache in a file", "snapshot", "save"]))
    twice = draw(st.booleans())

    def stored(side: Any, ds: Any) -> Any:
        place = tempfile.mkdtemp(prefix="drumline-differential-")
        if kind == "save":
            for _ in ds.take(LIMIT):
                pass  # raises what it raises: TensorFlow's save would wait for ever
            ds.take(LIMIT).save(f"{place}/saved")
            return side.D.load(f"{place}/saved")
        if kind == "snapshot":
            made = ds.take(LIMIT).snapshot(f"{place}/snapshot")
        else:
            made = ds.take(LIMIT).cache(f"{place}/cache" if "file" in kind else "")
        return made.repeat(2) if twice else made

    return Step(f".{kind}(twice={twice and kind != 'save'})", stored)


def _options(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    deterministic = draw(st.sampled_from([None, True]))
    threads = draw(st.sampled_from([0, 1, 2]))
    optimize = draw(st.booleans())

    def with_options(side: Any, ds: Any) -> Any:
        options = side.data.Options()
        if deterministic is not None:
            options.deterministic = deterministic
        options.threading.private_threadpool_size = threads
        options.threading.max_intra_op_parallelism = 1
        options.experimental_optimization.map_parallelization = optimize
        options.autotune.enabled = optimize
        return ds.with_options(options)

    return Step(f".with_options({deterministic}, {threads}, {optimize})", with_options)


def _shuffle(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    size, seed = draw(st.integers(1, 60)), draw(st.none() | st.integers(0, 9))
    again = draw(st.sampled_from([None, True, False]))
    return Step(
        f".shuffle({size}, {seed}, {again})",
        lambda s, d: d.shuffle(size, seed=seed, reshuffle_each_iteration=again),
        ordered=size == 1,
    )


def _shard(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    count = draw(st.integers(1, 4))
    index = draw(st.integers(0, count - 1))
    return Step(f".shard({count}, {index})", lambda s, d: d.shard(count, index))


def _rebatch(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    sizes = draw(st.integers(1, 5) | st.lists(st.integers(1, 3), min_size=1, max_size=3))
    drop = draw(st.booleans())
    return Step(f".rebatch({sizes}, {drop})", lambda s, d: d.rebatch(sizes, drop))


def _apply(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    n = draw(st.integers(0, 9))
    return Step(f".apply(take({n}))", lambda s, d: d.apply(lambda inner: inner.take(n)))


def _repeat(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    """Endless only up to a take: a filter after it may never find another element."""
    count, most = draw(st.none() | st.integers(-1, 3)), draw(st.integers(5, 30))
    endless = count in (None, -1)
    text = f".repeat({count})" + (f".take({most})" if endless else "")
    return Step(text, lambda s, d: d.repeat(count).take(most) if endless else d.repeat(count))


STEPS: dict[str, Callable[..., Step]] = {
    "map": _map,
    "random_map": _random_map,
    "filter": _predicate("filter"),
    "take_while": _predicate("take_while"),
    "flat_map": _flat_map,
    "interleave": _interleave,
    "scan": _scan,
    "reduce": _reduce,
    "group_by_window": _group_by_window,
    "window": _window,
    "batch": _batch,
    "bucket": _bucket,
    "rebatch": _rebatch,
    "combined": _combined,
    "stored": _stored,
    "options": _options,
    "shuffle": _shuffle,
    "shard": _shard,
    "apply": _apply,
    "unbatch": _plain("unbatch"),
    "unique": _plain("unique"),
    "take": _plain("take", st.integers(-1, 12)),
    "skip": _plain("skip", st.integers(-1, 5)),
    "repeat": _repeat,
    "prefetch": _plain("prefetch", st.integers(0, 3)),
    "enumerate": _plain("enumerate", st.integers(-2, 9)),
    "ignore_errors": _plain("ignore_errors"),
}

ALWAYS = ["take", "skip", "repeat", "prefetch", "shard", "enumerate", "apply", "options", "shuffle"]
OF_TENSORS = [
    *("map", "map", "map", "filter", "take_while", "flat_map", "flat_map", "interleave", "scan"),
    *("group_by_window", "window", "batch", "batch", "bucket", "combined", "combined", "stored"),
    *("ignore_errors", "random_map", "reduce"),
]
OF_BATCHES = ["unbatch", "unbatch", "rebatch"]


@dataclasses.dataclass
class Program:
    """A source and steps.

    Attributes:
        steps: in order.
    """

    steps: list[Step]

    def build(self, side: Any) -> Any:
        """The dataset, by the names of a side."""
        ds = None
        for step in self.steps:
            ds = step.apply(side, ds)
        return ds

    @property
    def ordered(self) -> bool:
        """Whether the order of elements is the same on both sides."""
        return all(step.ordered for step in self.steps)

    def __str__(self) -> str:
        return "\n    ".join(step.text for step in self.steps)


def programs(theirs: Theirs, steps: Sequence[str] | None = None) -> st.SearchStrategy[Program]:
    """Programs that TensorFlow builds, of the given steps (all, unless given)."""

    @st.composite
    def drawn(draw: Draw) -> Program:
        made = [draw_source(draw)]
        ds = made[0].apply(theirs, None)
        for _ in range(draw(st.integers(1, 4))):
            step = draw_step(draw, ds, theirs)
            made.append(step)
            if not step.ordered:
                # Which elements come is known, in what order is not: nothing may depend on it.
                break
            try:
                ds = step.apply(theirs, ds)
            except Exception:
                break  # what cannot be built is a program, too
        return Program(made)

    return drawn()


def is_finite(cardinality: int) -> bool:
    """Whether a cardinality is that of a dataset that ends, as far as is known."""
    return cardinality != -1 and not math.isinf(cardinality)
