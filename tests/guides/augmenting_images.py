"""TensorFlow's tutorial "Data augmentation", without the parts on Keras's layers.

What differs: files made here instead of downloads, no model, and no pictures.
"""

import jax.numpy as jnp
import numpy as np

import drumline as dl

AUTOTUNE = dl.data.AUTOTUNE
batch_size = 8
for i in range(10):
    with open(f"{i}.jpg", "wb") as file:
        file.write(dl.image.encode_jpeg(np.full((30 + i, 40, 3), 90, np.uint8)))
print("== Using dl.image")
IMG_SIZE = 18
raw_train_ds = dl.data.Dataset.list_files("*.jpg").map(
    lambda path: (dl.image.decode_jpeg(dl.io.read_file(path), channels=3), 1)
)
image, label = next(iter(raw_train_ds))
flipped = dl.image.flip_left_right(image)
grayscaled = dl.image.rgb_to_grayscale(image)
print(np.squeeze(grayscaled).ndim)
saturated = dl.image.adjust_saturation(image, 3)
bright = dl.image.adjust_brightness(image, 0.4)
cropped = dl.image.central_crop(image, central_fraction=0.5)
rotated = dl.image.rot90(image)
print(rotated.shape == image.shape[1::-1] + (3,), cropped.shape[1], bright.dtype)


def resize_and_rescale(image, label):
    image = image.astype(np.float32)
    image = dl.image.resize(image, [IMG_SIZE, IMG_SIZE])
    image = image / 255.0
    return image, label


def augment(image, label):
    image, label = resize_and_rescale(image, label)
    image = dl.image.resize_with_crop_or_pad(image, IMG_SIZE + 6, IMG_SIZE + 6)
    # Random crop back to the original size.
    image = dl.image.random_crop(image, size=[IMG_SIZE, IMG_SIZE, 3])
    # Random brightness.
    image = dl.image.random_brightness(image, max_delta=0.5)
    image = jnp.clip(image, 0, 1)
    return image, label


augmented_ds = (
    raw_train_ds.shuffle(1000)
    .map(augment, num_parallel_calls=AUTOTUNE)
    .batch(batch_size)
    .prefetch(AUTOTUNE)
)
for images, _ in augmented_ds.take(1):
    print("augmented", images.shape, images.dtype, 0 <= images.min() <= images.max() <= 1)
