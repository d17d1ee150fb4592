"""Texts with labels: reviews, news, natural language inference, GLUE."""

from __future__ import annotations

import csv
import dataclasses
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from drumline.datasets.features.tensors import ClassLabel, TextFeature
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.generator import BuilderConfig, Examples, GeneratorBasedBuilder
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import iter_archive, lines_of
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import Resource, listed


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
    SUPERVISED_KEYS = ("text", "label")
    FOLDER: ClassVar[str] = ""
    CITATION = (
        "X. Zhang, J. Zhao, Y. LeCun: Character-level Convolutional Networks for Text "
        "Classification, NIPS 2015"
    )

    def _features(self) -> Mapping[str, Any]:
        texts = {name: TextFeature() for name in self.TEXTS}
        return {"label": ClassLabel(names=self.LABELS), **texts}

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
    SUPERVISED_KEYS = ("description", "label")
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
    SUPERVISED_KEYS = ("content", "label")
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


ENTAILMENT = ("entailment", "neutral", "contradiction")


def text_lines(path: Path) -> Iterator[str]:
    """The lines of a text, UTF-8."""
    with path.open(encoding="utf-8-sig") as lines:
        yield from lines


def rows_of(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Rows of a table with tabs and a head, in which quotation marks mean nothing."""
    return csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)


class _InferencePairs(GeneratorBasedBuilder):
    """Pairs of sentences: whether the second follows from the first."""

    VERSION = "1.1.0"
    FOLDER: ClassVar[str] = ""
    FILES: ClassVar[Mapping[str, str]] = {}
    SPLITS: ClassVar[Mapping[str, int]] = {}
    HOMEPAGE: ClassVar[str] = ""
    CITATION: ClassVar[str] = ""

    def _info(self) -> DatasetInfo:
        texts: dict[str, Any] = {"premise": TextFeature(), "hypothesis": TextFeature()}
        return self.dataset_info(
            features={**texts, "label": ClassLabel(names=ENTAILMENT)},
            homepage=self.HOMEPAGE,
            citation=self.CITATION,
            splits=self.SPLITS,
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        path = dl_manager.download(self.RESOURCES["all"])
        return {
            split: self._generate_examples(lines_of(path, f"{self.FOLDER}/{file}"))
            for split, file in self.FILES.items()
        }

    def _generate_examples(self, lines: Iterator[str]) -> Examples:
        raise NotImplementedError


@register
class Snli(_InferencePairs):
    """Pairs of sentences about pictures: entailment, contradiction or neither; -1 if none won."""

    name = "snli"
    FOLDER = "snli_1.0"
    FILES: ClassVar[Mapping[str, str]] = {
        "test": "snli_1.0_test.txt",
        "validation": "snli_1.0_dev.txt",
        "train": "snli_1.0_train.txt",
    }
    SPLITS: ClassVar[Mapping[str, int]] = {"test": 10_000, "validation": 10_000, "train": 550_152}
    HOMEPAGE = "https://nlp.stanford.edu/projects/snli/"
    CITATION = (
        "S. R. Bowman, G. Angeli, C. Potts, C. D. Manning: A large annotated corpus for learning "
        "natural language inference, EMNLP 2015"
    )
    RESOURCES = listed("snli")

    def _generate_examples(self, lines: Iterator[str]) -> Examples:
        for number, row in enumerate(rows_of(lines)):
            label = -1 if row["gold_label"] == "-" else row["gold_label"]
            pair = {"premise": row["sentence1"], "hypothesis": row["sentence2"]}
            yield number, {**pair, "label": label}


@register
class MultiNli(_InferencePairs):
    """Pairs of sentences of ten genres: entailment, contradiction or neither."""

    name = "multi_nli"
    FOLDER = "multinli_1.0"
    FILES: ClassVar[Mapping[str, str]] = {
        "train": "multinli_1.0_train.txt",
        "validation_matched": "multinli_1.0_dev_matched.txt",
        "validation_mismatched": "multinli_1.0_dev_mismatched.txt",
    }
    SPLITS: ClassVar[Mapping[str, int]] = {
        "train": 392_702,
        "validation_matched": 9_815,
        "validation_mismatched": 9_832,
    }
    HOMEPAGE = "https://www.nyu.edu/projects/bowman/multinli/"
    CITATION = (
        "A. Williams, N. Nangia, S. Bowman: A Broad-Coverage Challenge Corpus for Sentence "
        "Understanding through Inference, NAACL 2018"
    )
    RESOURCES = listed("multi_nli")

    def _generate_examples(self, lines: Iterator[str]) -> Examples:
        for number, line in enumerate(lines):
            row = line.strip().split("\t")
            if number and row[0] != "-":
                yield number, {"premise": row[5], "hypothesis": row[6], "label": row[0]}


@dataclasses.dataclass(eq=False)
class GlueConfig(BuilderConfig):
    """A task of GLUE.

    Attributes:
        texts: the columns of the texts, by the names of the features.
        labels: the names of the classes; none if the label is a number.
        column: of the label.
        resource: the name of the file.
        folder: in the archive.
        files: in the folder, by split.
        sizes: how many examples each split has.
        homepage: of the task.
    """

    texts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    labels: Sequence[str] = ()
    column: str = "label"
    resource: str = ""
    folder: str = ""
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sizes: Sequence[int] = ()
    homepage: str = "https://gluebenchmark.com/"


_THREE = {"train": "train", "validation": "dev", "test": "test"}
_TWO_SENTENCES = {"sentence1": "sentence1", "sentence2": "sentence2"}
_PREMISE = {"premise": "sentence1", "hypothesis": "sentence2"}
FOLLOWS = ("entailment", "not_entailment")
_MNLI: dict[str, Any] = {
    "texts": _PREMISE,
    "labels": ENTAILMENT,
    "column": "gold_label",
    "resource": "mnli",
    "folder": "MNLI",
    "homepage": "http://www.nyu.edu/projects/bowman/multinli/",
}


def _task(name: str, description: str, sizes: Sequence[int], **more: Any) -> GlueConfig:
    more = {"resource": name, "files": _THREE, **more}
    return GlueConfig(name, "2.0.0", description, sizes=sizes, **more)


_GLUE = (
    _task(
        *("cola", "Whether a sentence is grammatical English", (8_551, 1_043, 1_063)),
        texts={"sentence": "sentence"},
        labels=("unacceptable", "acceptable"),
        column="is_acceptable",
        folder="CoLA",
    ),
    _task(
        *("sst2", "Whether a sentence of a review is positive", (67_349, 872, 1_821)),
        texts={"sentence": "sentence"},
        labels=("negative", "positive"),
        folder="SST-2",
    ),
    _task(
        *("mrpc", "Whether two sentences of news mean the same", (3_668, 408, 1_725)),
        texts={"sentence1": "#1 String", "sentence2": "#2 String"},
        labels=("not_equivalent", "equivalent"),
    ),
    _task(
        *("qqp", "Whether two questions ask the same", (363_849, 40_430, 390_965)),
        texts={"question1": "question1", "question2": "question2"},
        labels=("not_duplicate", "duplicate"),
        column="is_duplicate",
        folder="QQP",
    ),
    _task(
        *("stsb", "How alike two sentences are, from 0 to 5", (5_749, 1_500, 1_379)),
        texts=_TWO_SENTENCES,
        column="score",
        folder="STS-B",
    ),
    _task(
        "mnli",
        "Whether a sentence follows from another, of ten genres",
        (392_702, 9_815, 9_832, 9_796, 9_847),
        files={
            "train": "train",
            "validation_matched": "dev_matched",
            "validation_mismatched": "dev_mismatched",
            "test_matched": "test_matched",
            "test_mismatched": "test_mismatched",
        },
        **_MNLI,
    ),
    *(
        _task(
            *(f"mnli_{kind}", f"The {kind} validation and test splits of mnli", sizes),
            files={"validation": f"dev_{kind}", "test": f"test_{kind}"},
            **_MNLI,
        )
        for kind, sizes in (("mismatched", (9_832, 9_847)), ("matched", (9_815, 9_796)))
    ),
    _task(
        *("qnli", "Whether a sentence answers a question", (104_743, 5_463, 5_463)),
        texts={"question": "question", "sentence": "sentence"},
        labels=FOLLOWS,
        folder="QNLI",
    ),
    _task(
        *("rte", "Whether a sentence follows from a text", (2_490, 277, 3_000)),
        texts=_TWO_SENTENCES,
        labels=FOLLOWS,
        folder="RTE",
    ),
    _task(
        *("wnli", "Whom a pronoun means", (635, 71, 146)),
        texts=_TWO_SENTENCES,
        labels=FOLLOWS[::-1],
        folder="WNLI",
    ),
    _task(
        *("ax", "Sentences for a diagnosis; there are no labels", (1_104,)),
        texts=_PREMISE,
        labels=ENTAILMENT,
        column="",
        files={"test": ""},
    ),
)


@register
class Glue(GeneratorBasedBuilder):
    """The General Language Understanding Evaluation: nine tasks and a diagnostic set."""

    name = "glue"
    VERSION = "2.0.0"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = _GLUE
    RESOURCES = listed("glue")

    @property
    def resources(self) -> Mapping[str, Resource]:
        """What the configuration is made of."""
        name = cast(GlueConfig, self.builder_config).resource
        return {
            key: each
            for key, each in self.RESOURCES.items()
            if key == name or key.startswith(f"{name}_")
        }

    def _info(self) -> DatasetInfo:
        config = cast(GlueConfig, self.builder_config)
        label: Any = ClassLabel(names=config.labels) if config.labels else np.float32
        return self.dataset_info(
            features={
                **{name: TextFeature() for name in config.texts},
                "label": label,
                "idx": np.int32,
            },
            homepage=config.homepage,
            citation=(
                "A. Wang, A. Singh, J. Michael, F. Hill, O. Levy, S. R. Bowman: GLUE: A Multi-Task "
                "Benchmark and Analysis Platform for Natural Language Understanding, ICLR 2019"
            ),
            splits=dict(zip(config.files, config.sizes, strict=True)),
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        config = cast(GlueConfig, self.builder_config)
        if config.name == "mrpc":
            names = ("train", "test", "dev_ids")
            paths = dl_manager.download({name: self.RESOURCES[f"mrpc_{name}"] for name in names})
            return {
                split: _paraphrases(config, paths, file) for split, file in config.files.items()
            }
        path = dl_manager.download(self.RESOURCES[config.resource])
        return {split: self._generate_examples(path, file) for split, file in config.files.items()}

    def _generate_examples(self, path: Path, file: str) -> Examples:
        config = cast(GlueConfig, self.builder_config)
        lines = lines_of(path, f"{config.folder}/{file}.tsv") if file else text_lines(path)
        rows = rows_of(lines)
        if config.name == "cola" and file != "test":  # which has no head
            cells = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
            rows = ({"sentence": row[3], "is_acceptable": row[1]} for row in cells)
        for number, row in enumerate(rows):
            example = {name: row[column] for name, column in config.texts.items()}
            example["label"] = _label_of(row, config)
            if None not in example.values():  # of a line that is cut off
                yield number, {**example, "idx": number}


def _label_of(row: Mapping[str, Any], config: GlueConfig) -> Any:
    if config.column not in row:
        return -1
    label = row[config.column]
    if not config.labels:
        return float(label)
    if label in config.labels:
        return label
    return int(label) if label else None


def _paraphrases(config: GlueConfig, paths: Mapping[str, Path], file: str) -> Examples:
    """Yield the examples of mrpc, whose training data have those for validation in them."""
    ids = {
        tuple(line.split("\t")[:2])
        for line in paths["dev_ids"].read_text(encoding="utf-8").splitlines()
    }
    source = paths["test" if file == "test" else "train"]
    for number, row in enumerate(rows_of(text_lines(source))):
        is_validation = (row["#1 ID"], row["#2 ID"]) in ids
        if file == "test" or is_validation == (file == "dev"):
            texts = {name: row[column] for name, column in config.texts.items()}
            label = -1 if file == "test" else int(row["Quality"])
            yield number, {**texts, "label": label, "idx": number}
