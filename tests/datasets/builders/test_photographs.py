"""What is particular in the datasets of photographs and videos."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drumline import datasets, image
from drumline.datasets.features.connector import FeatureError
from drumline.datasets.features.containers import VideoFeature
from drumline.datasets.prepared import writing
from drumline.datasets.sources.archives import ArchiveError
from drumline.datasets.sources.download import DownloadError
from tests.datasets.builders.archives import (
    Fabricated,
    jpeg,
    prepared,
    put_by_hand,
    put_ffmpeg,
    tar,
    without_checksums,
    zipped,
)
from tests.datasets.builders.fabricated_photographs import PHOTOGRAPHS


def imagenet(files: dict[str, bytes], root: Path) -> datasets.DatasetBuilder:
    made = without_checksums(datasets.builder("imagenet2012", data_dir=root / "data"))
    made.download_and_prepare(manual_dir=put_by_hand(Fabricated(files, {}), root))
    return made


def test_tars_of_a_class_each_are_the_training_data(tmp_path: Path) -> None:
    content, picture = jpeg(3)
    inner = tar({"n15075141_7.JPEG": content}, "w")
    made = imagenet({"ILSVRC2012_img_train/n15075141.tar": inner}, tmp_path)
    assert list(made.info.splits) == ["train"]
    (found,) = made.as_dataset("train")
    np.testing.assert_array_equal(found["image"], picture)
    assert (found["label"], found["file_name"]) == (999, b"n15075141_7.JPEG")
    assert made.info.features["label"].int2str(999) == "n15075141"


def test_folders_are_taken_in_place_of_archives(tmp_path: Path) -> None:
    (first, _), (second, _) = jpeg(1), jpeg(2)
    made = imagenet(
        {
            "ILSVRC2012_img_val/ILSVRC2012_val_00000001.JPEG": first,
            "ILSVRC2012_img_test/ILSVRC2012_test_00000009.JPEG": second,
        },
        tmp_path,
    )
    found = {
        split: [(each["file_name"], int(each["label"])) for each in made.as_dataset(split)]
        for split in made.info.splits
    }
    assert found == {
        "validation": [(b"ILSVRC2012_val_00000001.JPEG", 65)],  # as the lists of TFDS say
        "test": [(b"ILSVRC2012_test_00000009.JPEG", -1)],
    }


def test_a_folder_without_the_tars_of_classes_is_named(tmp_path: Path) -> None:
    files = {"ILSVRC2012_img_train/n01440764/n01440764_1.JPEG": b"x"}
    with pytest.raises(FileNotFoundError, match=r"img_train: .* no tar file of a class in it"):
        imagenet(files, tmp_path)


def test_photographs_of_another_format_are_stored_as_the_others(tmp_path: Path) -> None:
    from PIL import Image

    smooth = np.linspace(20, 230, 16 * 16 * 3).astype(np.uint8).reshape(16, 16, 3)
    ink = io.BytesIO()
    Image.fromarray(smooth).convert("CMYK").save(ink, "JPEG", quality=95)
    files = {
        "n02105855_2933.JPEG": bytes(image.encode_png(smooth)),
        "n01739381_1309.JPEG": ink.getvalue(),
    }
    made = imagenet(
        {f"ILSVRC2012_img_train/{name[:9]}.tar": tar({name: each}) for name, each in files.items()},
        tmp_path,
    )
    skip = {"image": datasets.SkipDecoding()}
    stored = {each["file_name"]: each["image"] for each in made.as_dataset("train", decoders=skip)}
    for name in files:
        contents = stored[name.encode()]
        assert Image.open(io.BytesIO(contents)).mode == "RGB"
        pixels = np.asarray(image.decode_jpeg(contents)).astype(int)
        wanted = np.asarray(Image.open(io.BytesIO(files[name])).convert("RGB")).astype(int)
        assert np.abs(pixels - wanted).mean() < 4, name


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    (tmp_path / "manual").mkdir()
    with pytest.raises(FileNotFoundError, match=r"ILSVRC2012_img_train\.tar.*image-net\.org"):
        imagenet({}, tmp_path)
    damaged = {"ILSVRC2012_img_train.tar": tar({"n01440764.tar": b"x" * 2000}, "w")}
    with pytest.raises(ArchiveError, match=r"img_train\.tar/n01440764\.tar: .*damaged"):
        imagenet(damaged, tmp_path)
    stray = {"ILSVRC2012_img_val.tar": tar({"other.JPEG": b"x"}, "w")}
    (tmp_path / "manual" / "ILSVRC2012_img_train.tar").unlink()
    with pytest.raises(ArchiveError, match=r"other\.JPEG is none of the photographs"):
        imagenet(stray, tmp_path)


def test_an_archive_that_is_another_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ILSVRC2012_img_val.tar").write_bytes(tar({"other.JPEG": b"x"}, "w"))
    made = datasets.builder("imagenet2012", data_dir=tmp_path / "data")
    with pytest.raises(DownloadError, match=r"img_val\.tar: it has .* 6,744,924,160 are expected"):
        made.download_and_prepare(manual_dir=tmp_path)


def test_little_is_held_of_a_large_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """120 MB of photographs, of which 4 MB may be held to put them in order."""
    held = 4 << 20
    monkeypatch.setattr(writing.OrderedRecords.__init__, "__defaults__", (held,))
    random = np.random.RandomState(0)
    classes = {}
    for name in ("n01440764", "n01443537", "n01484850", "n15075141"):
        photographs = {f"{name}_{i}.JPEG": random.bytes(100_000) for i in range(300)}
        classes[f"{name}.tar"] = tar(photographs, "w")
    whole = tar(classes, "w")
    (tmp_path / "manual").mkdir()
    (tmp_path / "manual" / "ILSVRC2012_img_train.tar").write_bytes(whole)
    size = len(whole)
    del whole, classes, photographs
    made = without_checksums(datasets.builder("imagenet2012", data_dir=tmp_path / "data"))
    tracemalloc.start()
    try:
        made.download_and_prepare(manual_dir=tmp_path / "manual", num_shards=4)
        prepared_with = tracemalloc.get_traced_memory()[1]
        tracemalloc.reset_peak()
        options: Any = {"decoders": {"image": datasets.SkipDecoding()}}
        options["read_config"] = datasets.ReadConfig(try_autocache=False)  # as of more than 250 MB
        count = sum(1 for _ in made.as_dataset("train", **options).shuffle(16))
        read_with = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size > 120_000_000 and count == 1200
    assert prepared_with < held + (12 << 20)
    assert read_with < 80 << 20  # blocks that are read ahead


@pytest.mark.parametrize("name", ["coco/2017", "ucf101/ucf101_3"])
def test_a_file_that_a_list_names_has_to_be_there(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = PHOTOGRAPHS[name]().files
    url = next(url for url in files if "videos.zip" in url or "zips/val" in url)
    files[url] = zipped({"UCF101/v_Other_g01_c01.avi": b"x"})
    with pytest.raises(ArchiveError, match=r"there is no .*(jpg|avi) in it"):
        prepared(name, Fabricated(files, {}), tmp_path, monkeypatch)


def test_faces_need_their_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = PHOTOGRAPHS["celeb_a"]().files
    url = datasets.builder("celeb_a").RESOURCES["list_attr_celeba"].url  # type: ignore[attr-defined]
    files[url] = files[url].replace(b" 1 ", b" ", 1)
    with pytest.raises(ArchiveError, match="not the list it should be"):
        prepared("celeb_a", Fabricated(files, {}), tmp_path, monkeypatch)


def test_videos_need_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    feature: Any = VideoFeature((None, 9, 7, 3), "jpeg")
    frames = [jpeg(i) for i in range(2)]
    content = b"".join(b"FRAME" + each for each, _ in frames)
    (tmp_path / "a.mp4").write_bytes(content)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FeatureError, match="ffmpeg, which is not installed"):
        feature.elements(content)
    put_ffmpeg(tmp_path, monkeypatch)
    for given in (content, tmp_path / "a.mp4", str(tmp_path / "a.mp4"), io.BytesIO(content)):
        assert feature.elements(given) == [each for each, _ in frames]
    with pytest.raises(FeatureError, match="took no frames out of it"):
        feature.elements(b"no video")
    with pytest.raises(FeatureError, match=r"b\.mp4: there is no such file"):
        feature.elements(tmp_path / "b.mp4")


def test_datasets_without_a_peer_say_so() -> None:
    for name in ("imagewoof", "tiny_imagenet", "kinetics"):
        notes = datasets.builder(name, data_dir="/nowhere").info.notes
        assert any("Layout not verified" in note for note in notes)
