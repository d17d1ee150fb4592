"""``tf.nn``: sequences of labels without places, by connectionist temporal classification."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from drumline.compat.composite.sparse import SparseTensor
from drumline.compat.ops.arrays import static_array
from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert, static
from drumline.compat.values.errors import InvalidArgumentError
from drumline.compat.values.tensor import Tensor

_NEVER = -1e30
"""The logarithm of the probability of what cannot be: finite, so that derivatives are."""


def ctc_loss(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: Any = None,
    name: Any = None,
) -> Tensor:
    """The negative logarithm of the probability of each sequence of labels (Graves et al. 2006).

    Args:
        labels: ``(batch, labels)``.
        logits: ``(frames, batch, classes)``, or ``(batch, frames, classes)``.
        label_length: ``(batch,)``: how many labels of each row count.
        logit_length: ``(batch,)``: how many frames.
        logits_time_major: whether the frames are the first dimension.
        unique: accepted: it makes TensorFlow's faster on TPUs.
        blank_index: the class that stands for no label, 0 by default; negative from the end.
        name: accepted.

    Returns:
        ``(batch,)``; infinite if there are fewer frames than the labels need.
    """
    values, rows = convert(logits), convert(labels)
    blank = int(static(blank_index)) if blank_index is not None else 0
    blank += values.shape[-1] if blank < 0 else 0
    if not 0 <= blank < values.shape[-1]:
        raise InvalidArgumentError(
            None, None, f"blank_index {blank_index} is none of {values.shape[-1]} classes"
        )

    def computed(scores: Any, rows: Any, labels_count: Any, frames: Any) -> Any:
        scores = jnp.asarray(scores)
        chances = jax.nn.log_softmax(scores if logits_time_major else scores.swapaxes(0, 1), -1)
        return _loss(chances, jnp.asarray(rows), labels_count, frames, blank)

    return Tensor(compute(computed, values, rows, convert(label_length), convert(logit_length)))


def _loss(chances: Any, rows: Any, labels_count: Any, frames: Any, blank: int) -> Any:
    batch, longest = rows.shape
    # A blank before, between and behind the labels.
    states = jnp.full((batch, 2 * longest + 1), blank, rows.dtype).at[:, 1::2].set(rows)
    # A label may follow another one at once, unless this is the same.
    skips = jnp.zeros(states.shape, bool).at[:, 3::2].set(rows[:, 1:] != rows[:, :-1])
    steps = jnp.arange(states.shape[1])[None]

    def advanced(alpha: Any, given: Any) -> tuple[Any, None]:
        number, frame = given
        here = jnp.take_along_axis(frame, states, -1)
        one = jnp.pad(alpha, ((0, 0), (1, 0)), constant_values=_NEVER)[:, :-1]
        two = jnp.pad(alpha, ((0, 0), (2, 0)), constant_values=_NEVER)[:, :-2]
        two = jnp.where(skips, two, _NEVER)
        made = jax.nn.logsumexp(jnp.stack([alpha, one, two]), 0) + here
        made = jnp.maximum(made, _NEVER)
        return jnp.where((number < frames)[:, None], made, alpha), None

    first = jnp.take_along_axis(chances[0], states, -1)
    alpha = jnp.where(steps < jnp.where(labels_count > 0, 2, 1)[:, None], first, _NEVER)
    numbers = jnp.arange(1, chances.shape[0])
    alpha, _ = jax.lax.scan(advanced, alpha, (numbers, chances[1:]))
    last = 2 * labels_count[:, None].astype(jnp.int32)
    ends = jnp.take_along_axis(alpha, jnp.concatenate([last, jnp.maximum(last - 1, 0)], 1), 1)
    ends = ends.at[:, 1].set(jnp.where(labels_count > 0, ends[:, 1], _NEVER))
    total = jax.nn.logsumexp(ends, -1)
    return jnp.where(total < _NEVER / 2, jnp.inf, -total)


def _sparse(sequences: list[list[int]]) -> SparseTensor:
    places = [(row, place) for row, each in enumerate(sequences) for place in range(len(each))]
    return SparseTensor(
        np.asarray(places, np.int64).reshape(-1, 2),
        np.asarray([label for each in sequences for label in each], np.int64),
        np.asarray((len(sequences), max(map(len, sequences), default=0)), np.int64),
    )


def _decoded(inputs: Any, sequence_length: Any) -> tuple[np.ndarray, list[int]]:
    scores, lengths = static_array(inputs), static_array(sequence_length).tolist()
    if scores.ndim != 3 or len(lengths) != scores.shape[1]:
        raise InvalidArgumentError(
            None, None, f"sequence_length {lengths} does not fit inputs of shape {scores.shape}"
        )
    if any(length > len(scores) for length in lengths):
        raise InvalidArgumentError(
            None, None, f"sequence_length {lengths}: there are {len(scores)} frames"
        )
    return scores, lengths


def ctc_greedy_decoder(
    inputs: Any, sequence_length: Any, merge_repeated: bool = True, blank_index: Any = None
) -> tuple[list[SparseTensor], Tensor]:
    """The best class of each frame, without blanks.

    Args:
        inputs: logits ``(frames, batch, classes)``.
        sequence_length: ``(batch,)``: how many frames of each count.
        merge_repeated: whether the same class in succession is one label.
        blank_index: the class that stands for no label; the last by default.

    Returns:
        A list of the labels, a sparse tensor, and ``(batch, 1)``: the negative sums of the logits.
    """
    scores, lengths = _decoded(inputs, sequence_length)
    blank = scores.shape[-1] - 1 if blank_index is None else int(static(blank_index))
    blank += scores.shape[-1] if blank < 0 else 0
    sequences: list[list[int]] = []
    sums = np.zeros((len(lengths), 1), scores.dtype)
    for row, length in enumerate(lengths):
        best = scores[:length, row].argmax(-1).tolist()
        sums[row] = -scores[:length, row].max(-1).sum() if length else 0
        former = [None, *best[:-1]]
        sequences.append(
            [
                label
                for label, before in zip(best, former, strict=True)
                if label != blank and not (merge_repeated and label == before)
            ]
            if best
            else []
        )
    return [_sparse(sequences)], Tensor(sums)


def ctc_beam_search_decoder(
    inputs: Any, sequence_length: Any, beam_width: int = 100, top_paths: int = 1
) -> tuple[list[SparseTensor], Tensor]:
    """The most probable sequences of labels that a search of some width finds.

    Args:
        inputs: logits ``(frames, batch, classes)``; the last class stands for no label.
        sequence_length: ``(batch,)``: how many frames of each count.
        beam_width: how many beginnings are kept at each frame.
        top_paths: how many sequences are given.

    Returns:
        For each path the labels, sparse tensors, and ``(batch, top_paths)``: the logarithms of
        their probabilities.

    Raises:
        InvalidArgumentError: more paths are asked for than are kept, or found.
    """
    if top_paths > beam_width:
        raise InvalidArgumentError(None, None, f"top_paths {top_paths} > beam_width {beam_width}")
    scores, lengths = _decoded(inputs, sequence_length)
    paths: list[list[list[int]]] = [[] for _ in range(top_paths)]
    chances = np.zeros((len(lengths), top_paths), scores.dtype)
    for row, length in enumerate(lengths):
        found = _search(scores[:length, row].astype(np.float64), beam_width)
        if len(found) < top_paths:
            raise InvalidArgumentError(
                None, None, f"Less leaves in the beam search than requested: {len(found)}"
            )
        for path in range(top_paths):
            paths[path].append(list(found[path][0]))
            chances[row, path] = found[path][1]
    return [_sparse(each) for each in paths], Tensor(chances)


def _search(frames: np.ndarray, width: int) -> list[tuple[tuple[int, ...], float]]:
    """The sequences of labels and their logarithmic probabilities, the best first."""
    never = float("-inf")
    blank = frames.shape[-1] - 1
    # For each beginning the chances of ending in a blank, and in its last label.
    beams: dict[tuple[int, ...], tuple[float, float]] = {(): (0.0, never)}
    for frame in frames:
        chances = frame - np.logaddexp.reduce(frame)
        made: dict[tuple[int, ...], list[float]] = {}

        def add(labels: tuple[int, ...], kind: int, value: float, made: Any = made) -> None:
            held = made.setdefault(labels, [never, never])
            held[kind] = float(np.logaddexp(held[kind], value))

        for labels, (with_blank, without) in beams.items():
            total = float(np.logaddexp(with_blank, without))
            add(labels, 0, total + chances[blank])
            if labels:
                add(labels, 1, without + chances[labels[-1]])
            for label in range(blank):
                same = bool(labels) and label == labels[-1]
                add((*labels, label), 1, (with_blank if same else total) + chances[label])
        ranked = sorted(made.items(), key=lambda one: -np.logaddexp(one[1][0], one[1][1]))
        beams = {labels: (each[0], each[1]) for labels, each in ranked[:width]}
    return [(labels, float(np.logaddexp(*each))) for labels, each in beams.items()]
