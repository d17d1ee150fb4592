"""Folders of frames."""

import numpy as np
import pytest
from PIL import Image

from drumline.datasets import video_dataset_from_directory


@pytest.fixture
def folder(tmp_path):
    """Videos of 12, 3 and 1 frames: frame i of video v has the gray 20 v + i everywhere."""
    for number, (name, length) in enumerate([("a/long", 12), ("b/short", 3), ("b/deep/one", 1)]):
        (tmp_path / name).mkdir(parents=True)
        for i in range(length):
            pixels = np.full((4 + i, 6, 3), 20 * number + i, np.uint8)
            Image.fromarray(pixels).save(tmp_path / name / f"frame{i}.png")
        (tmp_path / name / "notes.txt").write_text("")
    return tmp_path


def load(folder, num_frames, **arguments):
    arguments = {"image_size": (2, 3), "shuffle": False, "verbose": False} | arguments
    return video_dataset_from_directory(folder, num_frames, **arguments)


def grays(videos):
    assert (videos == videos[..., :1, :1, :1]).all()
    return videos[..., 0, 0, 0].tolist()


def test_frames_at_equal_distances_in_the_order_of_their_numbers(folder):
    dataset = load(folder, 4)
    ((videos, labels),) = dataset
    assert videos.shape == (3, 4, 2, 3, 3) and videos.dtype == np.float32
    assert dataset.file_paths == [str(folder / n) for n in ("a/long", "b/deep/one", "b/short")]
    assert grays(videos) == [[0, 3, 7, 11], [40] * 4, [20, 20, 21, 22]]
    assert labels.tolist() == [0, 1, 1] and dataset.class_names == ["a", "b"]
    assert "native" in dataset.explain() and "row by row" not in dataset.explain()


def test_strides_colors_and_single_videos(folder):
    arguments = {"sampling": "strided", "stride": 5, "color_mode": "grayscale"}
    dataset = load(folder, 3, batch_size=None, labels=None, interpolation="nearest", **arguments)
    videos = list(dataset)
    assert [(v.shape, v.dtype) for v in videos] == [((3, 2, 3, 1), np.uint8)] * 3
    assert [grays(v) for v in videos] == [[0, 5, 10], [40] * 3, [20, 22, 21]]


def test_random_clips_change_with_the_epoch_and_not_with_the_run(folder):
    def run():
        dataset = load(folder / "a", 3, labels=None, sampling="random", stride=2, seed=5)
        return [grays(videos[0]) for videos in dataset.repeat(20)]

    clips = run()
    assert clips == run()
    assert all(clip == [clip[0], clip[0] + 2, clip[0] + 4] for clip in clips)
    assert len({clip[0] for clip in clips}) > 3 and max(clip[2] for clip in clips) <= 11


def test_shuffled_videos_keep_their_labels(folder):
    dataset = load(folder, 2, shuffle=True, seed=3, batch_size=1)
    pairs = sorted((grays(videos[0])[0], int(labels[0])) for videos, labels in dataset)
    assert pairs == [(0, 0), (20, 1), (40, 1)]


def test_a_damaged_frame_costs_its_video_alone(folder):
    damaged = folder / "b" / "short" / "frame1.png"
    damaged.write_bytes(damaged.read_bytes()[:40])
    dataset = load(folder, 3, batch_size=None, labels=None)
    with pytest.raises(ValueError, match="decode_image") as raised:
        list(dataset)
    assert any(str(damaged) in note for note in raised.value.__notes__)
    assert [grays(v) for v in dataset.ignore_errors()] == [[0, 5, 11], [40] * 3]
    (folder / "a" / "long" / "frame0.png").unlink()
    (folder / "a" / "long" / "frame0.png").mkdir()
    with pytest.raises(OSError, match="frame0.png"):
        next(iter(dataset))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sampling": "dense"}, "sampling must be one of"),
        ({"stride": 2}, "stride goes with sampling"),
        ({"color_mode": "cmyk"}, "color_mode must be one of"),
        ({"interpolation": "best"}, "interpolation must be one of"),
        ({"num_frames": 0}, "must be at least 1"),
        ({"labels": [0]}, "1 labels and 3 videos"),
        ({"class_names": []}, "no videos found"),
    ],
)
def test_wrong_arguments_are_named(folder, arguments, message):
    with pytest.raises(ValueError, match=message):
        load(folder, **({"num_frames": 2} | arguments))
