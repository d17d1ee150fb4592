"""A decoder layer of MaxText's models of 16B, 32B or 64B parameters, to be planned for one v5e.

    drumline plan --on tpu-v5e-1 tests/plan/published/maxtext_layer.py 16

As in MaxText's ``configs/v5e/16b.sh`` (``32b.sh``, ``64b.sh``): 4,096 (8,192) wide, 64 heads of
128, a gated MLP of 28,672, 6 (4, 2) sequences of 2,048 tokens, and everything computed again for
the gradient. Weights are in bfloat16, as each of 256 chips gathers them: of those in float32, and
of their update, it has a 256th. Attention is Keras's, which takes its kernel for TPUs there. The
small one is for tests.
"""

import sys

import drumline as dl  # before Keras, whose backend it selects

# isort: split
import jax
import keras
import numpy as np

WIDTH, HEADS, HIDDEN, TOKENS, ROWS = {
    "16": (4096, 64, 28672, 2048, 6),
    "32": (8192, 64, 28672, 2048, 4),
    "64": (8192, 64, 28672, 2048, 2),
    "small": (256, 2, 1024, 512, 1),
}[sys.argv[1]]
HEAD = 128


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
        return decoder(x, *(w.value for w in self.kernels))


keras.config.set_dtype_policy("bfloat16")
strategy = dl.distribute.OneDeviceStrategy("cpu:0")
with strategy.scope():
    inputs = keras.Input((TOKENS, WIDTH))
    model = keras.Model(inputs, Decoder(name="decoder")(inputs))
    model.compile("sgd", "mse")
x = np.zeros((ROWS, TOKENS, WIDTH), jax.numpy.bfloat16)
model.fit(x, x, batch_size=ROWS, verbose=0)
