"""Sampling in time; expected frames are those of TensorFlow's model garden's functions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drumline as dl
from drumline.data import Dataset, RaggedArray

sizes = st.integers(1, 12)


def test_frames_are_the_model_gardens():
    frames = np.arange(10)
    sample, windows = dl.video.sample_sequence, dl.video.sample_linspace_sequence
    assert sample(frames, 4).tolist() == [0, 1, 2, 3]
    assert sample(frames, 4, stride=3).tolist() == [0, 3, 6, 9]
    assert sample(frames, 4, stride=4).tolist() == [0, 4, 8, 2]
    assert sample(frames[:3], 8).tolist() == [0, 1, 2, 0, 1, 2, 0, 1]
    assert windows(frames, 4).tolist() == [0, 3, 6, 9]
    assert windows(frames, 3, 2).tolist() == [0, 1, 4, 5, 8, 9]
    assert windows(frames, 2, 3, 2).tolist() == [0, 2, 4, 4, 6, 8]
    assert windows(frames[:2], 3).tolist() == [0, 0, 1]
    assert windows(frames[:2], 2, 3).tolist() == [0, 1, 0, 0, 1, 0]
    video = np.arange(5 * 2 * 3 * 1, dtype=np.uint8).reshape(5, 2, 3, 1)
    np.testing.assert_array_equal(sample(video, 2, stride=2), video[[0, 2]])
    assert sample(np.array([b"a", b"b"], object), 3).tolist() == [b"a", b"b", b"a"]


@settings(max_examples=25)
@given(length=sizes, steps=sizes, stride=st.integers(1, 5), seed=st.integers(0, 99))
def test_random_clips_lie_within_sequences_that_are_long_enough(length, steps, stride, seed):
    frames = np.arange(length)
    found = dl.video.sample_sequence(frames, steps, True, stride, seed)
    assert found.shape == (steps,) and found.max() < length
    assert ((found[0] + np.arange(steps) * stride) % length).tolist() == found.tolist()
    if length > (steps - 1) * stride:
        assert (np.diff(found) == stride).all()


def clips(lengths):
    frames = [np.full((n, 2, 2, 3), n, np.uint8) + np.arange(n, dtype=np.uint8)[:, None, None, None]
              for n in lengths]  # fmt: skip
    return frames, Dataset.from_generator(
        lambda: iter(frames), output_signature=dl.TensorSpec((None, 2, 2, 3), np.uint8)
    )


@pytest.mark.parametrize("random", [False, True])
def test_a_map_samples_sequences_of_any_length(random):
    frames, dataset = clips([3, 9, 5, 12, 1])
    sampled = dataset.map(lambda video: dl.video.sample_sequence(video, 4, random, 2))
    assert sampled.element_spec == dl.TensorSpec((4, 2, 2, 3), np.uint8)
    found = [clip[:, 0, 0, 0].tolist() for clip in sampled]
    for clip, video in zip(found, frames, strict=True):
        places = [value - len(video) for value in clip]
        assert places == [(places[0] + 2 * i) % len(video) for i in range(4)]
        assert random or places[0] == 0
    again = [clip[:, 0, 0, 0].tolist() for clip in sampled]
    assert not random or len({tuple(c) for c in found + again}) > 5


def test_a_map_samples_sequences_of_one_length():
    video = np.arange(2 * 9 * 4, dtype=np.float32).reshape(2, 9, 4)
    dataset = Dataset.from_tensor_slices(video)
    windows = list(dataset.map(lambda v: dl.video.sample_linspace_sequence(v, 3)))
    np.testing.assert_array_equal(windows, video[:, [0, 4, 8]])
    clips = dataset.repeat(20).map(lambda v: dl.video.sample_sequence(v, 3, True, 3))
    firsts = {int(clip[0, 0] % 36) // 4 for clip in clips}
    assert firsts == {0, 1, 2}


def test_names_of_frames_are_sampled_too():
    names = RaggedArray.from_rows([[b"0", b"1", b"2"], [b"3"]])
    dataset = Dataset.from_tensor_slices(names)
    found = dataset.map(lambda paths: dl.video.sample_linspace_sequence(paths, 2))
    assert [row.tolist() for row in found] == [[b"0", b"2"], [b"3", b"3"]]


def test_what_is_refused():
    with pytest.raises(ValueError, match="num_steps"):
        dl.video.sample_sequence(np.arange(3), 0)
    with pytest.raises(ValueError, match="stride"):
        dl.video.sample_sequence(np.arange(3), 1, stride=0)
    with pytest.raises(ValueError, match="num_windows"):
        dl.video.sample_linspace_sequence(np.arange(3), 0)
    with pytest.raises(ValueError, match="has frames as first dimension"):
        dl.video.sample_sequence(3, 1)
    with pytest.raises(ValueError, match="without frames"):
        dl.video.sample_sequence(np.arange(0), 1)
    _, dataset = clips([2, 0])
    iterator = iter(dataset.map(lambda video: dl.video.sample_sequence(video, 2)))
    next(iterator)
    with pytest.raises(ValueError, match="without frames") as caught:
        next(iterator)
    assert caught.value.element_index == 1
