"""Programs over the public surface of tf.data, drawn by hypothesis.

A program is a source and steps. What a step may do follows from the ``element_spec`` that
TensorFlow gives for the steps before it, so that drawing a program also builds TensorFlow's half.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.differential.expressions import Draw, Leaf, draw_expression, leaf_at
from tests.differential.parts import (
    Function,
    Step,
    datasets_of,
    draw_function,
    draw_inner,
    element_of,
    leaves_of,
    tensors_of,
)
from tests.differential.sides import Theirs
from tests.differential.sources import draw_source, new_folder

LIMIT = 48
"""The most elements that are compared."""


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


def draw_step(draw: Draw, ds: Any, theirs: Theirs, source: Step) -> Step:
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
    elif datasets_of(spec):
        names += OF_DATASETS * 2
    if source.facts.get("missing"):  # which TensorFlow opens again and again, for ever
        names = [name for name in names if name != "ignore_errors"]
    name = draw(st.sampled_from(names))
    return dataclasses.replace(STEPS[name](draw, spec, leaves or []), name=name)


def _map(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    function, (text, arguments) = draw_function(draw, leaves), _calls(draw)
    return Step(f".map({function}, {text})", lambda s, d: d.map(function.of(s), **arguments(s)))


def _random_map(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    """Draws are other numbers: what is compared is their range, and the shape and dtype."""
    shape = draw(st.sampled_from([(), (2,)]))

    def drawn(side: Any) -> Callable[..., Any]:
        def function(*parts: Any) -> Any:
            u = side.uniform(shape)
            return element_of(parts), u < 2.0

        return function

    return Step(f".map(with uniform{shape})", lambda s, d: d.map(drawn(s)))


def _predicate(name: str) -> Callable[..., Step]:
    def step(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
        made = Function(draw_expression(draw, "bool", leaves))
        return Step(f".{name}({made})", lambda s, d: getattr(d, name)(made.of(s)))

    return step


def _flat_map(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    text, inner = draw_inner(draw, leaves)
    return Step(f".flat_map({text})", lambda s, d: d.flat_map(lambda *p: inner(s, element_of(p))))


def _interleave(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    text, inner = draw_inner(draw, leaves)
    calls, arguments = _calls(draw)
    # TensorFlow refuses more parallel calls than the cycle is long.
    cycle, block = draw(st.integers(3, 5)), draw(st.integers(1, 3))
    return Step(
        f".interleave({text}, {cycle}, {block}, {calls})",
        lambda s, d: d.interleave(lambda *p: inner(s, element_of(p)), cycle, block, **arguments(s)),
    )


def _with_dataset(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    """Elements get a dataset beside what they have."""
    text, inner = draw_inner(draw, leaves)

    def function(side: Any) -> Callable[..., Any]:
        return lambda *p: {"e": element_of(p), "d": inner(side, element_of(p))}

    return Step(f".map(e, d: {text})", lambda s, d: d.map(function(s)))


def _of_dataset(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    """Something made of a dataset that the elements have among their leaves."""
    path, below = draw(st.sampled_from(datasets_of(spec)))
    outer = [Leaf(("e", *leaf.path), leaf.dtype, leaf.shape) for leaf in tensors_of(spec)]
    inside = outer + [Leaf(("y", *leaf.path), leaf.dtype, leaf.shape) for leaf in below]
    state = draw_expression(draw, "int", [*inside, Leaf(("state",), "int64", ())])
    made = draw_function(draw, inside)
    keep = draw_expression(draw, "bool", inside)
    n, size = draw(st.integers(0, 3)), draw(st.integers(1, 3))
    kind = draw(st.sampled_from(["reduce", "reduce", "flat_map", "filter", "take", "zip"]))

    def reduced(side: Any, element: Any) -> Any:
        return leaf_at(element, path).reduce(
            side.array(n, "int64"),
            lambda old, y: state.render(side, {"e": element, "y": y, "state": old}),
        )

    def mapped(side: Any, element: Any) -> Any:
        inner = leaf_at(element, path)
        kept = inner.filter(lambda *y: keep.render(side, {"e": element, "y": element_of(y)}))
        return kept.map(lambda *y: made(side, {"e": element, "y": element_of(y)}))

    def changed(side: Any, element: Any) -> Any:
        inner = leaf_at(element, path)
        if kind == "take":
            return {"first": inner.take(n), "rest": inner.skip(n)}
        return side.D.zip((inner, side.D.range(size)))

    with_element: dict[str, Callable[[Any, Any], Any]] = {
        "reduce": lambda s, d: d.map(lambda *p: reduced(s, element_of(p))),
        "flat_map": lambda s, d: d.flat_map(lambda *p: mapped(s, element_of(p))),
        "filter": lambda s, d: d.filter(lambda *p: reduced(s, element_of(p)) % 2 == 0),
        "take": lambda s, d: d.map(lambda *p: changed(s, element_of(p))),
        "zip": lambda s, d: d.flat_map(lambda *p: changed(s, element_of(p))),
    }
    return Step(
        f".{kind} of the dataset {path}(n={n}, state={state}, {made} if {keep}, {size})",
        with_element[kind],
    )


def _scan(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    inside = [Leaf(("element", *leaf.path), leaf.dtype, leaf.shape) for leaf in leaves]
    inside.append(Leaf(("state",), "int64", ()))
    state = draw_expression(draw, "int", inside)
    result = draw_function(draw, inside, lists=False)  # which TensorFlow packs there
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
            key_func=lambda *p: key.render(s, element_of(p)) % 3,
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
    length, shift, stride, _ = arguments

    def leaves_out(position: int) -> bool:
        starts = range(0, position + 1, shift or length)
        return not any(
            (position - start) % stride == 0 and (position - start) // stride < length
            for start in starts
        )

    return Step(f".window{arguments}{text}", windowed, facts={"leaves out": leaves_out})


def _batch(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    size, drop = draw(st.integers(1, 5)), draw(st.booleans())
    if any(None in leaf.shape for leaf in leaves):
        kind = draw(st.sampled_from(["padded_batch", "padded_batch", "ragged_batch"]))
    else:
        kind = draw(st.sampled_from(["batch", "batch", "padded_batch"]))
    calls = {"num_parallel_calls": 2} if kind == "batch" and draw(st.booleans()) else {}
    padding = _padding(draw, spec, leaves) if kind == "padded_batch" else _no_padding
    return Step(
        f".{kind}({size}, drop_remainder={drop}, {calls}, {padding(None)})",
        lambda s, d: getattr(d, kind)(size, drop_remainder=drop, **calls, **padding(s)),
    )


def _no_padding(side: Any) -> dict[str, Any]:
    return {}


def _padding(draw: Draw, spec: Any, leaves: list[Leaf]) -> Callable[[Any], dict[str, Any]]:
    """What to fill rows up with, and to which shapes."""
    values: dict[Any, Any] = {}
    shapes: dict[Any, Any] = {}
    for leaf in leaves:
        values[leaf.path] = draw(st.none() | _VALUES.get(leaf.dtype, st.integers(0, 9)))
        # Now and then a shape is too small for the elements.
        more = [draw(st.sampled_from([None, 0, 0, 1, 2, -1])) for _ in leaf.shape]
        shapes[leaf.path] = tuple(
            None if extra is None or (size is None and extra <= 0) else max((size or 2) + extra, 0)
            for size, extra in zip(leaf.shape, more, strict=True)
        )
    with_values, with_shapes = draw(st.booleans()), draw(st.booleans())

    def arguments(side: Any) -> dict[str, Any]:
        def value(leaf: Leaf) -> Any:
            given = values[leaf.path]
            return given if given is None or side is None else side.array(given, leaf.dtype)

        return {
            **({"padding_values": _like(spec, leaves, value)} if with_values else {}),
            **({"padded_shapes": _shaped(spec, leaves, shapes)} if with_shapes else {}),
        }

    return arguments


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "string": st.sampled_from(["", "-", "né"]),
    "float32": st.sampled_from([-1.0, 0.5]),
    "float64": st.sampled_from([-1.0, 0.5]),
    "int64": st.integers(-3, 9),
    "int32": st.integers(-3, 9),
}


def _shaped(spec: Any, leaves: list[Leaf], shapes: dict[Any, Any]) -> Any:
    return _like(spec, leaves, lambda leaf: shapes[leaf.path])


def _like(spec: Any, leaves: list[Leaf], made: Callable[[Leaf], Any]) -> Any:
    """A structure as that of a spec."""

    def build(part: Any, path: tuple[Any, ...]) -> Any:
        if isinstance(part, dict):
            return {key: build(item, (*path, key)) for key, item in part.items()}
        if isinstance(part, tuple):
            return tuple(build(item, (*path, i)) for i, item in enumerate(part))
        return made(next(leaf for leaf in leaves if leaf.path == path))

    return build(spec, ())


def _bucket(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    length = draw_expression(draw, "int", leaves)
    boundaries, drop = draw(st.sampled_from([[2], [1, 3]])), draw(st.booleans())
    sizes = draw(st.lists(st.integers(1, 4), min_size=3, max_size=3))[: len(boundaries) + 1]
    return Step(
        f".bucket_by_sequence_length({length}, {boundaries}, {sizes}, drop_remainder={drop})",
        lambda s, d: d.bucket_by_sequence_length(
            lambda *p: s.cast(
                s.maximum(length.render(s, element_of(p)), s.array(0, "int64")), "int32"
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
    shorter = {"zip": n, "zip of a dict": n + 3}.get(kind)
    skips = {"leaves out": lambda position: position < n} if kind == "choose" else {}
    facts = {"other ends at": shorter, **skips}
    return Step(text, made[kind], ordered=kind != "sample", facts=facts)


def _stored(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    kind = draw(st.sampled_from(["cache", "cache in a file", "snapshot", "save"]))
    twice = draw(st.booleans())

    def stored(side: Any, ds: Any) -> Any:
        place = new_folder()
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
    return Step(
        f".shard({count}, {index})",
        lambda s, d: d.shard(count, index),
        facts={"leaves out": lambda position: position % count != index},
    )


def _skip(draw: Draw, spec: Any, leaves: list[Leaf]) -> Step:
    count = draw(st.integers(-1, 5))
    return Step(
        f".skip({count})",
        lambda s, d: d.skip(count),
        facts={"leaves out": lambda position: count == -1 or position < count},
    )


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
    "with_dataset": _with_dataset,
    "of_dataset": _of_dataset,
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
    "skip": _skip,
    "repeat": _repeat,
    "prefetch": _plain("prefetch", st.integers(0, 3)),
    "enumerate": _plain("enumerate", st.integers(-2, 9)),
    "ignore_errors": _plain("ignore_errors"),
}

ALWAYS = ["take", "skip", "repeat", "prefetch", "shard", "enumerate", "apply", "options", "shuffle"]
OF_TENSORS = [
    *("map", "map", "map", "filter", "take_while", "flat_map", "flat_map", "interleave", "scan"),
    *(
        "group_by_window",
        "window",
        "batch",
        "batch",
        "batch",
        "bucket",
        "combined",
        "combined",
        "stored",
    ),
    *("ignore_errors", "random_map", "reduce", "with_dataset"),
]
OF_DATASETS = ["of_dataset", "of_dataset", "combined", "stored"]
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

    def before(self, number: int) -> Program:
        """The source and the steps before one of them."""
        return Program(self.steps[:number])

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
        try:
            ds = made[0].apply(theirs, None)
        except Exception:
            return Program(made)  # what cannot be built is a program, too
        for _ in range(draw(st.integers(1, 4))):
            step = draw_step(draw, ds, theirs, made[0])
            made.append(step)
            if not step.ordered:
                # Which elements come is known, in what order is not: nothing may depend on it.
                break
            try:
                ds = step.apply(theirs, ds)
            except Exception:
                break
        return Program(made)

    return drawn()


def is_finite(cardinality: int) -> bool:
    """Whether a cardinality is that of a dataset that ends, as far as is known."""
    return cardinality != -1 and not math.isinf(cardinality)
