"""What drumline prepares is complete or not there, and in the order of TFDS."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import threading
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from drumline import datasets
from drumline.datasets.features import FeatureError
from drumline.datasets.features.stored_values import ExampleEncoder
from drumline.datasets.prepared import writing
from drumline.datasets.prepared.generator import DeclaredConfig
from drumline.datasets.prepared.writing import OrderedRecords, number_of_shards


class Squares(datasets.GeneratorBasedBuilder):
    """Numbers and their squares."""

    VERSION = "1.0.0"
    generated = 0

    def _info(self) -> datasets.DatasetInfo:
        features = {"n": np.int64, "square": np.int64}
        return self.dataset_info(features=features, supervised_keys=("n", "square"))

    def _split_generators(self, dl_manager: Any) -> Any:
        type(self).generated += 1
        return {"train": self._generate_examples(100)}

    def _generate_examples(self, count: int) -> Any:
        for n in range(count):
            yield n, {"n": n, "square": n * n}


def values(dataset: Any, name: str = "n") -> list[int]:
    return [int(example[name]) for example in dataset]


def left(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if not path.name.endswith(".lock")]


def test_the_order_is_that_of_the_keys_hashes(tmp_path: Path) -> None:
    made = Squares(data_dir=tmp_path)
    assert made.name == "squares" and not made.is_prepared
    with pytest.raises(FileNotFoundError, match=r"squares/1\.0\.0 is not prepared: "):
        made.as_dataset()
    made.download_and_prepare()
    keys = sorted(range(100), key=lambda n: hashlib.md5(b"train" + str(n).encode()).digest())
    assert values(made.as_dataset("train")) == keys
    assert values(made.as_dataset("train[:10%]"), "square") == [n * n for n in keys[:10]]
    again = Squares(data_dir=tmp_path)
    assert again.is_prepared and again.info.splits["train"].num_examples == 100


def test_several_files_and_fewer_examples(tmp_path: Path) -> None:
    made = Squares(data_dir=tmp_path)
    made.download_and_prepare(num_shards=3, max_examples_per_split=10)
    assert made.info.splits["train"].shard_lengths == (3, 4, 3)
    assert sorted(values(made.as_dataset("train"))) == list(range(10))


@pytest.mark.parametrize("number", [0, 2])
def test_a_disk_that_is_full_when_a_file_is_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Files but the last are synced by a thread; what fails there is named, too."""
    sync = writing.sync

    def full(path: Path) -> None:
        if f"-0000{number}-of-" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        sync(path)

    monkeypatch.setattr(writing, "sync", full)
    with pytest.raises(OSError, match=f"free space .*train.tfrecord-0000{number}-of-00003"):
        Squares(data_dir=tmp_path).download_and_prepare(num_shards=3)
    assert left(tmp_path / "squares") == []


def test_the_bytes_of_records_are_counted(tmp_path: Path) -> None:
    """Without what a file adds to each, as TFDS counts them: the number of files depends on it."""
    made = Squares(data_dir=tmp_path)
    made.download_and_prepare(num_shards=3)
    split = made.info.splits["train"]
    files = [(Path(made.info.data_dir) / name).stat().st_size for name in split.filenames]
    assert split.num_bytes == sum(files) - 16 * split.num_examples > 0


def test_records_on_disk_come_in_the_same_order(tmp_path: Path) -> None:
    kept, spilled = (OrderedRecords("s", False, tmp_path, held) for held in (1 << 30, 50))
    for records in (kept, spilled):
        for n in range(200):
            records.add(f"key{n}", f"record{n}".encode())
    assert list(kept) == list(spilled) and kept.count == 200
    spilled.close()
    given = OrderedRecords("s", True, tmp_path, 50)
    for n in (5, -3, 200, 7):
        given.add(n, str(n).encode())
    assert list(given) == [b"-3", b"5", b"7", b"200"]
    given.close()
    with pytest.raises(TypeError, match="keys of examples are numbers"):
        OrderedRecords("s", True, tmp_path).add("a", b"")


def test_equal_keys_are_an_error(tmp_path: Path) -> None:
    class Twice(Squares):
        def _generate_examples(self, count: int) -> Any:
            yield "a", {"n": 1, "square": 1}
            yield "b", {"n": 1, "square": 1}
            yield "a", {"n": 2, "square": 4}

    made = Twice(data_dir=tmp_path)
    with pytest.raises(datasets.DuplicateKeyError, match="examples 0 and 2 .* same key"):
        made.download_and_prepare()
    assert left(tmp_path / "twice") == []


@pytest.mark.parametrize(
    ("example", "message"),
    [
        ({"n": 1}, "has no 'square'"),
        ({"n": 1, "square": 1, "cube": 1}, "has 'cube' besides"),
        ({"n": "x", "square": 1}, "feature 'n': 'x' is no int64"),
        ({"n": np.zeros(2, np.int64), "square": 1}, r"feature 'n': the shape is \(2,\)"),
        ([1, 1], "an example is to be a dictionary"),
    ],
)
def test_a_bad_example_is_named_and_nothing_stays(
    tmp_path: Path, example: Any, message: str
) -> None:
    class Bad(Squares):
        def _generate_examples(self, count: int) -> Any:
            yield 0, {"n": 1, "square": 1}
            yield "key", example

    made = Bad(data_dir=tmp_path)
    with pytest.raises(FeatureError, match=f"bad: split 'train', example 'key': .*{message}"):
        made.download_and_prepare()
    assert left(tmp_path / "bad") == [] and not Bad(data_dir=tmp_path).is_prepared


def test_a_bad_picture_among_many_is_named(tmp_path: Path) -> None:
    """Pictures are encoded for many examples at once; sequences have several."""

    class Frames(datasets.GeneratorBasedBuilder):
        VERSION = "1.0.0"
        bad, end = 300, 400

        def _info(self) -> datasets.DatasetInfo:
            picture = datasets.features.Image((None, None, None), np.uint8)
            several = datasets.features.Sequence(picture)
            return self.dataset_info(features={"one": picture, "several": several})

        def _split_generators(self, dl_manager: Any) -> Any:
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Any:
            pixels = np.zeros((2, 3, 1), np.uint8)
            for n in range(self.end):
                pixels[:] = n % 251  # a generator may use its array again
                last = np.zeros((2, 3, 7), np.uint8) if n == self.bad else pixels
                yield f"key{n}", {"one": pixels, "several": [pixels + 1, last]}

    class Good(Frames):
        bad = -1

    class Later(Frames):
        """What fails later, while the picture is encoded, is not what is named."""

        end = 1100

        def _generate_examples(self) -> Any:
            yield from super()._generate_examples()
            raise RuntimeError("later")

    made = Good(data_dir=tmp_path)
    made.download_and_prepare()
    found = sorted(
        tuple(int(each.max()) for each in (example["one"], *example["several"]))
        for example in made.as_dataset("train")
    )
    assert found == sorted((n % 251, n % 251 + 1, n % 251) for n in range(400))
    with pytest.raises(FeatureError, match=r"frames: split 'train', example 'key300': .*channels"):
        Frames(data_dir=tmp_path).download_and_prepare()
    assert left(tmp_path / "frames") == []
    for end in (520, 1100):
        Later.end = end
        with pytest.raises(FeatureError, match=r"later: split 'train', example 'key300': "):
            Later(data_dir=tmp_path).download_and_prepare()
    Later.bad = -1
    with pytest.raises(RuntimeError, match="later"):
        Later(data_dir=tmp_path).download_and_prepare()
    assert left(tmp_path / "later") == []


def test_usual_values_are_stored_as_others_are() -> None:
    """Python's own numbers, texts and arrays that fit take a shorter way to the same bytes."""
    f = datasets.features
    features = f.FeaturesDict(
        {
            "label": f.ClassLabel(names=["cat", "dog"]),
            "text": f.Text(),
            "byte": np.uint8,
            "number": np.int64,
            "image": f.Image((2, 3, 1)),
            "file": f.Image(),
        }
    )
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
    usual = {
        "label": "dog",
        "text": "\xe4",
        "byte": 255,
        "number": -(1 << 63),
        "image": pixels,
        "file": b"GIF8",
    }
    others = {
        "label": np.int64(1),
        "text": np.array("\xe4", object),
        "byte": np.array(255, np.uint8),
        "number": np.array(-(1 << 63)),
        "image": pixels.view(np.recarray),
        "file": io.BytesIO(b"GIF8"),
    }
    encoder = ExampleEncoder(features)
    assert encoder._quick_row(usual) and not encoder._quick_row(others)
    encoder.add({**usual, "image": (own := pixels.copy())})
    own[:] = 0  # a generator may use its array again
    assert encoder.take() == [encoder.encode(others)]
    for bad in ({"byte": 256}, {"byte": -1}, {"label": 2}, {"label": -2}, {"label": "cow"}):
        (name,) = bad
        with pytest.raises(FeatureError, match=f"feature {name!r}: "):
            encoder.add({**usual, **bad})
    for value in (pixels[1:], pixels.astype(np.int8), pixels.astype(">u2")):
        with pytest.raises(FeatureError, match="feature 'image': the array is "):
            encoder.add({**usual, "image": value})
    with pytest.raises(FeatureError, match="feature 'text': .*surrogates"):
        encoder.add({**usual, "text": "\ud800"})
    assert len(encoder.take()) == 0

    class Upper(f.Text):
        def encode(self, value: Any) -> dict[str, Any]:
            return super().encode(value.upper())

    upper, plain = (ExampleEncoder(f.FeaturesDict({"text": each()})) for each in (Upper, f.Text))
    assert upper.encode({"text": "a"}) == plain.encode({"text": "A"})


def test_what_breaks_off_leaves_nothing_that_is_taken_as_whole(tmp_path: Path) -> None:
    class Broken(Squares):
        def _generate_examples(self, count: int) -> Any:
            yield 0, {"n": 1, "square": 1}
            raise KeyboardInterrupt

    former = tmp_path / "broken" / "incomplete.drumline-abc_1.0.0"
    former.mkdir(parents=True)
    (former / "dataset_info.json").write_text("{}")
    with pytest.raises(KeyboardInterrupt):
        Broken(data_dir=tmp_path).download_and_prepare()
    assert left(tmp_path / "broken") == []


def test_of_several_threads_one_prepares(tmp_path: Path) -> None:
    class Once(Squares):
        generated = 0

    made = [Once(data_dir=tmp_path) for _ in range(4)]
    threads = [threading.Thread(target=each.download_and_prepare) for each in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Once.generated == 1
    assert {tuple(values(each.as_dataset("train"))) for each in made} == {
        tuple(values(made[0].as_dataset("train")))
    }


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from drumline.datasets.prepared import writing

    monkeypatch.setitem(
        writing.WRITERS, "tfrecord", lambda path: writing.TFRecordWriter("/dev/full")
    )
    made = Squares(data_dir=tmp_path)
    with pytest.raises(OSError, match="free space on its disk"):
        made.download_and_prepare()
    assert not Squares(data_dir=tmp_path).is_prepared


def test_the_number_of_files() -> None:
    mib = 1 << 20
    assert number_of_shards(10 * mib, 1000) == 1
    assert number_of_shards(130 * mib, 1000) == 2
    assert number_of_shards(130 * mib, 1) == 1
    assert number_of_shards(128 * mib - 16_000, 999) == 1  # a file has 16 bytes more for each
    assert number_of_shards(128 * mib - 16_000, 1000) == 2
    assert number_of_shards(1 << 37, 10**6) == 1024
    assert number_of_shards(1 << 42, 10**7) == 4096


def test_configurations(tmp_path: Path) -> None:
    class Powers(datasets.GeneratorBasedBuilder):
        VERSION = "2.0.0"
        BUILDER_CONFIGS = (
            datasets.BuilderConfig("two", description="Squares."),
            datasets.BuilderConfig("three", version="2.1.0"),
        )

        def _info(self) -> datasets.DatasetInfo:
            return self.dataset_info(features={"n": np.int64})

        def _split_generators(self, dl_manager: Any) -> Any:
            assert self.builder_config is not None
            power = {"two": 2, "three": 3}[self.builder_config.name]
            return {"train": ((n, {"n": n**power}) for n in range(4))}

    datasets.register(Powers)
    try:
        found = datasets.load("powers", split="train", data_dir=tmp_path)
        assert sorted(values(found)) == [0, 1, 4, 9]
        found, info = datasets.load(
            "powers/three", split="train", data_dir=tmp_path, with_info=True
        )
        assert sorted(values(found)) == [0, 1, 8, 27]
        assert info.full_name == "powers/three/2.1.0"
        with pytest.raises(ValueError, match="no configuration 'four'. There are: two, three"):
            datasets.load("powers/four", data_dir=tmp_path)
        read = datasets.builder_from_directory(tmp_path / "powers/two/2.0.0")
        assert read.info.config_description == "Squares."
    finally:
        from drumline.datasets import registry

        registry._registered.pop("powers")
    # What reads the files without the class takes the same configuration where none is named.
    assert sorted(values(datasets.load("powers", split="train", data_dir=tmp_path))) == [0, 1, 4, 9]


@pytest.mark.parametrize("form", ["tfrecord", "parquet"])
def test_what_a_configuration_of_downloads_says(tmp_path: Path, form: Any) -> None:
    class Given:
        max_examples_per_split, num_shards, file_format = 6, 3, form

    made = Squares(data_dir=tmp_path)
    if form != "tfrecord":
        with pytest.raises(ValueError, match="file_format must be one of tfrecord"):
            made.download_and_prepare(download_config=Given())
        return
    made.download_and_prepare(download_config=Given(), num_shards=2)
    assert made.info.splits["train"].num_shards == 2 and len(made.as_dataset("train")) == 6


class Declared(datasets.GeneratorBasedBuilder):
    """Numbers."""

    VERSION = "2.0.0"
    FEATURES: ClassVar[Any] = {"n": np.int64}
    HOMEPAGE = "http://numbers"
    SPLITS: ClassVar[Any] = {"train": 3}
    BUILDER_CONFIGS: ClassVar[Any] = (
        DeclaredConfig("plain"),
        DeclaredConfig(
            "pairs", features={"n": np.int64, "m": np.int64}, supervised_keys=("n", "m")
        ),
    )

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": ((n, dict.fromkeys(self.info.features, n)) for n in range(3))}


def test_a_builder_may_declare_what_it_has(tmp_path: Path) -> None:
    plain, pairs = (Declared(data_dir=tmp_path, config=name) for name in ("plain", "pairs"))
    assert plain.info.source == pairs.info.source == "http://numbers"
    assert list(plain.info.features) == ["n"] and list(pairs.info.features) == ["n", "m"]
    assert plain.info.supervised_keys is None and pairs.info.splits["train"].num_examples == 3
    pairs.download_and_prepare()
    assert sorted(map(tuple, pairs.as_dataset("train", as_supervised=True))) == [
        (n, n) for n in range(3)
    ]

    class Nothing(datasets.GeneratorBasedBuilder):
        VERSION = "1.0.0"

    with pytest.raises(NotImplementedError, match="neither _info nor FEATURES"):
        Nothing(data_dir=tmp_path).info  # noqa: B018
