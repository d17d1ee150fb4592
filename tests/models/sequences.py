"""Models of sequences: recurrent ones with masks and state, transformers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
from keras import layers, ops

from tests.models.running import (
    BATCH,
    Case,
    Facts,
    Setting,
    facts_of,
    fit_evaluate_predict,
    predictions_of,
    weights_of,
)

WORDS, LENGTH, ROWS = 12, 7, 21


def sentences(rows: int = ROWS) -> np.ndarray:
    """Numbers of words, with zeros after the end; the first is one word, the last is full."""
    rng = np.random.default_rng(4)
    words = rng.integers(1, WORDS, (rows, LENGTH))
    lengths = rng.integers(1, LENGTH + 1, rows)
    lengths[0], lengths[-1] = 1, LENGTH
    return np.where(np.arange(LENGTH) < lengths[:, None], words, 0).astype(np.int32)


def classes(rows: int = ROWS) -> np.ndarray:
    """A class for each row."""
    return np.random.default_rng(6).integers(0, 3, rows)


def of_classes(
    model: keras.Model, setting: Setting, optimizer: keras.optimizers.Optimizer | None = None
) -> keras.Model:
    """Compile a model of logits."""
    model.compile(
        optimizer or keras.optimizers.SGD(0.2, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **setting.compile,
    )
    return model


def lstm(setting: Setting, data: Any) -> keras.Model:
    """Two LSTMs, masked by the embedding; the second starts in a state made of the first's."""
    inputs = keras.Input((LENGTH,), dtype="int32")
    embedded = layers.Embedding(WORDS, 6, mask_zero=True)(inputs)
    whole, hidden, cell = layers.LSTM(5, return_sequences=True, return_state=True)(embedded)
    x = layers.LSTM(5)(whole, initial_state=[cell, hidden])
    return of_classes(keras.Model(inputs, layers.Dense(3)(x)), setting)


def stateful(setting: Setting, data: Any) -> Facts:
    """An LSTM whose state goes from batch to batch; batches are all of one size."""
    x, y = data
    with setting.scope():
        inputs = keras.Input(batch_shape=(BATCH, *x.shape[1:]))
        recurrent = layers.LSTM(5, stateful=True)
        model = of_classes(keras.Model(inputs, layers.Dense(3)(recurrent(inputs))), setting)
    options = {"batch_size": BATCH, "verbose": 0}
    facts = {}
    for epoch in range(2):
        fitted = model.fit(x, y, shuffle=False, **options)
        facts |= facts_of(fitted, f"{epoch} ")
        recurrent.reset_state()
    facts["evaluated"] = np.array(model.evaluate(x, y, **options))
    return facts | predictions_of(model, x, batch_size=BATCH) | weights_of(model)


def whole_batches() -> tuple[np.ndarray, np.ndarray]:
    """Series and classes of two full batches."""
    x, y = masked_series()
    return x[: 2 * BATCH], y[: 2 * BATCH]


def gru(setting: Setting, data: Any) -> keras.Model:
    """GRUs in both directions behind a Masking layer, and one of the masked sequence."""
    x = inputs = keras.Input(data[0].shape[1:])
    x = layers.Masking(-1.0)(x)
    x = layers.Bidirectional(layers.GRU(4, return_sequences=True))(x)
    x = layers.TimeDistributed(layers.Dense(4, activation="tanh"))(x)
    x = layers.GRU(5, go_backwards=True, reset_after=False)(x)
    return of_classes(keras.Model(inputs, layers.Dense(3)(x)), setting)


def masked_series() -> tuple[np.ndarray, np.ndarray]:
    """Series of two numbers a step, -1 after their end."""
    series = np.random.default_rng(8).normal(size=(ROWS, LENGTH, 2)).astype(np.float32)
    return np.where(sentences()[..., None] > 0, series, -1).astype(np.float32), classes()


def tagged(setting: Setting, data: Any) -> keras.Model:
    """A class for each word, of which the masked ones do not count."""
    model = keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            layers.Embedding(WORDS, 6, mask_zero=True),
            layers.RNN([layers.LSTMCell(5), layers.GRUCell(4)], return_sequences=True),
            layers.Dense(3),
        ]
    )
    return of_classes(model, setting)


def translated(setting: Setting, data: Any) -> keras.Model:
    """An encoder whose state a decoder starts with: two inputs, by name."""
    source = keras.Input((LENGTH,), dtype="int32", name="source")
    target = keras.Input((LENGTH,), dtype="int32", name="target")
    embed = layers.Embedding(WORDS, 6, mask_zero=True)
    _, hidden, cell = layers.LSTM(6, return_state=True)(embed(source))
    x = layers.LSTM(6, return_sequences=True)(embed(target), initial_state=[hidden, cell])
    x = layers.AdditiveAttention()([x, embed(source)])
    return of_classes(keras.Model([source, target], layers.Dense(WORDS)(x)), setting)


def pairs() -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A source, a target, and the target's next words."""
    source = sentences()
    target = source[:, ::-1].copy()
    return {"source": source, "target": target}, np.roll(target, -1, 1)


def transformer(setting: Setting, data: Any) -> keras.Model:
    """One causal block with a padding mask, pre-normalized, with a tied output layer."""
    inputs = keras.Input((LENGTH,), dtype="int32")
    embed = layers.ReversibleEmbedding(WORDS, 8, mask_zero=True)
    position = layers.Embedding(LENGTH, 8)(ops.arange(LENGTH))
    x = embed(inputs) + position
    y = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(2, 4)(y, y, use_causal_mask=True)
    y = layers.Dense(16, activation="gelu")(layers.LayerNormalization()(x))
    x = x + layers.Dense(8)(y)
    outputs = embed(layers.RMSNormalization()(x), reverse=True)
    optimizer = keras.optimizers.SGD(0.02, momentum=0.9)
    return of_classes(keras.Model(inputs, outputs), setting, optimizer)


def in_policy(policy: str, build: Any) -> Any:
    """Build under a dtype policy."""

    def built(setting: Setting, data: Any) -> keras.Model:
        before = keras.config.dtype_policy()
        keras.config.set_dtype_policy(policy)
        try:
            return build(setting, data)
        finally:
            keras.config.set_dtype_policy(before)

    return built


def grouped_attention(setting: Setting, data: Any) -> keras.Model:
    """Grouped queries, attention of vectors, Einsum: pooled to a class."""
    inputs = keras.Input((LENGTH,), dtype="int32")
    x = layers.Embedding(WORDS, 8)(inputs)  # Keras warns that this attention drops masks
    x = x + layers.GroupQueryAttention(4, 4, 2)(x, x)
    x = layers.EinsumDense("abc,cd->abd", output_shape=(None, 6), bias_axes="d")(x)
    x = x + layers.Attention(use_scale=True)([x, x])
    x = layers.GlobalAveragePooling1D()(x)
    optimizer = keras.optimizers.AdamW(0.01, epsilon=1e-3)
    return of_classes(keras.Model(inputs, layers.Dense(3)(x)), setting, optimizer)


def convolved(setting: Setting, data: Any) -> keras.Model:
    """Convolutions in time and a recurrent one over frames."""
    inputs = keras.Input(data[0].shape[1:])
    x = layers.Conv1D(6, 3, padding="causal", dilation_rate=2, activation="relu")(inputs)
    x = layers.AveragePooling1D(2)(x)
    x = layers.Reshape((3, 2, 3, 1))(x)
    x = layers.ConvLSTM2D(3, 2, padding="same")(x)
    model = keras.Model(inputs, layers.Dense(3)(layers.Flatten()(x)))
    return of_classes(model, setting)


def labelled_series(setting: Setting, data: Any) -> keras.Model:
    """CTC: sequences of labels shorter than the input."""
    model = keras.Sequential(
        [
            keras.Input((LENGTH, 2)),
            layers.SimpleRNN(6, return_sequences=True),
            layers.Dense(5),
        ]
    )
    model.compile(keras.optimizers.SGD(0.02), keras.losses.CTC(), **setting.compile)
    return model


def labels() -> np.ndarray:
    """Up to three labels, zeros after them, no two alike in a row."""
    return np.tile(np.array([[1, 2, 3], [4, 1, 0], [2, 0, 0]], np.int32), (7, 1))


BFLOAT16 = "of bfloat16's 8 bits: what shares' gradients add up to is rounded in another order"
FLOAT16 = "of float16's 11 bits: as with bfloat16"

SEQUENCES = {
    "lstm with masks and state": Case(
        fit_evaluate_predict(lstm), lambda: (sentences(), classes()), quick=("2 replicas",)
    ),
    "lstm with state between batches": Case(stateful, whole_batches),
    "gru with masks": Case(fit_evaluate_predict(gru), masked_series),
    "a masked class for each word": Case(
        fit_evaluate_predict(tagged), lambda: (sentences(), sentences() % 3)
    ),
    "encoder and decoder": Case(fit_evaluate_predict(translated), pairs),
    "transformer": Case(
        fit_evaluate_predict(transformer), lambda: (sentences(), np.roll(sentences(), -1, 1))
    ),
    "transformer in bfloat16": Case(
        fit_evaluate_predict(in_policy("mixed_bfloat16", transformer)),
        lambda: (sentences(), np.roll(sentences(), -1, 1)),
        tolerance=2e-2,
        why=BFLOAT16,
        quick=("4 replicas",),
    ),
    "lstm in float16": Case(
        fit_evaluate_predict(in_policy("mixed_float16", lstm)),
        lambda: (sentences(), classes()),
        tolerance=2e-3,
        why=FLOAT16,
    ),
    "grouped attention": Case(
        fit_evaluate_predict(grouped_attention), lambda: (sentences(), classes())
    ),
    "convolutions in time": Case(fit_evaluate_predict(convolved), masked_series),
    "CTC": Case(fit_evaluate_predict(labelled_series), lambda: (masked_series()[0], labels())),
}
