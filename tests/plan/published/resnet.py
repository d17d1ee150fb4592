"""ResNet-50 on ImageNet's shapes, as Keras has it, to be planned for GPUs.

    drumline plan --on gpu-h100-8 tests/plan/published/resnet.py 256

Images of 224 x 224 in bfloat16, SGD with momentum. The argument is the number of images a GPU.
"""

import sys

import drumline as dl  # before Keras, whose backend it selects

# isort: split
import keras
import numpy as np

keras.config.set_dtype_policy("mixed_bfloat16")
strategy = dl.distribute.MirroredStrategy()
with strategy.scope():
    model = keras.applications.ResNet50(weights=None, classifier_activation=None)
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
rows = int(sys.argv[1]) * strategy.num_replicas_in_sync
images = np.broadcast_to(np.zeros((1, 1, 1, 1), "float32"), (rows, 224, 224, 3))
model.fit(images, np.zeros(rows, "int32"), batch_size=rows, verbose=0)
