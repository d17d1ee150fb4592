"""Ways to train: several inputs and outputs, two models, own steps, adaptation, quantization."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import keras
import numpy as np
from keras import layers, ops

from drumline.distribute import get_replica_context
from tests.models.running import (
    BATCH,
    Case,
    Facts,
    Program,
    Setting,
    facts_of,
    fit_evaluate_predict,
    predictions_of,
    weights_of,
)

ROWS, WIDTH = 21, 6


def vectors() -> tuple[np.ndarray, np.ndarray]:
    """Vectors and what a fixed network makes of them."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    return x, np.tanh(x @ rng.normal(size=(WIDTH, 3))).astype(np.float32)


def perceptron(inputs: int, outputs: int, name: str | None = None) -> keras.Model:
    """A small network."""
    return keras.Sequential(
        [keras.Input((inputs,)), layers.Dense(8, activation="tanh"), layers.Dense(outputs)],
        name=name,
    )


def optimizer() -> keras.optimizers.Optimizer:
    """The one that most programs use."""
    return keras.optimizers.SGD(0.1, momentum=0.9)


def batches(data: Any) -> list[Any]:
    """The data in batches, as a loop of one's own cuts them."""
    rows = len(jax.tree.leaves(data)[0])
    return [
        jax.tree.map(lambda leaf, at=at: leaf[at : at + BATCH], data)
        for at in range(0, rows, BATCH)
    ]


# ---- several inputs and outputs


def by_name(setting: Setting, data: Any) -> keras.Model:
    """Inputs and outputs in dicts, each output with its loss, weight and metrics."""
    left, right = keras.Input((WIDTH,), name="left"), keras.Input((3,), name="right")
    x = layers.Dense(8, activation="relu")(layers.Concatenate()([left, right]))
    model = keras.Model(
        {"left": left, "right": right},
        {
            "kind": layers.Dense(4, name="kind")(x),
            "size": layers.Dense(1, name="size")(x),
            "unused": layers.Dense(2, name="unused")(x),
        },
    )
    model.compile(
        optimizer(),
        loss={
            "kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "size": keras.losses.Huber(0.3),
            "unused": None,
        },
        loss_weights={"kind": 0.3, "size": 2.0, "unused": 0.0},
        metrics={"kind": ["accuracy"], "size": [keras.metrics.R2Score(), "mae"]},
        weighted_metrics={"kind": ["accuracy"], "size": ["mse"]},
        **setting.compile,
    )
    return model


def named() -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Inputs, targets and sample weights by name."""
    x, y = vectors()
    rng = np.random.default_rng(5)
    targets = {"kind": rng.integers(0, 4, ROWS), "size": y[:, :1], "unused": y[:, :2]}
    weights = {name: rng.random(ROWS, dtype=np.float32) for name in targets}
    return {"left": x, "right": y}, targets, weights


def in_lists(setting: Setting, data: Any) -> keras.Model:
    """Inputs and outputs in lists, and one target that is not a mean over rows."""
    inputs = [keras.Input((WIDTH,)), keras.Input((3,))]
    x = layers.Multiply()([layers.Dense(8, activation="tanh")(each) for each in inputs])
    model = keras.Model(inputs, [layers.Dense(3)(x), layers.Dense(3)(x)])
    model.compile(
        optimizer(),
        loss=["mse", keras.losses.CosineSimilarity(reduction="sum")],
        loss_weights=[1.0, 0.05],
        metrics=[["mae"], ["cosine_similarity"]],
        **setting.compile,
    )
    return model


def listed() -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
    """Inputs, targets and sample weights in lists."""
    x, y = vectors()
    weight = np.linspace(0, 1, ROWS, dtype=np.float32)
    return [x, y], [y, y[:, ::-1].copy()], [weight, weight[::-1].copy()]


class TwoTowers(keras.Model):
    """A subclassed model, built by its first batch: every query against every item of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.queries = layers.Dense(5, activation="tanh")
        self.items = layers.Dense(5, activation="tanh")

    def call(self, inputs: Any) -> Any:
        return self.queries(inputs["query"]), self.items(inputs["item"])

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        query, item = y_pred
        scores = ops.matmul(query, ops.transpose(item))
        return ops.mean(ops.logsumexp(scores, axis=1) - ops.diagonal(scores))


def towers(setting: Setting, data: Any) -> Facts:
    """Trains without targets."""
    with setting.scope():
        model = TwoTowers()
        model.compile(optimizer(), **setting.compile)
    x, y = data
    fitted = model.fit(
        {"query": x, "item": y}, epochs=2, verbose=0, shuffle=False, batch_size=BATCH
    )
    inputs = {"query": x[::-1].copy(), "item": y}
    return {
        **facts_of(fitted),
        **predictions_of(model, inputs, batch_size=BATCH),
        **weights_of(model),
    }


# ---- steps of one's own


class OwnStep(keras.Model):
    """A training step and a test step as in Keras's guide for JAX, with metrics of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.network = perceptron(WIDTH, 3)
        self.error = keras.metrics.MeanAbsoluteError(name="error")
        self.seen = keras.metrics.Mean(name="seen")

    @property
    def metrics(self) -> list[keras.Metric]:
        return [self.seen, self.error]

    def call(self, x: Any, training: bool = False) -> Any:
        return self.network(x, training=training)

    def measured(self, values: Any, loss: Any, y: Any, y_pred: Any) -> tuple[Any, Any]:
        split = len(self.seen.variables)
        seen = self.seen.stateless_update_state(values[:split], loss)
        error = self.error.stateless_update_state(values[split:], y, y_pred)
        logs = {
            "seen": self.seen.stateless_result(seen),
            "error": self.error.stateless_result(error),
        }
        return logs, [*seen, *error]

    def train_step(self, state: Any, data: Any) -> Any:
        trainable, non_trainable, slots, metrics = state
        x, y = data[:2]

        def loss_of(trainable: Any) -> Any:
            y_pred, after = self.stateless_call(trainable, non_trainable, x, training=True)
            return ops.mean((y_pred - y) ** 2) + 0.1 * ops.std(ops.mean(y_pred, 1)), (y_pred, after)

        (loss, (y_pred, after)), grads = jax.value_and_grad(loss_of, has_aux=True)(trainable)
        trainable, slots = self.optimizer.stateless_apply(slots, grads, trainable)
        logs, metrics = self.measured(metrics, loss, y, y_pred)
        return logs, (trainable, after, slots, metrics)

    def test_step(self, state: Any, data: Any) -> Any:
        trainable, non_trainable, metrics = state
        x, y = data[:2]
        y_pred, non_trainable = self.stateless_call(trainable, non_trainable, x, training=False)
        logs, metrics = self.measured(metrics, ops.mean(y_pred**2), y, y_pred)
        return logs, (trainable, non_trainable, metrics)


def own_step(setting: Setting, data: Any) -> keras.Model:
    """Builds `OwnStep`."""
    model = OwnStep()
    model.compile(optimizer(), **setting.compile)
    return model


class Adversarial(keras.Model):
    """A GAN in one step: the generator goes up where the discriminator goes down."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = perceptron(3, WIDTH, name="generator")
        self.discriminator = perceptron(WIDTH, 1, name="discriminator")
        self.built = True

    def call(self, noise: Any) -> Any:
        return self.generator(noise)

    def train_step(self, state: Any, data: Any) -> Any:
        trainable, non_trainable, slots, metrics = state
        real, noise = data[:2]
        count = len(self.generator.trainable_variables)

        def scores(critic: Any, rows: Any) -> Any:
            return self.discriminator.stateless_call(critic, [], rows)[0]

        def discriminated(critic: Any, made: Any) -> Any:
            right = ops.softplus(-scores(critic, real))
            return ops.mean(right) + ops.mean(ops.softplus(scores(critic, made)))

        def deceived(maker: Any, critic: Any) -> Any:
            made, _ = self.generator.stateless_call(maker, [], noise)
            return ops.mean(ops.softplus(-scores(critic, made))), made

        maker, critic = trainable[:count], trainable[count:]
        (deceit, made), up = jax.value_and_grad(deceived, has_aux=True)(maker, critic)
        loss, down = jax.value_and_grad(discriminated)(critic, jax.lax.stop_gradient(made))
        trainable, slots = self.optimizer.stateless_apply(slots, [*up, *down], trainable)
        logs = {"generator": deceit, "discriminator": loss}
        return logs, (trainable, non_trainable, slots, metrics)


def adversarial_step(setting: Setting, data: Any) -> Facts:
    """Trains a GAN by a step of its own; logs are those of the last step."""
    with setting.scope():
        model = Adversarial()
        model.compile(optimizer(), **setting.compile)
    real, noise = data
    fitted = model.fit(real, noise, epochs=3, verbose=0, shuffle=False, batch_size=BATCH)
    return {
        **facts_of(fitted),
        **predictions_of(model, noise, batch_size=BATCH),
        **weights_of(model),
    }


def adversarial_loop(setting: Setting, data: Any) -> Facts:
    """Trains a GAN by two models' `train_on_batch`, the discriminator frozen in the second."""
    with setting.scope():
        generator = perceptron(3, WIDTH, name="generator")
        discriminator = perceptron(WIDTH, 1, name="discriminator")
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        discriminator.compile(optimizer(), loss, **setting.compile)
        discriminator.trainable = False
        both = keras.Sequential([keras.Input((3,)), generator, discriminator])
        both.compile(optimizer(), loss, **setting.compile)
    losses = []
    for real, noise in batches(data) * 2:
        made = generator.predict_on_batch(noise)
        ones, zeros = np.ones((len(real), 1), "f4"), np.zeros((len(real), 1), "f4")
        discriminator.trainable = True
        losses.append(
            discriminator.train_on_batch(
                np.concatenate([real, made]), np.concatenate([ones, zeros])
            )
        )
        discriminator.trainable = False
        losses.append(both.train_on_batch(noise, ones))
    return {"losses": np.array(losses), **weights_of(generator, discriminator)}


def adversarial_data() -> tuple[np.ndarray, np.ndarray]:
    """Real rows and noise."""
    x, _ = vectors()
    return x, np.random.default_rng(9).normal(size=(ROWS, 3)).astype(np.float32)


# ---- teachers


class Distiller(keras.Model):
    """A student that learns from targets and from a frozen teacher, as in Keras's example."""

    def __init__(self, student: keras.Model, teacher: keras.Model) -> None:
        super().__init__()
        self.student, self.teacher = student, teacher
        teacher.trainable = False
        self.divergence = keras.losses.KLDivergence()

    def call(self, x: Any, training: bool = False) -> Any:
        return self.student(x, training=training)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        own = super().compute_loss(x, y, y_pred, sample_weight)
        taught = ops.softmax(self.teacher(x, training=False) / 2)
        return 0.3 * own + 0.7 * self.divergence(taught, ops.softmax(y_pred / 2))


def distilled(setting: Setting, data: Any) -> keras.Model:
    """Builds a `Distiller`."""
    model = Distiller(perceptron(WIDTH, 3, name="student"), perceptron(WIDTH, 3, name="teacher"))
    model.compile(optimizer(), "mse", metrics=["mae"], **setting.compile)
    return model


def deep_q(setting: Setting, data: Any) -> Facts:
    """Targets from a network that follows; the batch's arrays are numpy's."""
    with setting.scope():
        network, followed = perceptron(WIDTH, 3), perceptron(WIDTH, 3)
        network.compile(optimizer(), keras.losses.Huber(), **setting.compile)
    followed.set_weights(network.get_weights())
    losses = []
    for x, reward in batches(data) * 2:
        best = followed.predict_on_batch(x[:, ::-1].copy()).max(axis=1, keepdims=True)
        losses.append(network.train_on_batch(x, (reward + 0.9 * best).astype(np.float32)))
        for theirs, own in zip(followed.weights, network.weights, strict=True):
            theirs.assign(0.5 * theirs + 0.5 * own)
    tested = network.test_on_batch(*data)
    return {"losses": np.array(losses), "tested": np.array(tested), **weights_of(network, followed)}


def taught_by_batches(setting: Setting, data: Any) -> Facts:
    """What a teacher says, as arrays of JAX where its model lies, given to `train_on_batch`."""
    with setting.scope():
        teacher, student = perceptron(WIDTH, 3), perceptron(WIDTH, 3)
        student.compile(optimizer(), "mse", metrics=["mae"], **setting.compile)
    said = []
    for x, _ in batches(data) * 2:
        said.append(student.train_on_batch(x, teacher(x)))
    x, _ = data
    said.append(student.test_on_batch(x, teacher(x)))
    predicted = np.asarray(student.predict_on_batch(teacher(x) @ np.ones((3, WIDTH), "f4")))
    return {"said": np.array(said), "predicted": predicted, **weights_of(student)}


def adversarial_arrays(setting: Setting, data: Any) -> Facts:
    """A GAN whose generator is called, and not asked to predict: its rows stay arrays of JAX."""
    with setting.scope():
        generator = perceptron(3, WIDTH, name="generator")
        discriminator = perceptron(WIDTH, 1, name="discriminator")
        loss = keras.losses.BinaryCrossentropy(from_logits=True)
        discriminator.compile(optimizer(), loss, **setting.compile)
    losses = []
    for real, noise in batches(data) * 2:
        rows = ops.concatenate([real, generator(noise)])
        targets = ops.concatenate([ops.ones((len(real), 1)), ops.zeros((len(real), 1))])
        losses.append(discriminator.train_on_batch(rows, targets))
    return {"losses": np.array(losses), **weights_of(discriminator)}


class Centred(layers.Layer):
    """Subtracts the mean over the rows of all replicas, as the guide says to."""

    def call(self, x: Any) -> Any:
        context = get_replica_context()
        total, rows = context.all_reduce("SUM", (ops.sum(x, 0), ops.shape(x)[0]))
        return x - total / ops.cast(rows, x.dtype)


def across_rows(setting: Setting, data: Any) -> keras.Model:
    """A model with a layer that looks across rows."""
    model = keras.Sequential(
        [keras.Input((WIDTH,)), layers.Dense(5, activation="tanh"), Centred(), layers.Dense(3)]
    )
    model.compile(optimizer(), "mse", metrics=["mae"], **setting.compile)
    return model


# ---- adaptation and quantization


def adaptable(setting: Setting) -> keras.Model:
    """A model whose layers can be adapted and quantized."""
    model = keras.Sequential(
        [
            keras.Input((4,), dtype="int32"),
            layers.Embedding(9, 8),
            layers.EinsumDense("abc,cd->abd", output_shape=(4, 8), activation="tanh"),
            layers.Flatten(),
            layers.Dense(12, activation="tanh"),
            layers.Dense(3),
        ]
    )
    model.compile(optimizer(), "mse", metrics=["mae"], **setting.compile)
    return model


def numbers() -> tuple[np.ndarray, np.ndarray]:
    """Numbers of words and targets."""
    return np.random.default_rng(1).integers(0, 9, (ROWS, 4)), vectors()[1]


def fitted(model: keras.Model, data: Any, prefix: str, epochs: int = 1) -> Facts:
    """Fits, and says how it went."""
    x, y = data
    options = {"epochs": epochs, "verbose": 0, "shuffle": False, "batch_size": BATCH}
    return facts_of(model.fit(x, y, **options), prefix)


def evaluated(model: keras.Model, data: Any, prefix: str) -> Facts:
    """Evaluates and predicts."""
    score = model.evaluate(*data, batch_size=BATCH, verbose=0)
    predicted = predictions_of(model, data[0], batch_size=BATCH)
    return {
        f"{prefix}score": np.array(score),
        **{f"{prefix}{name}": value for name, value in predicted.items()},
    }


def low_rank(setting: Setting, data: Any) -> Facts:
    """LoRA: trained, adapted in a few ranks, trained again."""
    with setting.scope():
        model = adaptable(setting)
    facts = fitted(model, data, "before ")
    for layer in model.layers:
        if hasattr(layer, "enable_lora"):
            layer.enable_lora(2)
    model.compile(optimizer(), "mse", metrics=["mae"], **setting.compile)
    facts |= fitted(model, data, "adapted ", epochs=2)
    return {**facts, **evaluated(model, data, "adapted "), **weights_of(model)}


def quantize(model: keras.Model, mode: str) -> None:
    """Quantize the layers that can be; Keras warns of each of the others."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Layer .* does not have a `quantize` method")
        model.quantize(mode)


def quantized(mode: str, *, adapted: bool = False) -> Program:
    """Trained, quantized, evaluated; and adapted by LoRA after it."""

    def program(setting: Setting, data: Any) -> Facts:
        with setting.scope():
            model = adaptable(setting)
        facts = fitted(model, data, "before ") | evaluated(model, data, "before ")
        quantize(model, mode)
        facts |= evaluated(model, data, f"{mode} ")
        if adapted:
            for layer in model.layers:
                if hasattr(layer, "enable_lora"):
                    layer.enable_lora(2)
            model.compile(optimizer(), "mse", metrics=["mae"], **setting.compile)
            facts |= fitted(model, data, "adapted ", epochs=2)
            facts |= evaluated(model, data, "adapted ")
        return facts | weights_of(model)

    return program


def in_float8(setting: Setting, data: Any) -> Facts:
    """Trained in float8, whose scales follow the largest values seen."""
    with setting.scope():
        model = perceptron(WIDTH, 3)
        quantize(model, "float8")
        model.compile(optimizer(), "mse", **setting.compile)
    return {**fitted(model, data, ""), **evaluated(model, data, ""), **weights_of(model)}


TRAININGS = {
    "inputs and outputs by name": Case(
        fit_evaluate_predict(by_name), named, quick=("2 replicas, 3 steps at once",)
    ),
    "inputs and outputs in lists": Case(fit_evaluate_predict(in_lists), listed),
    "negatives from the batch": Case(towers, vectors),
    "own steps": Case(fit_evaluate_predict(own_step), vectors),
    "GAN, own step": Case(adversarial_step, adversarial_data),
    "GAN, two models": Case(adversarial_loop, adversarial_data, quick=("2 replicas",)),
    "distillation": Case(fit_evaluate_predict(distilled), vectors, quick=("2 processes",)),
    "DQN": Case(deep_q, vectors),
    "a teacher's arrays": Case(taught_by_batches, vectors),
    "a generator's arrays": Case(adversarial_arrays, adversarial_data),
    "a layer across rows": Case(fit_evaluate_predict(across_rows), vectors),
    "LoRA": Case(low_rank, numbers, quick=("4 replicas",)),
    "int8": Case(quantized("int8"), numbers, quick=("2 replicas",)),
    "int4": Case(quantized("int4"), numbers),
    "int8 with LoRA": Case(quantized("int8", adapted=True), numbers),
    "float8": Case(in_float8, vectors, quick=("2 replicas",)),
}
