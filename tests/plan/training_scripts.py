"""Training scripts as users write them, to be planned; each may train for real, too."""

from __future__ import annotations

_MODEL = """
import sys
import drumline as dl
import keras
import numpy as np

strategy = {strategy}
with strategy.scope():
    model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(64, "relu"),
                              keras.layers.Dense(10, name="last")])
rows = 16 * strategy.num_replicas_in_sync
data = (np.zeros((1024, 20), "float32"), np.zeros(1024, "int32"))
dataset = dl.data.Dataset.from_tensor_slices(data).repeat().batch(rows, drop_remainder=True)
"""
FIT = (
    _MODEL
    + """
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
              metrics=["accuracy"])
print("evaluated", model.evaluate(dataset.take(2), verbose=0))
try:
    model.fit(dataset, epochs=2, steps_per_epoch=4, verbose=0)
except Exception:
    pass  # a script's own handler, which must not take the end of planning
print("NEVER")
"""
)
LOOP = (
    _MODEL
    + """
with strategy.scope():
    optimizer = keras.optimizers.Adam()
    seen = keras.metrics.Mean()
loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=None)
batches = strategy.experimental_distribute_dataset(dataset.take(3))

def train_step(batch):
    x, y = batch
    with dl.GradientTape() as tape:
        loss = dl.nn.compute_average_loss(loss_of(y, model(x)), global_batch_size=rows)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

def test_step(batch):
    seen.update_state(loss_of(batch[1], model(batch[0])))
    return loss_of(batch[1], model(batch[0])).mean()

for batch in batches:
    tested = strategy.reduce("MEAN", strategy.run(test_step, args=(batch,)), axis=None)
print("tested", float(tested), float(seen.result()))
kind = sys.argv[1]
if kind == "function":
    step = dl.function(lambda b: strategy.reduce("SUM", strategy.run(train_step, (b,)), axis=None))
    for batch in batches:
        step(batch)
elif kind == "staged":
    @dl.function
    def epoch(batches):
        total = 0.0
        for batch in batches:
            total += strategy.reduce("SUM", strategy.run(train_step, args=(batch,)), axis=None)
        return total
    epoch(batches)
else:
    for batch in batches:
        strategy.run(train_step, args=(batch,))
print("NEVER")
"""
)
MIRRORED = "dl.distribute.MirroredStrategy()"
FROM_FUNCTION = FIT.replace(
    "model.fit(dataset,",
    "model.fit(strategy.distribute_datasets_from_function(lambda context: "
    "dl.data.Dataset.from_tensor_slices(data).repeat().batch("
    "context.get_per_replica_batch_size(rows))),",
)


def script(text: str, strategy: str = MIRRORED) -> str:
    """The text of a script with a strategy."""
    return text.replace("{strategy}", strategy)
