"""JPEG records of 4 files, interleaved: decoded, resized to 224, floats, batches of 32.

Plain; with decode-time scaling on drumline's side; and with a random window and a random flip.
"""

from __future__ import annotations

import io
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads.jpeg_files import (
    FILES,
    SIZE,
    contents,
    disagreement,
    evidence,
    record_files,
)

AREA = (0.08, 1.0)
RATIO = (3 / 4, 4 / 3)
WHOLE = np.array([[[0.0, 0.0, 1.0, 1.0]]], np.float32)

Prepare = Callable[[Scale], Build]


def augmented_by_drumline(ratio: int | str = 2) -> Callable[[Any], Any]:
    """What makes a random window of a photograph, resized and perhaps mirrored."""
    import jax.numpy as jnp

    import drumline as dl

    def augmented(record: Any) -> Any:
        shape = dl.image.extract_jpeg_shape(record)
        begin, size, _ = dl.image.sample_distorted_bounding_box(
            shape, WHOLE, area_range=AREA, aspect_ratio_range=RATIO
        )
        window = jnp.concatenate([begin[:2], size[:2]])
        flip = dl.random.bernoulli(0.5)
        return dl.image.decode_jpeg_resized(record, (SIZE, SIZE), window, flip) / 255

    return augmented


def drumline(kind: str, ratio: int | str = 2) -> Prepare:
    """As a user writes it.

    Args:
        kind: ``"plain"``, ``"scaled"`` or ``"augmented"``.
        ratio: by how much the scaled one is smaller when it is decoded.
    """

    def prepare(scale: Scale) -> Build:
        import jax

        import drumline as dl

        jax.devices("cpu")
        paths = record_files(scale.elements)

        def plain(record: Any) -> Any:
            image = dl.image.decode_jpeg(record, channels=3)
            return dl.image.resize(image, (SIZE, SIZE)) / 255

        def scaled(record: Any) -> Any:
            return dl.image.decode_jpeg_resized(record, (SIZE, SIZE), ratio=ratio) / 255

        augmented = augmented_by_drumline(ratio)
        function = {"plain": plain, "scaled": scaled, "augmented": augmented}[kind]

        def build() -> Iterable[Batch]:
            return (
                dl.data.Dataset.from_tensor_slices(paths)
                .interleave(dl.data.TFRecordDataset, cycle_length=FILES)
                .map(function, num_parallel_calls=dl.data.AUTOTUNE)
                .batch(scale.batch_size)
                .prefetch(dl.data.AUTOTUNE)
            )

        return build

    return prepare


def function_of_tf(
    kind: str, expert: bool = False, transform: str = "INTEGER_ACCURATE"
) -> Callable[[Any], Any]:
    """What makes an image of a record in TensorFlow; see `tf_data`."""
    import tensorflow as tf

    def window(record: Any) -> Any:
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.image.extract_jpeg_shape(record),
            WHOLE,
            area_range=AREA,
            aspect_ratio_range=RATIO,
            min_object_covered=0.0,
        )
        return begin, size

    def decoded(record: Any) -> Any:
        if kind != "augmented":
            return tf.io.decode_jpeg(record, channels=3, dct_method=transform)
        begin, size = window(record)
        if expert:
            place = tf.concat([begin[:2], size[:2]], 0)
            image = tf.image.decode_and_crop_jpeg(record, place, channels=3, dct_method=transform)
        else:
            image = tf.io.decode_jpeg(record, channels=3, dct_method=transform)
            image = tf.slice(image, begin, size)
        return tf.image.random_flip_left_right(image)

    def prepared(record: Any) -> Any:
        return tf.image.resize(decoded(record), (SIZE, SIZE)) / 255.0

    return prepared


def tf_data(kind: str, expert: bool = False, transform: str = "INTEGER_ACCURATE") -> Prepare:
    """As TensorFlow's guides write it; an expert's decodes no more than the window.

    Its default ``transform``, ``""``, is a faster one whose pixels are darker, by up to 0.8 of 255
    on average over these photographs; those of the accurate one equal ours.
    """

    def prepare(scale: Scale) -> Build:
        import tensorflow as tf

        tf.constant(0)
        paths = record_files(scale.elements)

        prepared = function_of_tf(kind, expert, transform)

        def build() -> Iterable[Batch]:
            dataset = tf.data.Dataset.from_tensor_slices(paths).interleave(
                tf.data.TFRecordDataset,
                cycle_length=FILES,
                num_parallel_calls=tf.data.AUTOTUNE,
                deterministic=not expert,
            )
            dataset = dataset.map(
                prepared, num_parallel_calls=tf.data.AUTOTUNE, deterministic=not expert
            )
            return dataset.batch(scale.batch_size).prefetch(tf.data.AUTOTUNE)

        return build

    return prepare


def _pillow(record: bytes, kind: str, draw: np.random.Generator) -> np.ndarray:
    from PIL import Image

    image = Image.open(io.BytesIO(record)).convert("RGB")
    box, mirrored = None, False
    if kind == "augmented":
        box = _box(image.width, image.height, draw)
        mirrored = draw.random() < 0.5
    image = image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box)
    pixels = np.asarray(image, np.float32) / np.float32(255)
    return pixels[:, ::-1] if mirrored else pixels


def _box(width: int, height: int, draw: np.random.Generator) -> tuple[int, int, int, int]:
    for _ in range(10):
        area = draw.uniform(*AREA) * width * height
        ratio = draw.uniform(*RATIO)
        wide, tall = round((area * ratio) ** 0.5), round((area / ratio) ** 0.5)
        if 0 < wide <= width and 0 < tall <= height:
            left = int(draw.integers(width - wide, endpoint=True))
            top = int(draw.integers(height - tall, endpoint=True))
            return left, top, left + wide, top + tall
    return 0, 0, width, height


def torch_loader(kind: str) -> Prepare:
    """A DataLoader with two workers and Pillow, over the files' contents in memory."""

    def prepare(scale: Scale) -> Build:
        import torch
        from torch.utils.data import DataLoader, Dataset

        everything = contents(scale.elements)

        class Photographs(Dataset):
            def __len__(self) -> int:
                return len(everything)

            def __getitem__(self, index: int) -> Any:
                draw = np.random.default_rng(index)
                pixels = _pillow(everything[index], kind, draw)
                return torch.from_numpy(np.ascontiguousarray(pixels))

        return lambda: DataLoader(Photographs(), batch_size=scale.batch_size, num_workers=2)

    return prepare


def grain_dataset(kind: str) -> Prepare:
    """Grain's threads and Pillow, over the files' contents in memory."""

    def prepare(scale: Scale) -> Build:
        import grain

        everything = contents(scale.elements)

        def epoch() -> Iterator[Batch]:
            return iter(
                grain.MapDataset.source(everything)
                .seed(1)
                .random_map(lambda record, draw: _pillow(record, kind, draw))
                .batch(scale.batch_size)
                .to_iter_dataset()
            )

        return lambda: Epochs(epoch)

    return prepare


measured = measured_by(evidence)


def check(tolerance: float) -> Callable[[Scale, Mapping[str, Measurement]], Problems]:
    """Every epoch has all images, of values whose mean is that of the others."""

    def checked(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
        means = [m.evidence["epochs"][0]["mean"] for m in measurements.values()]
        mean = statistics.median(means) if means else 0.0
        problems = {
            name: disagreement(found, scale.elements, mean, tolerance)
            for name, found in measurements.items()
        }
        return {name: problem for name, problem in problems.items() if problem is not None}

    return checked


def _contenders(kind: str) -> tuple[Contender, ...]:
    tensorflow = ("tensorflow-cpu", "tensorflow")
    what = {
        "plain": "decode_jpeg, resize, / 255",
        "scaled": "decode_jpeg_resized(ratio=2), / 255",
        "augmented": "sample_distorted_bounding_box, decode_jpeg_resized of the window, / 255",
    }[kind]
    ours = Contender(
        "drumline", what, ("drumline", "jax"), measured(drumline(kind), ("drumline", "jax"))
    )
    guides = "decode_jpeg, slice, flip, resize" if kind == "augmented" else "decode_jpeg, resize"
    others = [
        Contender(
            "tf.data",
            f"interleave and map with AUTOTUNE: {guides}; the accurate transform",
            ("tensorflow",),
            measured(tf_data(kind), tensorflow),
        ),
        Contender(
            "tf.data fast transform",
            "the same with decode_jpeg's default dct_method, whose pixels differ",
            ("tensorflow",),
            measured(tf_data(kind, transform=""), tensorflow),
        ),
        Contender(
            "tf.data expert",
            "as tf.data, out of order; of windows decode_and_crop_jpeg",
            ("tensorflow",),
            measured(tf_data(kind, expert=True), tensorflow),
        ),
        Contender(
            "torch",
            "DataLoader, 2 workers, Pillow",
            ("torch", "PIL"),
            measured(torch_loader(kind), ("torch",)),
        ),
        Contender(
            "Grain", "threads, Pillow", ("grain", "PIL"), measured(grain_dataset(kind), ("grain",))
        ),
    ]
    if kind != "scaled":
        return (ours, *others)
    never_enlarged = Contender(
        "drumline auto",
        "decode_jpeg_resized(ratio='auto'), which never enlarges what it decoded, / 255",
        ("drumline", "jax"),
        measured(drumline(kind, "auto"), ("drumline", "jax")),
    )
    return (ours, never_enlarged, *others)


def _workload(name: str, kind: str, what: str, floor: float, tolerance: float) -> Workload:
    return Workload(
        name=name,
        title=f"JPEG records of 4 files, interleaved: {what}, batch(32)",
        unit="images",
        baseline="tf.data",
        full=Scale(elements=2_000, batch_size=32, later_epochs=3),
        quick=Scale(elements=64, batch_size=32, later_epochs=1),
        contenders=_contenders(kind),
        floors=(Floor("later", at_least=floor, against="tf.data"),),
        check=check(tolerance),
    )


WORKLOADS = (
    _workload("jpeg_resize", "plain", "decoded, resized to 224, floats", 1.2, 0.005),
    _workload("jpeg_resize_scaled", "scaled", "the same, scaled while decoding", 2.0, 0.005),
    _workload("jpeg_augmented", "augmented", "random windows resized to 224, flips", 1.5, 0.05),
)
