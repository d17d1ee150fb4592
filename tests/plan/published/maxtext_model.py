"""MaxText's models of 16B, 32B or 64B parameters, whole, to be planned for 256 v5e.

    drumline plan --on tpu-v5e-256 tests/plan/published/maxtext_model.py 16

As in MaxText's ``configs/v5e/16b.sh`` (``32b.sh``, ``64b.sh``): an embedding of 32,000 tokens,
32 (32, 64) layers 4,096 (8,192) wide with 64 heads of 128 and a gated MLP of 28,672, logits, and
Adam; 6 (4, 2) sequences of 2,048 tokens a chip, each layer computed again for its gradient. Weights
are in float32, computed with in bfloat16, and cut over the chips with their slots, as MaxText's
are (FSDP). Attention is Keras's, without a mask: in a trace Keras takes its kernel for TPUs only
so, and the kernel does not skip what a mask leaves out of each row. A second argument is the number
of layers, in the place of the model's. The small one is for tests.
"""

import sys

import drumline as dl  # before Keras, whose backend it selects

# isort: split
import jax
import keras
import numpy as np

WIDTH, HEADS, HIDDEN, TOKENS, ROWS, LAYERS, WORDS = {
    "16": (4096, 64, 28672, 2048, 6, 32, 32000),
    "32": (8192, 64, 28672, 2048, 4, 32, 32000),
    "64": (8192, 64, 28672, 2048, 2, 64, 32000),
    "small": (256, 2, 1024, 512, 1, 2, 512),
}[sys.argv[1]]
HEAD = 128
LAYERS = int(sys.argv[2]) if len(sys.argv) > 2 else LAYERS


def normalized(x):
    mean = jax.numpy.mean(jax.numpy.square(x.astype("float32")), -1, keepdims=True)
    return x * jax.lax.rsqrt(mean + 1e-6).astype(x.dtype)


@jax.checkpoint
def decoder(x, query, key, value, out, up, gate, down):
    h = normalized(x)
    heads = [jax.numpy.einsum("btd,dhk->bthk", h, w) for w in (query, key, value)]
    attended = keras.ops.dot_product_attention(*heads)
    x = x + jax.numpy.einsum("bthk,hkd->btd", attended, out)
    h = normalized(x)
    return x + (jax.nn.silu(h @ up) * (h @ gate)) @ down


class Decoder(keras.layers.Layer):
    def build(self, shape):
        into, out = (WIDTH, HEADS, HEAD), (HEADS, HEAD, WIDTH)
        shapes = (into, into, into, out, (WIDTH, HIDDEN), (WIDTH, HIDDEN), (HIDDEN, WIDTH))
        self.kernels = [self.add_weight(shape=s, initializer="zeros") for s in shapes]

    def call(self, x):
        return decoder(x, *(keras.ops.cast(w, self.compute_dtype) for w in self.kernels))


class Logits(keras.layers.Layer):
    def build(self, shape):
        self.kernel = self.add_weight(shape=(WIDTH, WORDS), initializer="zeros")

    def call(self, x):
        return normalized(x) @ keras.ops.cast(self.kernel, self.compute_dtype)


keras.config.set_dtype_policy("mixed_bfloat16")
strategy = dl.distribute.MirroredStrategy(shard="parameters")
with strategy.scope():
    inputs = keras.Input((TOKENS,), dtype="int32")
    x = keras.layers.Embedding(WORDS, WIDTH, name="embedding")(inputs)
    for number in range(LAYERS):
        x = Decoder(name=f"decoder_{number}")(x)
    model = keras.Model(inputs, Logits(name="logits")(x))
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
rows = ROWS * strategy.num_replicas_in_sync
tokens = np.zeros((rows, TOKENS), "int32")
print(f"{model.count_params():,} parameters")
model.fit(tokens, tokens, batch_size=rows, verbose=0)
