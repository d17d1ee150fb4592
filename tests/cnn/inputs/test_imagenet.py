"""Batches of ImageNet's records: what comes, in which order, and what is said of bad ones."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import jax.numpy as jnp
import keras
import numpy as np
import pytest

import drumline as dl
from drumline.cnn.inputs import ImageInputOptions, imagenet
from tests.cnn.inputs.record_files import fake, jpegs, record, write
from tests.image.samples import encoded, picture

SIZE = (24, 32)
OPTIONS = ImageInputOptions(batch_size=8, image_size=SIZE, num_epochs=1)
FAKE = "scripts/tf_cnn_benchmarks/test_data/fake_tf_record_data"


def with_options(**changes: object) -> ImageInputOptions:
    return dataclasses.replace(OPTIONS, **changes)


def all_labels(dataset: dl.data.Dataset) -> list[int]:
    return [int(label) for _, labels in dataset for label in labels]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("imagenet")
    fake(made, "train")
    fake(made, "validation", files=2)
    return made


@pytest.mark.parametrize("split", ["train", "validation"])
@pytest.mark.parametrize("changes", [{}, {"dtype": "bfloat16", "data_format": "NCHW"}])
def test_a_batch_is_as_the_model_takes_it(folder: Path, split: str, changes: dict) -> None:
    dataset = imagenet(folder, split, with_options(**changes))
    images, labels = next(iter(dataset))
    height, width = SIZE
    axes = (3, height, width) if changes else (height, width, 3)
    assert images.shape == (8, *axes) and images.dtype == changes.get("dtype", "float32")
    assert labels.dtype == np.int32 and labels.shape == (8,)
    assert images.min() >= -1 and images.max() <= 1 and images.astype(np.float32).std() > 0.2


def test_no_python_runs_for_an_image(folder: Path) -> None:
    for split, changes in (("train", {"distortions": True}), ("validation", {})):
        said = imagenet(folder, split, with_options(**changes)).explain()
        line = next(line for line in said.splitlines() if "map prepare" in line)
        assert "native" in line and "Python" not in line and "row by row" not in line


def test_every_record_comes_once_an_epoch(folder: Path) -> None:
    assert sorted(all_labels(imagenet(folder, "train", OPTIONS))) == list(range(1, 25))
    twice = all_labels(imagenet(folder, "train", with_options(num_epochs=2)))
    first, second = twice[:24], twice[24:]
    assert sorted(first) == sorted(second) == list(range(1, 25)) and first != second
    # Evaluation is in the files' order, one record of each by turns.
    assert all_labels(imagenet(folder, "validation", with_options(batch_size=6))) == [*range(1, 13)]
    endless = iter(imagenet(folder, "validation", with_options(num_epochs=None)))
    assert sum(len(next(endless)[1]) for _ in range(20)) == 160


def test_a_batch_that_is_not_full_is_left_out_unless_it_is_wanted(folder: Path) -> None:
    assert len(all_labels(imagenet(folder, "train", with_options(batch_size=7)))) == 21
    kept = with_options(batch_size=7, drop_remainder=False)
    assert len(all_labels(imagenet(folder, "train", kept))) == 24


def test_the_seed_decides(folder: Path) -> None:
    def epoch(**changes: object) -> list[np.ndarray]:
        options = with_options(distortions=True, **changes)
        return [value for batch in imagenet(folder, "train", options) for value in batch]

    first, again, other = epoch(), epoch(), epoch(seed=7)
    for one, same in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, same)
    assert not np.array_equal(first[0], other[0]) and not np.array_equal(first[1], other[1])


def test_distortions_change_the_colors_of_training_alone(folder: Path) -> None:
    def first(split: str, distortions: bool) -> np.ndarray:
        options = with_options(distortions=distortions)
        images: np.ndarray = next(iter(imagenet(folder, split, options)))[0]
        return images

    plain, distorted = first("train", False), first("train", True)
    difference = np.abs(distorted - plain).mean(axis=(1, 2, 3))
    assert (difference > 0.01).all(), "each image"
    # The window is the same, so that what is brighter stays so.
    pairs = zip(plain, distorted, strict=True)
    together = [np.corrcoef(one.ravel(), other.ravel())[0, 1] for one, other in pairs]
    assert np.median(together) > 0.5
    np.testing.assert_array_equal(first("validation", False), first("validation", True))


@pytest.mark.parametrize("count", [2, 3, 5])
def test_shards_have_all_records_between_them(folder: Path, count: int) -> None:
    """By file with up to four of them, by record with five."""
    shards = [
        with_options(shard_count=count, shard_index=index, batch_size=1) for index in range(count)
    ]
    labels = [all_labels(imagenet(folder, "train", options)) for options in shards]
    assert sorted(label for shard in labels for label in shard) == list(range(1, 25))
    assert min(map(len, labels)) >= 24 // count - 4
    policy = imagenet(folder, "train", shards[0]).options().experimental_distribute
    assert policy.auto_shard_policy == dl.data.experimental.AutoShardPolicy.OFF


def test_shards_draw_different_windows(tmp_path: Path) -> None:
    """Of the same picture in every file."""
    (jpeg,) = jpegs(1)
    write(tmp_path, "train", [[record(jpeg, 1)]] * 2)
    shards = [with_options(shard_count=2, shard_index=k, batch_size=1) for k in (0, 1)]
    one, other = (next(iter(imagenet(tmp_path, "train", options)))[0] for options in shards)
    assert not np.array_equal(one, other)


def test_cached_and_repeated_records(folder: Path) -> None:
    twice = with_options(datasets_use_caching=True, num_epochs=2)
    cached = imagenet(folder, "train", twice)
    assert "cache()" in cached.explain()
    assert sorted(all_labels(cached)) == sorted([*range(1, 25)] * 2)
    repeated = with_options(datasets_repeat_cached_sample=True, datasets_use_caching=True)
    batches = iter(imagenet(folder, "train", repeated))
    images, labels = zip(*(next(batches) for _ in range(5)), strict=True)
    assert len(np.unique(labels)) == 1 and len(np.unique(np.concatenate(images), axis=0)) == 40


def test_options_of_the_pipeline_are_in_its_plan(folder: Path) -> None:
    def plan(**changes: object) -> str:
        return imagenet(folder, "train", with_options(**changes)).explain()

    assert "cycle_length=10" in plan() and "prefetch(2)" in plan()
    assert "cycle_length=3" in plan(datasets_parallel_interleave_cycle_length=3)
    ahead = plan(datasets_parallel_interleave_prefetch=2)
    assert "2 read at once" in ahead
    waiting = plan(datasets_prefetch_buffer_size=3, multi_device_iterator_max_buffer_size=4)
    assert "prefetch(7)" in waiting
    assert "prefetch" not in plan(datasets_use_prefetch=False)
    assert "shuffle(9," in plan(shuffle_buffer_size=9)
    options = with_options(datasets_num_private_threads=3, datasets_sloppy_parallel_interleave=True)
    held = imagenet(folder, "train", options).options()
    assert held.threading.private_threadpool_size == 3 and held.deterministic is False
    whole = plan(fuse_decode_and_crop=False)
    assert "image.decode_jpeg, crop, resize" in whole
    assert "image.decode_and_crop_jpeg, resize" in plan()


def test_decoding_no_more_than_the_window_gives_the_same_pixels(folder: Path) -> None:
    fused, whole = (
        imagenet(folder, "train", with_options(fuse_decode_and_crop=fuse)) for fuse in (True, False)
    )
    for (one, _), (other, _) in zip(fused, whole, strict=True):
        np.testing.assert_array_equal(one, other)


def test_methods_come_by_turns(tmp_path: Path) -> None:
    (jpeg,) = jpegs(1)
    write(tmp_path, "validation", [[record(jpeg, 1)] * 4])

    def images(method: str) -> np.ndarray:
        options = with_options(batch_size=4, resize_method=method)
        return next(iter(imagenet(tmp_path, "validation", options)))[0]

    turns = images("round_robin")
    for place, method in enumerate(("nearest", "bilinear", "bicubic", "area")):
        np.testing.assert_array_equal(turns[place], images(method)[place])
    assert len(np.unique(turns.reshape(4, -1), axis=0)) == 4


def test_means_are_subtracted_and_boxes_are_not_read_for_mlperf(tmp_path: Path) -> None:
    pixels = np.full((60, 60, 3), 128, np.uint8)
    outside = [(0.0, 0.0, 1.5, 1.0)]
    write(tmp_path, "train", [[record(encoded(pixels, quality=100), 1, outside)]])
    options = with_options(batch_size=1, match_mlperf=True)
    images, _ = next(iter(imagenet(tmp_path, "train", options)))
    means = 128 - np.array([123.68, 116.78, 103.94])
    np.testing.assert_allclose(images[0].mean((0, 1)), means, atol=0.01)


def test_half_of_the_windows_are_mirrored(tmp_path: Path) -> None:
    """The left half of the picture is dark: a window has its dark side on either side."""
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[:] = np.linspace(0, 255, 64).astype(np.uint8)[None, :, None]
    write(tmp_path, "train", [[record(encoded(pixels, quality=95), 1)] * 64])
    (images, _) = next(iter(imagenet(tmp_path, "train", with_options(batch_size=64))))
    rising = (images[:, :, -1].mean((1, 2)) > images[:, :, 0].mean((1, 2))).sum()
    assert 20 < rising < 44


def train_a_little(data: dl.data.Dataset) -> None:
    model = keras.Sequential([keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(1001)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss)
    history = model.fit(data, steps_per_epoch=4, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


def test_a_model_trains_on_records_like_the_originals(folder: Path) -> None:
    train_a_little(imagenet(folder, "train", with_options(num_epochs=None, distortions=True)))


def test_the_originals_own_records_train(tmp_path: Path) -> None:
    clone = os.environ.get("DRUMLINE_TF_BENCHMARKS")
    if clone is None:
        pytest.skip("DRUMLINE_TF_BENCHMARKS names no clone of github.com/tensorflow/benchmarks")
    for name in (*(f"train-{k:05d}-of-00008" for k in range(8)), "validation-00000-of-00002"):
        shown = ["git", "-C", clone, "show", f"HEAD:{FAKE}/{name}"]
        (tmp_path / name).write_bytes(subprocess.run(shown, check=True, capture_output=True).stdout)
    labels = all_labels(imagenet(tmp_path, "train", with_options(distortions=True)))
    assert len(labels) == 512 and set(labels) <= set(range(1001))
    train_a_little(imagenet(tmp_path, "train", with_options(num_epochs=None)))
    images, _ = next(iter(imagenet(tmp_path, "validation", OPTIONS)))
    assert np.isfinite(images).all() and images.min() >= -1 and images.max() <= 1


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file matches .*/train-\*-of-\*"):
        imagenet(tmp_path, "train", OPTIONS)
    with pytest.raises(ValueError, match="split must be one of train, validation, got 'test'"):
        imagenet(tmp_path, "test", OPTIONS)


def test_a_damaged_record_is_named_by_file_and_byte(folder: Path, tmp_path: Path) -> None:
    contents = jpegs(3)
    (path,) = write(tmp_path, "validation", [[record(c, 1) for c in contents]])
    second = 16 + len(record(contents[0], 1))
    data = bytearray(path.read_bytes())
    data[second + 40] ^= 1
    path.write_bytes(data)
    with pytest.raises(dl.errors.DataLossError, match=f"{path.name}: record 1, at byte {second}"):
        list(imagenet(tmp_path, "validation", with_options(batch_size=1)))


GOOD = encoded(picture(50, 60))
BAD = {
    "image/class/label": record(GOOD, 1, without="image/class/label"),
    "image/encoded": record(GOOD, 1, without="image/encoded"),
    "1001 is no label of 1001 classes": record(GOOD, 1001),
    "-1 is no label": record(GOOD, -1),
    "JPEG": record(b"no image", 1),
    "image/encoded: ": record(GOOD[: len(GOOD) // 2], 1),
    "does not lie in": record(GOOD, 1, [(0.1, 0.1, 0.9, 1.1)]),
    "parse_single_example": b"\x0a\xff",
}


@pytest.mark.parametrize("said", BAD)
def test_a_bad_record_is_named_by_file_and_number(tmp_path: Path, said: str) -> None:
    good = record(GOOD, 1, [(0.1, 0.1, 0.9, 0.9)])
    (path,) = write(tmp_path, "train", [[good, good, BAD[said], good]])
    options = with_options(batch_size=1, shuffle_buffer_size=1)
    batches = iter(imagenet(tmp_path, "train", options))
    next(batches), next(batches)
    with pytest.raises(ValueError, match=said) as raised:
        next(batches)
    assert f"{path}: record 2" in str(raised.value)
    assert len(next(batches)[1]) == 1  # What follows is delivered.


def test_boxes_with_too_few_numbers(tmp_path: Path) -> None:
    without = record(GOOD, 1, [(0.1, 0.1, 0.9, 0.9)], without="image/object/bbox/xmax")
    write(tmp_path, "train", [[without]])
    with pytest.raises(ValueError, match=r"boxes have \[1, 1, 1, 0\] numbers"):
        next(iter(imagenet(tmp_path, "train", with_options(batch_size=1))))


def test_evaluation_takes_the_middle(tmp_path: Path) -> None:
    """Of a picture of 48 x 192, whose columns have their numbers as values, resized to 45 x 183."""
    pixels = np.broadcast_to(np.arange(192, dtype=np.uint8)[:, None], (48, 192, 3))
    write(tmp_path, "validation", [[record(encoded(pixels, quality=100), 1)]])
    options = with_options(batch_size=1, image_size=(40, 40))
    (images, _) = next(iter(imagenet(tmp_path, "validation", options)))
    columns = (np.arange(40) + (183 - 40) // 2) * 192 / 183
    wanted = np.broadcast_to(columns[:, None], (40, 40, 3))
    np.testing.assert_allclose((images[0] + 1) * 127.5, wanted, atol=1)


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, got 0"),
        ({"batch_size": 2.5}, TypeError, "batch_size must be an integer, got 2.5"),
        ({"resize_method": "bilinar"}, ValueError, "bilinear"),
        ({"data_format": "NWHC"}, ValueError, "data_format must be one of NHWC, NCHW"),
        ({"dtype": "int8"}, ValueError, "dtype must be one of float32"),
        ({"shard_index": 2, "shard_count": 2}, ValueError, "less than shard_count, 2"),
        ({"distortions": "yes"}, TypeError, "distortions must be a bool"),
        ({"image_size": 224}, ValueError, "image_size must be height and width, got 224"),
    ],
)
def test_options_are_checked(changes: dict, error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        with_options(**changes)


def test_types_are_taken_by_name_and_as_objects() -> None:
    assert with_options(dtype=jnp.bfloat16).dtype == with_options(dtype="bfloat16").dtype
