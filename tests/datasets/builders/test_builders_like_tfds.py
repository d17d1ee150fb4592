"""TFDS's own builders read the same archives to the same examples, in the same order."""

from __future__ import annotations

import importlib
import io
import re
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drumline import datasets
from drumline.datasets.prepared.info_json import labels_in
from drumline.datasets.registry import builder_class
from tests.datasets.builders.archives import Fabricated, prepared, put_by_hand, put_ffmpeg
from tests.datasets.builders.declared import DECLARED, described
from tests.datasets.builders.fabricated import FABRICATED
from tests.datasets.builders.fabricated_sounds import SOUNDS
from tests.datasets.builders.fabricated_translations import wmt19_frde
from tests.datasets.prepared.every_feature import plain

tfds = pytest.importorskip(
    "tensorflow_datasets", reason="compares with TensorFlow Datasets (the extra `reference`)"
)

NOT_THERE = (
    "amazon_polarity",
    "c4",
    "california_housing",
    "common_voice",
    "criteo_terabyte",
    "esc50",
    "wikitext",
)
"""Which TFDS does not make, not from these files, or by Apache Beam."""
ENCODED_AGAIN = ("cats_vs_dogs",)
"""Whose pictures TFDS encodes again, and counts damaged files."""


OF_JPEGS = (
    "tf_flowers",
    "imagenette",
    "eurosat",
    "food101",
    "dtd",
    "oxford_iiit_pet",
    "oxford_flowers102",
    "imagenet2012",
    "places365_small",
    "lfw",
    "caltech101",
    "celeb_a",
    "stanford_dogs",
    "cars196",
    "caltech_birds2011",
    "voc",
    "coco",
    "ucf101",
)
NOT_IN_TFDS = ("imagewoof", "tiny_imagenet", "kinetics")
"""Whose layout is not verified: their notes say so."""


def read_sounds_without_ffmpeg(name: str, patch: pytest.MonkeyPatch) -> None:
    """Let TFDS read WAV by pydub, and FLAC, for which that needs ffmpeg, by soundfile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what pydub imports, and of ffmpeg
        pytest.importorskip("pydub", reason="TFDS reads sound with pydub (the extra `reference`)")
    if name == "librispeech/default":
        module = importlib.import_module("tensorflow_datasets.core.features.audio_feature")
        library = pytest.importorskip("soundfile")

        def read(file: Any, kind: str, channels: int) -> np.ndarray:
            return library.read(io.BytesIO(file.read()), dtype="int16")[0]

        patch.setattr(module, "_pydub_load_audio", read)


def theirs(name: str, files: Fabricated, root: Path, patch: pytest.MonkeyPatch) -> Any:
    """Return TFDS's builder, prepared from these files."""
    from etils import epath

    from drumline.datasets.sources.archives import ArchiveError, extract, opened

    manager = tfds.download.DownloadManager
    folder = root / "theirs"
    folder.mkdir()

    def download(self: Any, nested: Any) -> Any:
        def one(url: Any) -> Any:
            url = getattr(url, "url", url)
            name = re.sub(r"\W+download=1$", "", url).rpartition("/")[2].rpartition("=")[2]
            if files.files[url].startswith(b"PK") and "." not in name:
                name += ".zip"
            path = folder / name
            path.write_bytes(files.files[url])
            return epath.Path(path)

        return tfds.core.utils.map_nested(one, nested)

    def unpack(self: Any, nested: Any) -> Any:
        def one(path: Any) -> Any:
            target = Path(f"{path}.out")
            try:
                if str(path).endswith(".mat"):
                    return epath.Path(path)
                if str(path).endswith(".gz") and not str(path).endswith(".tar.gz"):
                    target.write_bytes(opened(path).read())
                    return epath.Path(target)
                return epath.Path(extract(Path(path), target))
            except ArchiveError:
                return epath.Path(path)

        return tfds.core.utils.map_nested(one, nested)

    patch.setattr(manager, "download", download)
    patch.setattr(manager, "extract", unpack)
    patch.setattr(manager, "download_and_extract", lambda s, n: unpack(s, download(s, n)))
    if name in SOUNDS:
        read_sounds_without_ffmpeg(name, patch)
    made = tfds.builder(name, data_dir=str(root / "made"))
    if "mnist" in name:
        module = importlib.import_module("tensorflow_datasets.image_classification.mnist")
        patch.setattr(module, "_TRAIN_EXAMPLES", 12)
        patch.setattr(module, "_TEST_EXAMPLES", 5)
    if name.startswith("emnist"):
        made.builder_config.train_examples, made.builder_config.test_examples = 12, 5
    if name == "caltech101":
        draw_in_order(patch)
    if name == "caltech_birds2011":
        patch.setitem(sys.modules, "cv2", OpenCv)
    put_ffmpeg(root, patch)
    config = tfds.download.DownloadConfig(manual_dir=str(put_by_hand(files, root)))
    made.download_and_prepare(download_config=config)
    return made


def draw_in_order(patch: pytest.MonkeyPatch) -> None:
    """Let TFDS see files in the order of their names, not in that of the file system."""
    import tensorflow as tf

    listdir, walk = tf.io.gfile.listdir, tf.io.gfile.walk
    patch.setattr(tf.io.gfile, "listdir", lambda path: sorted(listdir(path)))
    patch.setattr(
        tf.io.gfile,
        "walk",
        lambda path: (
            (root, sorted(folders), sorted(files)) for root, folders, files in walk(path)
        ),
    )


class OpenCv:
    """What TFDS uses of OpenCV, which is not installed."""

    @staticmethod
    def imdecode(contents: Any, flags: int) -> np.ndarray:
        """Decode a picture to gray."""
        from PIL import Image

        assert flags == 0
        return np.asarray(Image.open(io.BytesIO(contents.tobytes())).convert("L"))


def label_at(features: Any, path: str) -> Any:
    """Return the classes of TFDS's that `labels_in` gives under a path."""
    for name in path.split("-"):
        features = getattr(features, "feature", features)
        features = {key.replace("/", "."): each for key, each in features.items()}[name]
    return getattr(features, "feature", features)


@pytest.mark.parametrize("name", sorted({*DECLARED} - {*NOT_THERE, *NOT_IN_TFDS}))
def test_classes_have_the_same_names(name: str, tmp_path: Path) -> None:
    """Before anything is prepared; what is read of an archive is compared when it was."""
    for mine in described(name):
        labels = {path: each for path, each in labels_in(mine.features).items() if each.has_names}
        if not labels:
            continue
        other = tfds.builder(mine.full_name.rpartition("/")[0], data_dir=str(tmp_path)).info
        for path, label in labels.items():
            names = label_at(other.features, path).names
            of_archive = names == [str(number) for number in range(len(names))]
            assert label.names == names or of_archive, path


COMPARED = [
    name
    for name in FABRICATED
    if name not in ENCODED_AGAIN and name.partition("/")[0] not in (*NOT_THERE, *NOT_IN_TFDS)
]


@pytest.mark.parametrize("name", COMPARED)
def test_the_same_examples_in_the_same_order(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = FABRICATED[name]()
    mine = prepared(name, made, tmp_path, monkeypatch)
    if name == "wmt19_translate/fr-de":  # TFDS takes one corpus's languages for one another
        made = wmt19_frde(swapped=True)
    other = theirs(name, made, tmp_path, monkeypatch)
    assert mine.info.full_name == other.info.full_name
    assert other.info.supervised_keys in (None, mine.info.supervised_keys)
    assert {n: s.num_examples for n, s in other.info.splits.items()} == mine.info.splits.sizes
    for path, label in labels_in(mine.info.features).items():
        assert label.names == label_at(other.info.features, path).names, path
    # Files of JPEG are compared as they are stored: TensorFlow decodes by the fast transform.
    stored = "image" if name.partition("/")[0] in OF_JPEGS else ""
    if name == "librispeech/lazy_decode":  # TFDS decodes it by tensorflow_io
        stored = "speech"
    if name.startswith("ucf101"):
        stored = "video"
    ours = {stored: datasets.SkipDecoding()} if stored else None
    skip = {stored: tfds.decode.SkipDecoding()} if stored else None
    for split in mine.info.splits:
        read = mine.as_dataset(split, decoders=ours)
        pairs = zip(read, other.as_dataset(split=split, decoders=skip), strict=True)
        for number, (a, b) in enumerate(pairs):
            assert sorted(a) == sorted(b)
            for key, value in a.items():
                if name.startswith("penguins"):  # of NaN
                    np.testing.assert_array_equal(value, b[key].numpy())
                else:
                    assert plain(value) == plain(b[key]), (split, number, key)


CWMT_SERVER = "ftp://cwmt-wmt:cwmt-wmt@nlp.nju.edu.cn/parallel/"
YEARS = [f"wmt{year}_translate" for year in range(14, 20)]


@pytest.mark.parametrize("name", [*YEARS, "wmt_t2t_translate"])
def test_pairs_of_languages_are_made_of_the_same_files(name: str, tmp_path: Path) -> None:
    corpora = importlib.import_module("tensorflow_datasets.translate.wmt").DATASET_MAP
    ours: Any = builder_class(name)
    named = [config.name for config in ours.BUILDER_CONFIGS]
    assert named == [config.name for config in tfds.builder_cls(name).BUILDER_CONFIGS]
    for config in ours.BUILDER_CONFIGS:
        source = config.languages[0]
        known = tfds.builder(f"{name}/{config.name}", data_dir=str(tmp_path)).subsets
        found = {split: [part.name for part in parts] for split, parts in config.parts.items()}
        assert {str(split): parts for split, parts in known.items()} == found
        for part in {part for parts in config.parts.values() for part in parts}:
            theirs = corpora[part.name]
            manual = theirs.get_manual_dl_files(source)
            urls = [url.removeprefix(CWMT_SERVER) for url in theirs.get_url(source)]
            filters = [url for url in part.files(source) if "czeng16_to_17" in url]
            assert sorted(part.files(source)) == sorted([*(manual or urls), *filters])
            if not part.name.startswith("czeng"):
                assert [path for path in theirs.get_path(source) if path] == part.members(source)
