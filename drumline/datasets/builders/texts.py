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
from drumline.datasets.sources.resource import listed


@register
class ImdbReviews(GeneratorBasedBuilder):
    """Reviews of films, good and bad ones, and many without a label."""

    name = "imdb_reviews"
    VERSION = "1.0.0"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = (
        BuilderConfig("plain_text", description="Plain text"),
    )
    RESOURCES = listed("imdb_reviews")

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
    NOTES: ClassVar[Sequence[str]] = ()

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
            notes=self.NOTES,
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
    RESOURCES = listed("ag_news_subset")


@register
class AmazonPolarity(_CsvSet):
    """Reviews of Amazon, bad and good ones."""

    name = "amazon_polarity"
    TEXTS = ("title", "content")
    LABELS = ("negative", "positive")
    SUPERVISED = ("content", "label")
    FOLDER = "amazon_review_polarity_csv"
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 3_600_000, "test": 400_000}
    HOMEPAGE = "https://registry.opendata.aws/fast-ai-nlp/"
    NOTES = ("Layout not verified: TFDS has no builder of this name.",)
    RESOURCES = listed("amazon_polarity")


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
    RESOURCES = listed("yelp_polarity_reviews")

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
    RESOURCES = listed("tiny_shakespeare")

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
