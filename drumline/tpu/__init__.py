"""TPUs: their initialization, and the places of their cores, as ``tf.tpu`` has them.

`drumline.distribute.TPUStrategy` trains on them.
"""

from drumline.tpu import experimental

__all__ = ["experimental"]
