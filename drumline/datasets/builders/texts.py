"""Texts with labels: reviews and news."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from drumline.datasets.features.tensors import ClassLabel, TextFeature
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.generator import BuilderConfig, Examples, GeneratorBasedBuilder
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import iter_archive
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import Resource


@register
class ImdbReviews(GeneratorBasedBuilder):
    """Reviews of films, good and bad ones, and many without a label."""

    name = "imdb_reviews"
    VERSION = "1.0.0"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = (
        BuilderConfig("plain_text", description="Plain text"),
    )
    RESOURCES: ClassVar[Mapping[str, Resource]] = {
        "all": Resource(
            "http://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
            84125825,
            "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe",
        )
    }

    def _info(self) -> DatasetInfo:
        return self.dataset_info(
            features={"text": TextFeature(), "label": ClassLabel(names=["neg", "pos"])},
            supervised_keys=("text", "label"),
            homepage="http://ai.stanford.edu/~amaas/data/sentiment/",
            citation=(
                "A. L. Maas, R. E. Daly, P. T. Pham, D. Huang, A. Y. Ng, C. Potts: Learning Word "
                "Vectors for Sentiment Analysis, ACL 2011"
            ),
            splits={"train": 25_000, "test": 25_000, "unsupervised": 50_000},
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        path = dl_manager.download(self.RESOURCES["all"])
        return {
            "train": self._generate_examples(path, "aclImdb/train/(?P<label>neg|pos)/"),
            "test": self._generate_examples(path, "aclImdb/test/(?P<label>neg|pos)/"),
            "unsupervised": self._generate_examples(path, "aclImdb/train/unsup/"),
        }

    def _generate_examples(self, path: Path, pattern: str) -> Examples:
        for name, contents in iter_archive(path):
            found = re.match(pattern, name)
            if found:
                text = contents.read().strip()
                yield name, {"text": text, "label": found.groupdict().get("label", -1)}


class _CsvSet(GeneratorBasedBuilder):
    """Files of comma-separated values in an archive, a label from 1 on and texts in each row."""

    VERSION = "1.0.0"
    TEXTS: ClassVar[Sequence[str]] = ()
    LABELS: ClassVar[Sequence[str]] = ()
    SUPERVISED: ClassVar[tuple[str, str]] = ("text", "label")
    FOLDER: ClassVar[str] = ""
    SPLITS: ClassVar[Mapping[str, int]] = {}
    HOMEPAGE: ClassVar[str] = ""

    def _info(self) -> DatasetInfo:
        texts: dict[str, Any] = {name: TextFeature() for name in self.TEXTS}
        return self.dataset_info(
            features={"label": ClassLabel(names=self.LABELS), **texts},
            supervised_keys=self.SUPERVISED,
            homepage=self.HOMEPAGE,
            citation=(
                "X. Zhang, J. Zhao, Y. LeCun: Character-level Convolutional Networks for Text "
                "Classification, NIPS 2015"
            ),
            splits=self.SPLITS,
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        path = dl_manager.download(self.RESOURCES["all"])
        return {split: self._generate_examples(path, split) for split in self.SPLITS}

    def _generate_examples(self, path: Path, split: str) -> Examples:
        for name, contents in iter_archive(path):
            if name == f"{self.FOLDER}/{split}.csv":
                rows = csv.reader(io.TextIOWrapper(contents, "utf-8", newline=""))
                for index, (label, *texts) in enumerate(rows):
                    example = dict(zip(self.TEXTS, texts, strict=True))
                    yield index, {"label": int(label) - 1, **example}


@register
class AgNewsSubset(_CsvSet):
    """News of the world, of sports, business and science."""

    name = "ag_news_subset"
    TEXTS = ("title", "description")
    LABELS = ("World", "Sports", "Business", "Sci/Tech")
    SUPERVISED = ("description", "label")
    FOLDER = "ag_news_csv"
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 120_000, "test": 7_600}
    HOMEPAGE = "https://arxiv.org/abs/1509.01626"
    RESOURCES: ClassVar[Mapping[str, Resource]] = {
        "all": Resource(
            "https://drive.google.com/uc?export=download&id=0Bz8a_Dbh9QhbUDNpeUdjb0wxRms",
            11784327,
            "4e2fc37d369e6e317a8b62d0d2f11d379f8c3dde60c07c35a46b069a246498ad",
            "ag_news_csv.tar.gz",
        )
    }


@register
class YelpPolarityReviews(_CsvSet):
    """Reviews of Yelp, bad (class 1) and good ones (class 2)."""

    name = "yelp_polarity_reviews"
    VERSION = "0.2.0"
    TEXTS = ("text",)
    LABELS = ("1", "2")
    FOLDER = "yelp_review_polarity_csv"
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 560_000, "test": 38_000}
    HOMEPAGE = "https://course.fast.ai/datasets"
    RESOURCES: ClassVar[Mapping[str, Resource]] = {
        "all": Resource(
            "https://s3.amazonaws.com/fast-ai-nlp/yelp_review_polarity_csv.tgz",
            166373201,
            "528f22e286cad085948acbc3bea7e58188416546b0e364d0ae4ca0ce666abe35",
        )
    }

    def _generate_examples(self, path: Path, split: str) -> Examples:
        for name, contents in iter_archive(path):
            if name == f"{self.FOLDER}/{split}.csv":
                lines = io.TextIOWrapper(contents, "utf-8")
                for index, line in enumerate(
                    lines
                ):  # '"1","Text with "" and \\n."', as TFDS cuts it
                    yield index, {"text": line[5:-2].strip(), "label": line[1]}


@register
class TinyShakespeare(GeneratorBasedBuilder):
    """Forty thousand lines of Shakespeare's plays, as one text in each split."""

    name = "tiny_shakespeare"
    VERSION = "1.0.0"
    RESOURCES: ClassVar[Mapping[str, Resource]] = {
        "all": Resource(
            "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/"
            "input.txt",
            1115394,
            "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
        )
    }

    def _info(self) -> DatasetInfo:
        return self.dataset_info(
            features={"text": TextFeature()},
            homepage="https://github.com/karpathy/char-rnn/blob/master/data/tinyshakespeare/input.txt",
            citation="A. Karpathy: char-rnn, https://github.com/karpathy/char-rnn, 2015",
            splits={"train": 1, "validation": 1, "test": 1},
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        text = dl_manager.download(self.RESOURCES["all"]).read_bytes().decode()
        first = int(len(text) * 0.9)
        second = first + int((len(text) - first) * 0.5)
        parts = {"train": text[:first], "validation": text[first:second], "test": text[second:]}
        return {split: [(split, {"text": part})] for split, part in parts.items()}
