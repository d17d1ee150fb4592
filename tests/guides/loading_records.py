"""TensorFlow's tutorial "TFRecord and tf.train.Example".

What differs: an image made here instead of downloads, and fewer rows.
"""

import pathlib

import numpy as np

import drumline as dl


def section(name):
    print(f"== {name}")


section("tf.train.Example")


def _bytes_feature(value):
    """Returns a bytes_list from a string / byte."""
    return dl.train.Feature(bytes_list=dl.train.BytesList(value=[value]))


def _float_feature(value):
    """Returns a float_list from a float / double."""
    return dl.train.Feature(float_list=dl.train.FloatList(value=[value]))


def _int64_feature(value):
    """Returns an int64_list from a bool / enum / int / uint."""
    return dl.train.Feature(int64_list=dl.train.Int64List(value=[value]))


print(_bytes_feature(b"test_string"))
print(_bytes_feature(b"test_bytes"))
print(_float_feature(np.exp(1)))
print(_int64_feature(True))
print(_int64_feature(1))
feature = _float_feature(np.exp(1))
print(feature.SerializeToString())

# The number of observations in the dataset.
n_observations = int(1e2)
# Boolean feature, encoded as False or True.
feature0 = np.random.default_rng(0).choice([False, True], n_observations)
# Integer feature, random from 0 to 4.
feature1 = np.random.default_rng(1).integers(0, 5, n_observations)
# String feature.
strings = np.array([b"cat", b"dog", b"chicken", b"horse", b"goat"])
feature2 = strings[feature1]
# Float feature, from a standard normal distribution.
feature3 = np.random.default_rng(2).normal(size=n_observations)


def serialize_example(feature0, feature1, feature2, feature3):
    """Creates a tf.train.Example message ready to be written to a file."""
    # Create a dictionary mapping the feature name to the tf.train.Example-compatible
    # data type.
    feature = {
        "feature0": _int64_feature(feature0),
        "feature1": _int64_feature(feature1),
        "feature2": _bytes_feature(feature2),
        "feature3": _float_feature(feature3),
    }
    # Create a Features message using tf.train.Example.
    example_proto = dl.train.Example(features=dl.train.Features(feature=feature))
    return example_proto.SerializeToString()


serialized_example = serialize_example(False, 4, b"goat", 0.9876)
print(serialized_example)
example_proto = dl.train.Example.FromString(serialized_example)
print(example_proto)

section("Writing a TFRecord file")
print(dl.data.Dataset.from_tensor_slices(feature1))
features_dataset = dl.data.Dataset.from_tensor_slices((feature0, feature1, feature2, feature3))
print(features_dataset)
# Use `take(1)` to only pull one example from the dataset.
for f0, f1, f2, f3 in features_dataset.take(1):
    print(f0 == feature0[0], f1 == feature1[0], f2 == feature2[0], f3 == feature3[0])
# `tf.py_function` is not needed.
serialized_features_dataset = features_dataset.map(serialize_example)
print(serialized_features_dataset)


def generator():
    for features in features_dataset:
        yield serialize_example(*features)


serialized_features_dataset = dl.data.Dataset.from_generator(
    generator, output_types="string", output_shapes=()
)
print(serialized_features_dataset)
filename = "test.tfrecord"
writer = dl.data.experimental.TFRecordWriter(filename)
writer.write(serialized_features_dataset)

section("Reading a TFRecord file")
filenames = [filename]
raw_dataset = dl.data.TFRecordDataset(filenames)
print(raw_dataset)
for raw_record in raw_dataset.take(1):
    print(repr(raw_record)[:30])
# Create a description of the features.
feature_description = {
    "feature0": dl.io.FixedLenFeature([], np.int64, default_value=0),
    "feature1": dl.io.FixedLenFeature([], np.int64, default_value=0),
    "feature2": dl.io.FixedLenFeature([], "string", default_value=""),
    "feature3": dl.io.FixedLenFeature([], np.float32, default_value=0.0),
}


def _parse_function(example_proto):
    # Parse the input `tf.train.Example` proto using the dictionary above.
    return dl.io.parse_single_example(example_proto, feature_description)


parsed_dataset = raw_dataset.map(_parse_function)
print(parsed_dataset)
for i, parsed_record in enumerate(parsed_dataset):
    assert parsed_record["feature1"] == feature1[i]
    assert parsed_record["feature2"] == feature2[i]
print(sorted(parsed_record))

section("TFRecord files in Python")
# Write the `tf.train.Example` observations to the file.
with dl.io.TFRecordWriter(filename) as writer:
    for i in range(n_observations):
        example = serialize_example(feature0[i], feature1[i], feature2[i], feature3[i])
        writer.write(example)
raw_dataset = dl.data.TFRecordDataset([filename])
for raw_record in raw_dataset.take(1):
    example = dl.train.Example()
    example.ParseFromString(raw_record)
    print(example)
result = {}
# example.features.feature is the dictionary
for key, feature in example.features.feature.items():
    # The values are the Feature objects which contain a `kind` which contains:
    # one of three fields: bytes_list, float_list, int64_list
    kind = feature.WhichOneof("kind")
    result[key] = np.array(getattr(feature, kind).value)
print(sorted(result), result["feature1"] == feature1[:1])

section("Reading and writing image data")
cat_in_snow = "cat.jpg"
pathlib.Path(cat_in_snow).write_bytes(dl.image.encode_jpeg(np.full((21, 32, 3), 90, np.uint8)))
image_labels = {cat_in_snow: 0}
# This is an example, just using the cat image.
image_string = pathlib.Path(cat_in_snow).read_bytes()
label = image_labels[cat_in_snow]


# Create a dictionary with features that may be relevant.
def image_example(image_string, label):
    image_shape = dl.image.decode_jpeg(image_string).shape
    feature = {
        "height": _int64_feature(image_shape[0]),
        "width": _int64_feature(image_shape[1]),
        "depth": _int64_feature(image_shape[2]),
        "label": _int64_feature(label),
        "image_raw": _bytes_feature(image_string),
    }
    return dl.train.Example(features=dl.train.Features(feature=feature))


for line in str(image_example(image_string, label)).split("\n")[:5]:
    print(line)
# Write the raw image files to `images.tfrecords`.
record_file = "images.tfrecords"
with dl.io.TFRecordWriter(record_file) as writer:
    for filename, label in image_labels.items():
        image_string = pathlib.Path(filename).read_bytes()
        tf_example = image_example(image_string, label)
        writer.write(tf_example.SerializeToString())
raw_image_dataset = dl.data.TFRecordDataset("images.tfrecords")
# Create a dictionary describing the features.
image_feature_description = {
    "height": dl.io.FixedLenFeature([], np.int64),
    "width": dl.io.FixedLenFeature([], np.int64),
    "depth": dl.io.FixedLenFeature([], np.int64),
    "label": dl.io.FixedLenFeature([], np.int64),
    "image_raw": dl.io.FixedLenFeature([], "string"),
}


def _parse_image_function(example_proto):
    # Parse the input tf.train.Example proto using the dictionary above.
    return dl.io.parse_single_example(example_proto, image_feature_description)


parsed_image_dataset = raw_image_dataset.map(_parse_image_function)
print(parsed_image_dataset)
for image_features in parsed_image_dataset:
    image_raw = image_features["image_raw"]
    print(image_raw == image_string, image_features["height"], image_features["width"])
