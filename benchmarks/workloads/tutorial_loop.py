"""The custom training loop of TensorFlow's tutorials, for drumline and TensorFlow alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness.loops import Loop
from benchmarks.harness.workload import Scale
from benchmarks.workloads.convnet import make_examples


def tutorial_loop(
    dl: Any,
    keras: Any,
    strategy: Any,
    build_model: Callable[[Any], Any],
    scale: Scale,
    *,
    in_step: Callable[[Any, Any], None] | None = None,
    after_step: Callable[[Any, int], None] | None = None,
) -> Callable[[], Loop]:
    """The tutorial's loop; `dl` is drumline or TensorFlow, which it names alike.

    Args:
        dl, keras: the modules.
        strategy: under which to train.
        build_model: makes the model of the ``keras`` module, with its initial weights.
        scale: its batch is the global one.
        in_step: called by each replica's step, with its loss and the optimizer.
        after_step: called by the loop after each step, with the loss and the step's number.
    """
    examples = make_examples(scale.elements)
    size = scale.batch_size

    def build() -> Loop:
        dataset = dl.data.Dataset.from_tensor_slices(examples).batch(size)
        distributed = strategy.experimental_distribute_dataset(dataset)
        with strategy.scope():
            losses = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
            model = build_model(keras)
            optimizer = keras.optimizers.Adam(learning_rate=0.001)
            optimizer.build(model.trainable_variables)
            accuracy = keras.metrics.SparseCategoricalAccuracy()

        def train_step(inputs: Any) -> Any:
            images, labels = inputs
            with dl.GradientTape() as tape:
                predictions = model(images, training=True)
                per_example = losses(labels, predictions)
                loss = dl.nn.compute_average_loss(per_example, global_batch_size=size)
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
            accuracy.update_state(labels, predictions)
            if in_step is not None:
                in_step(loss, optimizer)
            return loss

        @dl.function
        def distributed_train_step(inputs: Any) -> Any:
            per_replica = strategy.run(train_step, args=(inputs,))
            return strategy.reduce(dl.distribute.ReduceOp.SUM, per_replica, axis=None)

        def epoch() -> tuple[float, int]:
            total, steps = 0.0, 0
            for batch in distributed:
                loss = distributed_train_step(batch)
                total += loss
                if after_step is not None:
                    after_step(loss, steps)
                steps += 1
            return float(np.asarray(total)) / steps, steps

        return Loop(model.get_weights, epoch)

    return build
