"""The synthetic batch: its distribution, where it lies, and that it is made once."""

from __future__ import annotations

import dataclasses
import itertools

import jax
import numpy as np
import pytest

from drumline.cnn.inputs import ImageInputOptions, synthetic

OPTIONS = ImageInputOptions(batch_size=64, image_size=(32, 40))


def test_images_and_labels_have_the_originals_distribution() -> None:
    """The deviation of a normal cut off at two deviations is 0.8796 of it."""
    made = synthetic(OPTIONS)
    images, labels = np.asarray(made.images), np.asarray(made.labels)
    assert images.shape == (64, 32, 40, 3) and images.dtype == np.float32
    assert 7 <= images.min() < 8 and 246 < images.max() <= 247
    assert abs(images.mean() - 127) < 0.5 and abs(images.std() - 60 * 0.8796) < 0.5
    few = dataclasses.replace(OPTIONS, batch_size=1000, image_size=(1, 1), num_classes=5)
    assert labels.dtype == np.int32 and labels.min() >= 0 and labels.max() <= 999
    assert set(np.asarray(synthetic(few).labels)) == {0, 1, 2, 3}


def test_the_same_arrays_come_in_every_step_and_nothing_is_copied() -> None:
    made = synthetic(OPTIONS)
    with jax.transfer_guard("disallow"):
        batches = list(itertools.islice(iter(made), 5))
    assert all(images is made.images and labels is made.labels for images, labels in batches)


def test_it_lies_where_it_is_wanted() -> None:
    devices = jax.devices()[:4]
    mesh = jax.sharding.Mesh(np.array(devices), ("replica",))
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("replica"))
    cut = synthetic(OPTIONS, rows)
    assert cut.images.sharding == rows and cut.labels.sharding == rows
    assert {shard.data.shape for shard in cut.images.addressable_shards} == {(16, 32, 40, 3)}
    assert synthetic(OPTIONS, devices[2]).images.devices() == {devices[2]}
    np.testing.assert_array_equal(cut.images, synthetic(OPTIONS).images)


def test_options_are_followed() -> None:
    changes = {"dtype": "bfloat16", "data_format": "NCHW"}
    made = synthetic(dataclasses.replace(OPTIONS, **changes))
    assert made.images.shape == (64, 3, 32, 40) and made.images.dtype == "bfloat16"
    other = synthetic(dataclasses.replace(OPTIONS, shard_count=2, shard_index=1))
    assert not np.array_equal(other.images, synthetic(OPTIONS).images)
    with pytest.raises(ValueError, match="num_classes must be at least 2, got 1"):
        synthetic(dataclasses.replace(OPTIONS, num_classes=1))
