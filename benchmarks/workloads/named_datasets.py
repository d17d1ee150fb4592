"""Named datasets: prepared from their archives, read as arrays, and ImageNet's fed to training."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.floors import Floor
from benchmarks.harness.machine import versions
from benchmarks.harness.measurement import Measurement
from benchmarks.harness.pipelines import Batch, Build, Epochs, measured_by
from benchmarks.harness.workload import Contender, Problems, Scale, Workload
from benchmarks.workloads import jpeg_files, jpeg_images, named_files
from benchmarks.workloads.jpeg_files import SIZE

NAMES = {"mnist": "mnist", "jpeg": "tf_flowers"}
EXPERT_BATCH = 256
_CHUNK = 1 << 20
OURS = ("drumline", "jax")
THEIRS = ("tensorflow", "tensorflow_datasets")

Prepared = Callable[[Path], int]


def archive(kind: str, scale: Scale) -> dict[str, Path]:
    """The archives of a dataset, by the names under which they are downloaded."""
    make = {"mnist": named_files.idx_files, "jpeg": named_files.flower_files}[kind]
    return make(scale.elements)


def by_drumline(kind: str, scale: Scale) -> Prepared:
    """As a user writes it."""
    import drumline as dl

    named_files.give_to_drumline(archive(kind, scale))

    def prepare(folder: Path) -> int:
        made = dl.datasets.builder(NAMES[kind], data_dir=folder)
        made.download_and_prepare()
        return int(made.info.splits["train"].num_examples)

    return prepare


def by_tfds(kind: str, scale: Scale) -> Prepared:
    """As a user writes it."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    tf.constant(0)
    named_files.give_to_tfds(archive(kind, scale))
    named_files.set_sizes_of_tfds(scale.elements)
    tfds.disable_progress_bar()

    def prepare(folder: Path) -> int:
        made = tfds.builder(NAMES[kind], data_dir=str(folder))
        made.download_and_prepare()
        return int(made.info.splits["train"].num_examples)

    return prepare


def by_copying(kind: str, scale: Scale) -> Prepared:
    """No more than the bytes of the prepared files, read and written to the disk."""
    source = prepared_directory(kind, scale)

    def prepare(folder: Path) -> int:
        for path in sorted(source.rglob("*.tfrecord*")):
            with (folder / path.name).open("wb") as file:
                file.write(path.read_bytes())
                file.flush()
                os.fsync(file.fileno())
        return scale.elements

    return prepare


def by_unpacking(kind: str, scale: Scale) -> Prepared:
    """No more than the archive decompressed, which its format lets one core do."""
    from drumline._core import ByteReader

    (path,) = archive(kind, scale).values()

    def prepare(folder: Path) -> int:
        with path.open("rb") as file:
            unpacked = ByteReader(file.fileno(), "GZIP", _CHUNK)
            while unpacked.read(_CHUNK):
                pass
        return scale.elements

    return prepare


def by_encoding(kind: str, scale: Scale) -> Prepared:
    """No more than the pictures made PNG files, on all cores, and these written to the disk."""
    from drumline.image.files import EncodePng

    sizes = (scale.elements, scale.elements // 6)
    pictures = np.concatenate([named_files.digits(size)[0][..., None] for size in sizes])
    operation = EncodePng(-1)

    def prepare(folder: Path) -> int:
        with (folder / "pictures").open("wb") as file:
            for at in range(0, len(pictures), EXPERT_BATCH):
                some = list(pictures[at : at + EXPERT_BATCH])
                file.write(b"".join(operation.run([some], len(some)).columns[0]))
            file.flush()
            os.fsync(file.fileno())
        return scale.elements

    return prepare


def prepared_directory(
    kind: str, scale: Scale, start: Callable[[str, Scale], Prepared] = by_drumline
) -> Path:
    """The directory with the dataset, as drumline or another prepares it: they are the same."""
    folder = named_files.place(f"data-{kind}")
    start(kind, scale)(folder)
    return folder


def measured_preparing(
    start: Callable[[str, Scale], Prepared], libraries: tuple[str, ...], kind: str
) -> Callable[[Scale], Measurement]:
    """Each epoch prepares the dataset in an empty directory."""

    def run(scale: Scale) -> Measurement:
        before = time.perf_counter()
        prepare = start(kind, scale)
        imported = time.perf_counter() - before
        seconds, counts, sizes = [], [], []
        for number in range(1 + scale.later_epochs):
            folder = named_files.place(f"made-{kind}-{number}")
            began = time.perf_counter()
            counts.append(prepare(folder))
            seconds.append(time.perf_counter() - began)
            files = (each for each in folder.rglob("*") if each.is_file())
            sizes.append(sum(each.stat().st_size for each in files))
            shutil.rmtree(folder)
        return Measurement(
            elements=scale.elements,
            import_s=imported,
            first_batch_s=seconds[0],
            first_epoch_s=seconds[0],
            later_epochs_s=tuple(seconds[1:]),
            evidence={"counts": counts, "bytes": sizes},
            versions=versions(("numpy", *libraries)),
        )

    return run


def check_preparing(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Each time all examples were written, in about as many bytes as by the others."""
    whole = {name for name in measurements if not name.endswith("alone")}  # others are bounds
    sizes = [measurements[name].evidence["bytes"][0] for name in whole]
    usual = statistics.median(sizes) if sizes else 0
    problems: Problems = {}
    for name, found in measurements.items():
        if set(found.evidence["counts"]) != {scale.elements}:
            problems[name] = f"prepared {found.evidence['counts']} examples, not {scale.elements}"
        elif name in whole and abs(found.evidence["bytes"][0] - usual) > usual / 4:
            problems[name] = f"wrote {found.evidence['bytes'][0]} bytes, the others {usual}"
    return problems


def load(scale: Scale, kind: str, batch_size: int) -> Build:
    """As a user writes it: a loop over the examples, or over batches of them."""
    import jax

    import drumline as dl

    jax.devices("cpu")
    folder = prepared_directory(kind, scale)

    def build() -> Iterable[Batch]:
        dataset = dl.datasets.load(NAMES[kind], split="train", data_dir=folder, download=False)
        return dataset.batch(batch_size) if batch_size else dataset

    return build


def tfds_load(scale: Scale, kind: str, expert: bool) -> Build:
    """``tfds.as_numpy``, as its guide says; the expert's batches are made ahead."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    tf.constant(0)
    folder = prepared_directory(kind, scale, by_tfds)

    def build() -> Iterable[Batch]:
        dataset = tfds.load(NAMES[kind], split="train", data_dir=str(folder), download=False)
        if expert and kind == "mnist":
            dataset = dataset.batch(EXPERT_BATCH).prefetch(tf.data.AUTOTUNE)
        elif expert:
            dataset = dataset.prefetch(tf.data.AUTOTUNE)
        found: Iterable[Batch] = tfds.as_numpy(dataset)
        return found

    return build


def decoding_alone(scale: Scale, kind: str) -> Build:
    """Decodes the files, which are in memory, on all cores: a bound."""
    import drumline as dl
    from drumline.image.columns import get_limits
    from drumline.image.files import DecodeImage

    folder = prepared_directory(kind, scale)
    dataset = dl.datasets.load(
        NAMES[kind],
        split="train",
        data_dir=folder,
        download=False,
        decoders={"image": dl.datasets.SkipDecoding()},
    )
    examples = [(each["image"], each["label"]) for each in dataset]
    files = np.array([each for each, _ in examples], object)
    labels = np.array([label for _, label in examples])
    operation = DecodeImage(1 if kind == "mnist" else 3, np.dtype(np.uint8), False, get_limits())

    def epoch() -> Iterator[Batch]:
        for at in range(0, len(files), EXPERT_BATCH):
            some = files[at : at + EXPERT_BATCH]
            images = operation.run([some], len(some)).columns[0]
            for image, label in zip(images, labels[at:], strict=False):
                yield {"image": image, "label": label}

    return lambda: Epochs(epoch)


def evidence(elements: Iterable[Any]) -> dict[str, Any]:
    """How many pictures an epoch has, the sum of their labels, and the mean of their values."""
    count = labels = 0
    total = values = 0.0
    for each in elements:
        label = np.asarray(each["label"])
        count += label.size
        labels += int(label.sum())
        images = np.asarray(each["image"])
        total += float(images.sum(dtype=np.float64))
        values += images.size
    return {"pictures": count, "labels": labels, "mean": total / values if values else 0.0}


measured = measured_by(evidence)


def check_reading(scale: Scale, measurements: Mapping[str, Measurement]) -> Problems:
    """Every epoch has all pictures with their labels; the mean of the values is the others'."""
    epochs = {name: found.evidence["epochs"] for name, found in measurements.items()}
    read = [each for found in epochs.values() for each in found]
    problems: Problems = {}
    for name, found in epochs.items():
        for epoch in found:
            if epoch["pictures"] != scale.elements:
                problems[name] = f"gave {epoch['pictures']} pictures, not {scale.elements}"
            elif epoch["labels"] != read[0]["labels"]:
                problems[name] = "gave other labels than the others"
            elif abs(epoch["mean"] - read[0]["mean"]) > 2:  # of 255; TF's fast transform is darker
                problems[name] = f"gave values of mean {epoch['mean']:.2f}"
    return problems


def imagenet(scale: Scale) -> Build:
    """As a user writes it: windows and flips of ``imagenet2012``, prepared from its archive."""
    import drumline as dl

    folder = _imagenet(scale)
    one = jpeg_images.augmented_by_drumline()

    def build() -> Iterable[Batch]:
        dataset = dl.datasets.load(
            "imagenet2012",
            split="train",
            data_dir=folder,
            download=False,
            shuffle_files=True,
            decoders={"image": dl.datasets.SkipDecoding()},
        )
        return (
            dataset.map(
                lambda each: (one(each["image"]), each["label"]),
                num_parallel_calls=dl.data.AUTOTUNE,
            )
            .batch(scale.batch_size)
            .prefetch(dl.data.AUTOTUNE)
        )

    return build


def imagenet_by_tfds(scale: Scale) -> Build:
    """The same by TensorFlow, as an expert writes it: no more than the window is decoded."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    tf.constant(0)
    folder = named_files.place("data-imagenet")
    manual = tfds.download.DownloadConfig(
        manual_dir=str(named_files.imagenet_files(scale.elements)), num_shards=jpeg_files.FILES
    )
    tfds.disable_progress_bar()
    tfds.builder("imagenet2012", data_dir=str(folder)).download_and_prepare(download_config=manual)
    one = jpeg_images.function_of_tf("augmented", expert=True)

    def build() -> Iterable[Batch]:
        dataset = tfds.load(
            "imagenet2012",
            split="train",
            data_dir=str(folder),
            download=False,
            shuffle_files=True,
            decoders={"image": tfds.decode.SkipDecoding()},
        )
        return (
            dataset.map(
                lambda each: (one(each["image"]), each["label"]),
                num_parallel_calls=tf.data.AUTOTUNE,
                deterministic=False,
            )
            .batch(scale.batch_size)
            .prefetch(tf.data.AUTOTUNE)
        )

    return build


def records_alone(scale: Scale) -> Build:
    """``jpeg_augmented`` itself: records that are nothing but photographs."""
    make = jpeg_images.drumline("augmented")(scale)

    def build() -> Iterable[Batch]:
        dataset = make()
        return Epochs(lambda: ((images, None) for images in dataset))

    return build


def _imagenet(scale: Scale) -> Path:
    import drumline as dl

    folder = named_files.place("data-imagenet")
    made = dl.datasets.builder("imagenet2012", data_dir=folder)
    vars(made)["MANUAL_RESOURCES"] = {}  # the archive is not the true one
    manual = named_files.imagenet_files(scale.elements)
    made.download_and_prepare(manual_dir=manual, num_shards=jpeg_files.FILES)
    return folder


def _images(batches: Iterable[Any]) -> dict[str, Any]:
    return jpeg_files.evidence(images for images, _ in batches)


measured_images = measured_by(_images)


def _preparing(
    kind: str, what: str, full: int, quick: int, bound: tuple[str, str, Any]
) -> Workload:
    name, about, start = bound
    return Workload(
        name=f"datasets_prepare_{kind}",
        title=f"{what}, prepared from the archive: encoded, ordered, written",
        unit="examples",
        baseline="TFDS",
        full=Scale(elements=full, batch_size=1, later_epochs=1),
        quick=Scale(elements=quick, batch_size=1, later_epochs=1),
        contenders=(
            Contender(
                "drumline",
                "download_and_prepare",
                OURS,
                measured_preparing(by_drumline, OURS, kind),
            ),
            Contender(
                "TFDS", "download_and_prepare", THEIRS, measured_preparing(by_tfds, THEIRS, kind)
            ),
            Contender(
                "bytes alone",
                "the prepared files copied: a bound",
                OURS,
                measured_preparing(by_copying, OURS, kind),
            ),
            Contender(name, f"{about}: a bound", OURS, measured_preparing(start, OURS, kind)),
        ),
        floors=(Floor("later", aim=3.0, against="TFDS"),),
        check=check_preparing,
        timeout_s=600.0,
    )


def _reading(kind: str, what: str, full: int, quick: int, later_epochs: int) -> Workload:
    batched = [
        Contender(
            "drumline batches",
            f"load(...).batch({EXPERT_BATCH})",
            OURS,
            measured(load, OURS, kind, EXPERT_BATCH),
        )
    ]
    expert = (
        f"batch({EXPERT_BATCH}), prefetch(AUTOTUNE)" if kind == "mnist" else "prefetch(AUTOTUNE)"
    )
    return Workload(
        name=f"datasets_read_{kind}",
        title=f"{what}, read as arrays, with labels",
        unit="examples",
        baseline="TFDS",
        full=Scale(elements=full, batch_size=1, later_epochs=later_epochs),
        quick=Scale(elements=quick, batch_size=1, later_epochs=1),
        contenders=(
            Contender("drumline", "for example in load(...)", OURS, measured(load, OURS, kind, 0)),
            *(batched if kind == "mnist" else ()),
            Contender(
                "TFDS", "as_numpy(load(...))", THEIRS, measured(tfds_load, THEIRS, kind, False)
            ),
            Contender("TFDS expert", expert, THEIRS, measured(tfds_load, THEIRS, kind, True)),
            Contender(
                "decoding alone",
                "pictures in memory, decoded on all cores: a bound",
                OURS,
                measured(decoding_alone, OURS, kind),
            ),
        ),
        floors=(Floor("first", aim=10.0, against="TFDS"),),
        check=check_reading,
        timeout_s=600.0,
    )


WORKLOADS = (
    _preparing(
        "mnist",
        "60,000 digits of MNIST's files and 10,000 for tests",
        60_000,
        600,
        ("encoding alone", "the pictures made PNG files on all cores, and written", by_encoding),
    ),
    _preparing(
        "jpeg",
        "5,000 photographs of five kinds",
        5_000,
        50,
        ("unpacking alone", "the archive decompressed, by one core as gzip is", by_unpacking),
    ),
    _reading("mnist", "60,000 digits of MNIST's", 60_000, 600, 2),
    # They are more than 250 MiB, of which neither library keeps decoded examples in memory.
    _reading("jpeg", "4,000 photographs of five kinds", 4_000, 50, 1),
    Workload(
        name="imagenet_fit",
        title=f"ImageNet from prepared records: random windows resized to {SIZE}, flips, batch(32)",
        unit="images",
        baseline="records alone",
        full=Scale(elements=2_000, batch_size=32, later_epochs=3),
        quick=Scale(elements=64, batch_size=32, later_epochs=1),
        contenders=(
            Contender(
                "drumline",
                "load('imagenet2012'), decode_jpeg_resized of the window, batch",
                OURS,
                measured_images(imagenet, OURS),
            ),
            Contender(
                "records alone",
                "jpeg_augmented: the same of records that are photographs alone",
                OURS,
                measured_images(records_alone, OURS),
            ),
            Contender(
                "TFDS expert",
                "load, decode_and_crop_jpeg, resize, flip, batch, out of order",
                THEIRS,
                measured_images(imagenet_by_tfds, THEIRS),
            ),
        ),
        floors=(
            Floor("later", at_least=0.9, against="records alone"),
            Floor("later", at_least=1.5, against="TFDS expert"),
        ),
        check=jpeg_images.check(0.05),
    ),
)
