"""Event files of `drumline.summary` beside TensorFlow's own: the same values, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drumline as dl

tensorflow = pytest.importorskip("tensorflow")

RNG = np.random.default_rng(0)
SOUND = np.linspace(-1.5, 1.5, 40, dtype=np.float32).reshape(2, 20, 1)
CASES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "scalar": ("scalar", (0.25,), {}),
    "scalar of int": ("scalar", (np.int64(2**40 + 1),), {"description": "of *bytes*"}),
    "scalar of half": ("scalar", (np.float16(0.1),), {}),
    "scalar of bool": ("scalar", (True,), {}),
    "histogram": ("histogram", (RNG.normal(size=100),), {}),
    "histogram of ints": ("histogram", (np.arange(12).reshape(3, 4),), {"buckets": 5}),
    "histogram of one value": ("histogram", (np.full(7, 2.5, np.float32),), {}),
    "histogram of nothing": ("histogram", (np.zeros(0, np.float32),), {}),
    "histogram of no buckets": ("histogram", (np.ones(3, np.float32),), {"buckets": 0}),
    "text": ("text", ("hello **you**",), {}),
    "texts": ("text", ([["a", "b"], ["c", "d"]],), {"description": "a table"}),
    "audio": ("audio", (SOUND, 8000), {"max_outputs": 1}),
    "two channels": ("audio", (SOUND.reshape(1, 20, 2), 44100), {"encoding": "wav"}),
    "array": ("write", (np.arange(6, dtype=np.int32).reshape(2, 3),), {}),
    "array of text": ("write", (np.array([b"x", b"yz"], object),), {}),
}


def _values(summary: Any, directory: Path, kind: str, args: Any, options: Any) -> Any:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    writer = summary.create_file_writer(str(directory))
    with writer.as_default(step=5):
        getattr(summary, kind)("name", *args, **options)
    writer.close()
    (path,) = directory.iterdir()
    (event,) = (e for e in loader.LegacyEventFileLoader(str(path)).Load() if e.summary.value)
    return event


@pytest.mark.parametrize("case", CASES)
def test_the_same_value(tmp_path: Path, case: str) -> None:
    kind, args, options = CASES[case]
    ours = _values(dl.summary, tmp_path / "ours", kind, args, options)
    theirs = _values(tensorflow.summary, tmp_path / "theirs", kind, args, options)
    assert ours.step == theirs.step
    (own,), (their,) = ours.summary.value, theirs.summary.value
    assert (own.tag, own.metadata) == (their.tag, their.metadata)
    made = [tensorflow.make_ndarray(value.tensor) for value in (own, their)]
    assert made[0].dtype == made[1].dtype and made[0].shape == made[1].shape
    np.testing.assert_array_equal(*made)


@pytest.mark.parametrize("kind", [np.uint8, np.float32, np.float64])
@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_the_same_pictures(tmp_path: Path, kind: Any, channels: int) -> None:
    """Their bytes differ, as encoders do; the pixels are the same."""
    pictures = RNG.random((4, 3, 5, channels)) * (255 if kind is np.uint8 else 1.2)
    pictures = pictures.astype(kind)
    values = [
        _values(summary, tmp_path / name, "image", (pictures,), {}).summary.value[0]
        for name, summary in (("ours", dl.summary), ("theirs", tensorflow.summary))
    ]
    assert values[0].metadata == values[1].metadata
    ours, theirs = (tensorflow.make_ndarray(value.tensor) for value in values)
    assert list(ours[:2]) == list(theirs[:2]) and len(ours) == len(theirs) == 2 + 3
    for own, their in zip(ours[2:], theirs[2:], strict=True):
        decoded = [tensorflow.io.decode_png(content).numpy() for content in (own, their)]
        np.testing.assert_array_equal(*decoded)


def test_tags_in_scopes(tmp_path: Path) -> None:
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
    tags = {}
    for name, summary, scope in (
        ("ours", dl.summary, dl.summary.summary_scope),
        ("theirs", tensorflow.summary, tensorflow.summary.experimental.summary_scope),
    ):
        writer = summary.create_file_writer(str(tmp_path / name))
        with writer.as_default(step=0), scope("outer") as entered:
            summary.scalar("a", 1.0)
            with scope("inner"):
                summary.scalar("b", 1.0)
        writer.close()
        (path,) = (tmp_path / name).iterdir()
        events = list(loader.LegacyEventFileLoader(str(path)).Load())
        tags[name] = [e.summary.value[0].tag for e in events if e.summary.value], entered
    assert tags["ours"] == tags["theirs"]
