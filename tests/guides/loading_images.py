"""TensorFlow's tutorial "Load images".

What differs: files made here instead of downloads, no model, and no pictures.
"""

import os
import pathlib

import drumline as dl  # isort: skip  (it selects Keras's JAX backend)
import jax.numpy as jnp
import numpy as np
from keras import layers


def section(name):
    print(f"== {name}")


def make_files():
    """What the tutorial downloads."""
    for kind, level in {"daisy": 40, "roses": 120, "tulips": 200}.items():
        (data_dir / kind).mkdir(parents=True)
        for i in range(10):
            image = np.full((30 + i, 40, 3), level, np.uint8)
            (data_dir / kind / f"{i}.jpg").write_bytes(dl.image.encode_jpeg(image))
    (data_dir / "LICENSE.txt").write_text("of the photographs")


data_dir = pathlib.Path("flower_photos")
make_files()
image_count = len(list(data_dir.glob("*/*.jpg")))
print(image_count)

section("Using a Keras utility")
batch_size = 8
img_height = 18
img_width = 18
train_ds = dl.datasets.image_dataset_from_directory(
    data_dir,
    validation_split=0.2,
    subset="training",
    seed=123,
    image_size=(img_height, img_width),
    batch_size=batch_size,
)
val_ds = dl.datasets.image_dataset_from_directory(
    data_dir,
    validation_split=0.2,
    subset="validation",
    seed=123,
    image_size=(img_height, img_width),
    batch_size=batch_size,
)
class_names = train_ds.class_names
print(class_names)
for images, labels in train_ds.take(1):
    for i in range(3):
        print(images[i].astype("uint8").max() // 41, class_names[labels[i]])
for image_batch, labels_batch in train_ds:
    print(image_batch.shape)
    print(labels_batch.shape)
    break
normalization_layer = layers.Rescaling(1.0 / 255)
normalized_ds = train_ds.map(lambda x, y: (normalization_layer(x), y))
image_batch, labels_batch = next(iter(normalized_ds))
first_image = image_batch[0]
# Notice the pixels values are now in `[0,1]`.
print("normalized", 0 <= np.min(first_image) <= np.max(first_image) <= 1)
AUTOTUNE = dl.data.AUTOTUNE
train_ds = train_ds.cache().prefetch(buffer_size=AUTOTUNE)
val_ds = val_ds.cache().prefetch(buffer_size=AUTOTUNE)
section("Using dl.data for finer control")
list_ds = dl.data.Dataset.list_files(str(data_dir / "*/*"), shuffle=False)
list_ds = list_ds.shuffle(image_count, reshuffle_each_iteration=False, seed=1)
for f in list_ds.take(2):
    print(os.path.dirname(f.decode()) in {str(data_dir / name) for name in class_names})
class_names = np.array(
    sorted([item.name for item in data_dir.glob("*") if item.name != "LICENSE.txt"])
)
print(class_names)
val_size = int(image_count * 0.2)
train_ds = list_ds.skip(val_size)
val_ds = list_ds.take(val_size)
print(dl.data.Dataset.cardinality(train_ds))
print(dl.data.Dataset.cardinality(val_ds))


def get_label(file_path):
    # Convert the path to a list of path components
    parts = dl.strings.split(file_path, os.path.sep)
    # The second to last is the class-directory
    one_hot = parts[-2] == class_names
    # Integer encode the label
    return jnp.argmax(one_hot)


def decode_img(img):
    # Convert the compressed string to a 3D uint8 tensor
    img = dl.image.decode_jpeg(img, channels=3)
    # Resize the image to the desired size
    return dl.image.resize(img, [img_height, img_width])


def process_path(file_path):
    label = get_label(file_path)
    # Load the raw data from the file as a string
    img = dl.io.read_file(file_path)
    img = decode_img(img)
    return img, label


# Set `num_parallel_calls` so multiple images are loaded/processed in parallel.
train_ds = train_ds.map(process_path, num_parallel_calls=AUTOTUNE)
val_ds = val_ds.map(process_path, num_parallel_calls=AUTOTUNE)
for image, label in train_ds.take(1):
    print("Image shape: ", image.shape)
    print("Label: ", label.dtype)
for image, label in train_ds:
    print("labelled", [40, 120, 200][label] == round(float(image.mean())))
print("as Python", "runs as Python" in train_ds.explain())


def configure_for_performance(ds):
    ds = ds.cache()
    ds = ds.shuffle(buffer_size=1000)
    ds = ds.batch(batch_size)
    ds = ds.prefetch(buffer_size=AUTOTUNE)
    return ds


train_ds = configure_for_performance(train_ds)
val_ds = configure_for_performance(val_ds)
image_batch, label_batch = next(iter(train_ds))
print(image_batch.shape, class_names[label_batch[0]] in class_names)
