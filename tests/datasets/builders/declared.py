"""What every builder declares of its data: how many examples, and what classes are called."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.generator import GeneratorBasedBuilder
from drumline.datasets.prepared.info_json import labels_in
from drumline.datasets.registry import builder_class


def described(name: str) -> Iterator[DatasetInfo]:
    """Yield the descriptions of a dataset's configurations, of which nothing is prepared."""
    cls: Any = builder_class(name)
    assert issubclass(cls, GeneratorBasedBuilder)
    for config in cls.BUILDER_CONFIGS or [None]:
        yield cls("/nowhere", config).info


def digest_of(name: str) -> str:
    """Return eight hexadecimal digits of what a dataset declares, in all its configurations."""
    digest = hashlib.sha256()
    for info in described(name):
        digest.update(f"{info.full_name} {info.splits.sizes} {info.supervised_keys}".encode())
        for path, label in labels_in(info.features).items():
            digest.update(f"{path} {label.names}".encode())
    return digest.hexdigest()[:8]


DECLARED = {
    "ag_news_subset": "b006e429",
    "amazon_polarity": "a334f1bd",
    "c4": "9cb10acf",
    "california_housing": "3471eabe",
    "caltech101": "a064799b",
    "caltech_birds2011": "32c45b4c",
    "cars196": "44d10f6d",
    "cats_vs_dogs": "1f3caf53",
    "celeb_a": "069ba868",
    "cifar10": "87019cbb",
    "cifar100": "71f3ccaf",
    "cnn_dailymail": "e1f52d60",
    "coco": "7f80c228",
    "common_voice": "d2603942",
    "criteo_terabyte": "bec2bf3e",
    "dtd": "25fa3fe5",
    "emnist": "fe43914e",
    "esc50": "6742bf2c",
    "eurosat": "9602d03e",
    "fashion_mnist": "89b15aed",
    "food101": "08e96525",
    "forest_fires": "ef268f21",
    "german_credit_numeric": "439c4244",
    "gigaword": "eb43ab32",
    "glue": "0795126f",
    "gtzan": "b0e71494",
    "higgs": "8cb88ce7",
    "horses_or_humans": "dcad4d98",
    "imagenet2012": "2c3cecd9",
    "imagenette": "c113235a",
    "imagewoof": "311db10c",
    "imdb_reviews": "e578240e",
    "iris": "c48920db",
    "kinetics": "ce5738a5",
    "kmnist": "9dc81d66",
    "lfw": "0a87784b",
    "librispeech": "15c2013e",
    "ljspeech": "1ecdf9cb",
    "lm1b": "999f9704",
    "malaria": "16da119d",
    "mnist": "9f2efab2",
    "movielens": "7bbdb67f",
    "moving_mnist": "065212df",
    "multi_nli": "a4e64dca",
    "omniglot": "4af18dc4",
    "oxford_flowers102": "035c9219",
    "oxford_iiit_pet": "78d84eaf",
    "patch_camelyon": "007960c1",
    "penguins": "e1101de9",
    "places365_small": "adcceb7b",
    "rock_paper_scissors": "cf210d5c",
    "snli": "909ca589",
    "speech_commands": "708c1ae1",
    "squad": "56f5de5e",
    "stanford_dogs": "dd2aef52",
    "stl10": "8bd35c7f",
    "super_glue": "fa8a8ff8",
    "svhn_cropped": "3fc8d342",
    "tf_flowers": "f15d7e5c",
    "tiny_imagenet": "1f8eaa5b",
    "tiny_shakespeare": "20e6dd28",
    "titanic": "3d7ee594",
    "ucf101": "f175e5c7",
    "voc": "2ab78268",
    "wikitext": "2fa62d7b",
    "wine_quality": "4e796bbc",
    "wmt14_translate": "10979c46",
    "wmt15_translate": "a1ef0f8a",
    "wmt16_translate": "6a35a1be",
    "wmt17_translate": "152cd990",
    "wmt18_translate": "dc02e9b6",
    "wmt19_translate": "dc71d295",
    "wmt_t2t_translate": "cfab29a7",
    "yelp_polarity_reviews": "0d73f75d",
}
"""Digests, by name. Where TFDS is installed, the names of classes are compared with its own."""
