"""What of prepared files is read, in which order, and what of it is decoded."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from drumline import datasets, image
from drumline.data import TensorSpec
from drumline.datasets.features import FeatureError, Image, Sequence
from tests.datasets.prepared.numbered_files import numbers, write


def read(root: Path, split: str = "train", **config: Any) -> Any:
    shuffle_files = "shuffle_seed" in config
    return datasets.load(
        "numbers",
        split=split,
        data_dir=root,
        shuffle_files=shuffle_files,
        read_config=datasets.ReadConfig(**config),
    )


def test_an_identity_is_the_file_and_the_number_in_it(tmp_path: Path) -> None:
    write(tmp_path, {"train": [4, 3, 5]})
    found = {
        int(each["n"]): each["tfds_id"] for each in read(tmp_path, "train[2:9]", add_tfds_id=True)
    }
    places = {2: (0, 2), 3: (0, 3), 4: (1, 0), 5: (1, 1), 6: (1, 2), 7: (2, 0), 8: (2, 1)}
    assert found == {
        n: f"numbers-train.tfrecord-{file:05d}-of-00003__{number}".encode()
        for n, (file, number) in places.items()
    }


def test_of_several_workers_each_reads_every_so_many_th_file(tmp_path: Path) -> None:
    write(tmp_path, {"train": [2, 3, 1, 2, 3]})
    found = [
        sorted(
            numbers(
                read(
                    tmp_path,
                    input_context=SimpleNamespace(num_input_pipelines=2, input_pipeline_id=i),
                )
            )
        )
        for i in (0, 1)
    ]
    assert found == [[0, 1, 5, 8, 9, 10], [2, 3, 4, 6, 7]]
    with pytest.raises(ValueError, match="5 files are to be read by 6 workers"):
        read(tmp_path, input_context=SimpleNamespace(num_input_pipelines=6, input_pipeline_id=0))


def test_the_order_of_files_is_that_of_the_seed(tmp_path: Path) -> None:
    write(tmp_path, {"train": [1] * 12})
    first, second = (read(tmp_path, shuffle_seed=7) for _ in range(2))
    order = numbers(first)
    assert sorted(order) == list(range(12)) and order != list(range(12))
    assert numbers(second) == order and numbers(read(tmp_path, shuffle_seed=8)) != order
    assert numbers(first) != order
    same = read(tmp_path, shuffle_seed=7, shuffle_reshuffle_each_iteration=False)
    assert numbers(same) == numbers(same)


class Pictures(datasets.GeneratorBasedBuilder):
    """Pictures at several depths."""

    VERSION = "1.0.0"
    FEATURES: ClassVar[Any] = {
        "image": Image((3, 2, 1)),
        "several": Sequence(Image((3, 2, 1))),
        "inside": {"image": Image((3, 2, 1)), "n": np.int64},
        "steps": Sequence({"image": Image((3, 2, 1)), "n": np.int64}),
    }

    def _split_generators(self, dl_manager: Any) -> Any:
        return {"train": self._generate_examples()}

    def _generate_examples(self) -> Any:
        for n in range(3):
            one = np.full((3, 2, 1), n, np.uint8)
            inside = {"image": one, "n": n}
            yield n, {"image": one, "several": [one] * n, "inside": inside, "steps": [inside] * 2}


@pytest.fixture
def pictures(tmp_path: Path) -> Pictures:
    made = Pictures(data_dir=tmp_path)
    made.download_and_prepare()
    return made


def is_file_of(stored: Any, n: int) -> bool:
    return bool((np.asarray(image.decode_png(stored)) == n).all())


def test_what_is_skipped_is_given_as_it_is_stored(pictures: Pictures) -> None:
    skip = datasets.SkipDecoding()
    decoders = {
        "image": skip,
        "several": skip,
        "inside": {"image": skip},
        "steps": {"image": skip},
    }
    for each in pictures.as_dataset("train", decoders=decoders):
        n = int(each["inside"]["n"])
        files = [each["image"], *each["several"], each["inside"]["image"], *each["steps"]["image"]]
        assert len(files) == n + 4 and all(is_file_of(file, n) for file in files)
        assert list(each["steps"]["n"]) == [n, n]
    for name in ("image", "several"):  # the others are decoded
        (first, *_) = pictures.as_dataset("train", decoders={name: skip})
        n = int(first["inside"]["n"])
        np.testing.assert_array_equal(first["inside"]["image"], np.full((3, 2, 1), n))
        assert first["steps"]["image"].shape == (2, 3, 2, 1)
    for wrong, error in (({"picture": skip}, FeatureError), ({"image": True}, TypeError)):
        with pytest.raises(error, match="decoders: "):
            pictures.as_dataset("train", decoders=wrong)


def test_a_function_decodes(pictures: Pictures) -> None:
    @datasets.make_decoder()
    def brighter(stored: Any, feature: Any, by: int) -> Any:
        assert feature.shape == (3, 2, 1)
        return image.decode_png(stored) + by

    decoders = {"image": brighter(by=5)}
    for each in pictures.as_dataset("train", decoders=decoders):
        assert (each["image"] == int(each["inside"]["n"]) + 5).all()


def test_nothing_is_read_but_what_is_chosen(pictures: Pictures) -> None:
    few = datasets.PartialDecoding({"inside": {"n"}, "steps": {"n": True, "image": False}})
    found = pictures.as_dataset("train", decoders=few)
    assert found.element_spec["inside"] == {"n": TensorSpec((), np.int64)}
    assert sorted(found.element_spec) == ["inside", "steps"]
    assert list(found.element_spec["steps"]) == ["n"]
    assert sorted(int(each["inside"]["n"]) for each in found) == [0, 1, 2]
    skip = datasets.PartialDecoding(["image"], decoders={"image": datasets.SkipDecoding()})
    for each in pictures.as_dataset("train", decoders=skip):
        assert list(each) == ["image"] and isinstance(each["image"], bytes)
    with pytest.raises(FeatureError, match="PartialDecoding has no 'label'"):
        pictures.as_dataset("train", decoders=datasets.PartialDecoding({"label": True}))
