"""Long texts: SuperGLUE, SQuAD, summaries, and corpora for language models."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from drumline.datasets.builders.texts import FOLLOWS
from drumline.datasets.features.containers import FeaturesDict, SequenceFeature
from drumline.datasets.features.tensors import ClassLabel, TextFeature
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.generator import BuilderConfig, Examples, GeneratorBasedBuilder
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import iter_archive, lines_of
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import Resource, listed


@dataclasses.dataclass(eq=False)
class SuperGlueConfig(BuilderConfig):
    """A task of SuperGLUE.

    Attributes:
        texts: the names of its texts.
        numbers: the names of its numbers.
        labels: the names of the classes.
        resource: the name of the file, and of the folder in it.
        sizes: how many examples each split has; one split of test examples if one number.
        homepage: of the task.
    """

    texts: Sequence[str] = ()
    numbers: Sequence[str] = ()
    labels: Sequence[str] = ("False", "True")
    resource: str = ""
    sizes: Sequence[int] = ()
    homepage: str = "https://super.gluebenchmark.com/"


_WSC: dict[str, Any] = {
    "texts": ("text", "span1_text", "span2_text"),
    "numbers": ("span1_index", "span2_index"),
    "resource": "WSC",
    "sizes": (554, 104, 146),
}


def _features_of(task: SuperGlueConfig) -> dict[str, Any]:
    parts = {"multirc": ("paragraph", "question", "answer"), "record": ("passage", "query")}
    features: dict[str, Any] = {name: TextFeature() for name in task.texts}
    features |= dict.fromkeys(task.numbers, np.int32)
    if task.name in parts:
        features["idx"] = FeaturesDict(dict.fromkeys(parts[task.name], np.int32))
    else:
        features["idx"] = np.int32
    if task.name == "record":
        features |= {key: SequenceFeature(TextFeature()) for key in ("entities", "answers")}
    else:
        features["label"] = ClassLabel(names=task.labels)
    return features


_SUPER_GLUE = (
    SuperGlueConfig(
        *("boolq", None, "Questions about a passage whose answer is yes or no"),
        texts=("question", "passage"),
        resource="BoolQ",
        sizes=(9_427, 3_270, 3_245),
    ),
    SuperGlueConfig(
        *("cb", None, "Whether a clause that is embedded in a text is meant"),
        texts=("premise", "hypothesis"),
        labels=("entailment", "contradiction", "neutral"),
        resource="CB",
        sizes=(250, 56, 250),
    ),
    SuperGlueConfig(
        *("copa", None, "Which of two is the cause or the effect"),
        texts=("premise", "choice1", "choice2", "question"),
        labels=("choice1", "choice2"),
        resource="COPA",
        sizes=(400, 100, 500),
    ),
    SuperGlueConfig(
        *("multirc", None, "Answers to questions about a paragraph, several of them right"),
        texts=("paragraph", "question", "answer"),
        resource="MultiRC",
        sizes=(27_243, 4_848, 9_693),
    ),
    SuperGlueConfig(
        *("record", None, "Which entity of a passage a query leaves out"),
        texts=("passage", "query"),
        resource="ReCoRD",
        sizes=(100_730, 10_000, 10_000),
    ),
    SuperGlueConfig(
        *("rte", None, "Whether a sentence follows from a text"),
        texts=("premise", "hypothesis"),
        labels=FOLLOWS,
        resource="RTE",
        sizes=(2_490, 277, 3_000),
    ),
    SuperGlueConfig(
        *("wic", None, "Whether a word has the same meaning in two sentences"),
        texts=("word", "sentence1", "sentence2"),
        numbers=("start1", "start2", "end1", "end2"),
        resource="WiC",
        sizes=(5_428, 638, 1_400),
    ),
    SuperGlueConfig("wsc", None, "Whether a pronoun means a noun", **_WSC),
    SuperGlueConfig("wsc.fixed", None, "wsc, its spans as they are in the text", **_WSC),
    SuperGlueConfig(
        *("axb", None, "Sentences for a diagnosis"),
        texts=("sentence1", "sentence2"),
        labels=FOLLOWS,
        resource="AX-b",
        sizes=(1_104,),
    ),
    SuperGlueConfig(
        *("axg", None, "Sentences that show a bias of gender"),
        texts=("premise", "hypothesis"),
        labels=FOLLOWS,
        resource="AX-g",
        sizes=(356,),
    ),
)


@register
class SuperGlue(GeneratorBasedBuilder):
    """Eight tasks that are harder than those of GLUE, and two diagnostic sets."""

    name = "super_glue"
    VERSION = "1.0.2"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = _SUPER_GLUE
    RESOURCES = listed("super_glue")

    @property
    def _task(self) -> SuperGlueConfig:
        return cast(SuperGlueConfig, self.builder_config)

    def _files(self) -> dict[str, str]:
        if len(self._task.sizes) == 1:
            return {"test": self._task.resource}
        return {"train": "train", "validation": "val", "test": "test"}

    @property
    def resources(self) -> Mapping[str, Resource]:
        """What the configuration is made of."""
        return {self._task.resource: self.RESOURCES[self._task.resource]}

    def _info(self) -> DatasetInfo:
        task = self._task
        return self.dataset_info(
            features=_features_of(task),
            homepage=task.homepage,
            citation=(
                "A. Wang, Y. Pruksachatkun, N. Nangia, A. Singh, J. Michael, F. Hill, O. Levy, "
                "S. R. Bowman: SuperGLUE: A Stickier Benchmark for General-Purpose Language "
                "Understanding Systems, arXiv:1905.00537, 2019"
            ),
            splits=dict(zip(self._files(), task.sizes, strict=True)),
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        folder = self._task.resource
        path = dl_manager.download(self.RESOURCES[folder])
        return {
            split: self._generate_examples(lines_of(path, f"{folder}/{file}.jsonl"))
            for split, file in self._files().items()
        }

    def _generate_examples(self, lines: Iterator[str]) -> Examples:
        task = self._task
        special = {"multirc": _answers_of, "record": _queries_of}.get(task.name)
        for row in map(json.loads, lines):
            if special is not None:
                yield from special(row)
                continue
            row |= row.get("target", {})
            example = {name: row[name] for name in (*task.texts, *task.numbers)}
            if task.name == "wsc.fixed":
                example |= _span_in_text(example, "span1") | _span_in_text(example, "span2")
            label = row.get("label", -1)
            if task.name == "copa" and "label" in row:
                label = task.labels[label]
            elif isinstance(label, bool):
                label = str(label)
            yield row["idx"], {**example, "idx": row["idx"], "label": label}


def _answers_of(row: Mapping[str, Any]) -> Examples:
    """The answers of a paragraph of MultiRC."""
    paragraph = row["passage"]
    for question in paragraph["questions"]:
        for answer in question["answers"]:
            number = {
                "paragraph": row["idx"],
                "question": question["idx"],
                "answer": answer["idx"],
            }
            label = answer.get("label")
            yield (
                "_".join(map(str, number.values())),
                {
                    "paragraph": paragraph["text"],
                    "question": question["question"],
                    "answer": answer["text"],
                    "label": -1 if label is None else str(bool(label)),
                    "idx": number,
                },
            )


def _queries_of(row: Mapping[str, Any]) -> Examples:
    """The queries of a passage of ReCoRD."""
    text, spans = row["passage"]["text"], row["passage"]["entities"]
    entities = {text[span["start"] : span["end"] + 1] for span in spans}
    for query in row["qas"]:
        yield (
            query["idx"],
            {
                "passage": text,
                "query": query["query"],
                "entities": sorted(entities),
                "answers": sorted({answer["text"] for answer in query.get("answers", ())}),
                "idx": {"passage": row["idx"], "query": query["idx"]},
            },
        )


def _span_in_text(example: Mapping[str, Any], span: str) -> dict[str, Any]:
    """A span as it is written in the text: its case, and no full stop at its end."""
    text, whole = example[f"{span}_text"], example["text"]
    if text in whole or text in ("Kamenev and Zinoviev", "Kamenev, Zinoviev, and Stalin"):
        return {}
    index = 10 if "theyscold" in text and span == "span2" else example[f"{span}_index"]
    first = whole.split()[index]
    case = str.lower if first[0].islower() else str.upper
    fixed = (case(text[0]) + text[1:]).rstrip(".").replace("\n", " ")
    return {f"{span}_text": fixed, f"{span}_index": index}


@dataclasses.dataclass(eq=False)
class SquadConfig(BuilderConfig):
    """A version of SQuAD.

    Attributes:
        sizes: how many questions for training and validation there are.
    """

    sizes: Sequence[int] = ()


@register
class Squad(GeneratorBasedBuilder):
    """Questions about articles of Wikipedia; answers are parts of them, or (v2.0) there is none."""

    name = "squad"
    VERSION = "3.0.0"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = (
        SquadConfig("v1.1", None, "Version 1.1.0 of SQUAD", (87_599, 10_570)),
        SquadConfig("v2.0", None, "Version 2.0.0 of SQUAD", (130_319, 11_873)),
    )
    RESOURCES = listed("squad")

    @property
    def resources(self) -> Mapping[str, Resource]:
        """What the configuration is made of."""
        end = f"-{cast(SquadConfig, self.builder_config).name}"
        return {key: each for key, each in self.RESOURCES.items() if key.endswith(end)}

    def _info(self) -> DatasetInfo:
        config = cast(SquadConfig, self.builder_config)
        spans = {"text": TextFeature(), "answer_start": np.int32}
        names = ("title", "context", "question")
        features: dict[str, Any] = {"id": np.str_, **{name: TextFeature() for name in names}}
        features["answers"] = SequenceFeature(spans)
        if config.name == "v2.0":
            features["plausible_answers"] = SequenceFeature(spans)
            features["is_impossible"] = np.bool_
        return self.dataset_info(
            features=features,
            homepage="https://rajpurkar.github.io/SQuAD-explorer/",
            citation=(
                "P. Rajpurkar, J. Zhang, K. Lopyrev, P. Liang: SQuAD: 100,000+ Questions for "
                "Machine Comprehension of Text, EMNLP 2016"
            ),
            splits=dict(zip(("train", "validation"), config.sizes, strict=True)),
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        config = cast(SquadConfig, self.builder_config)
        files = {"train": f"train-{config.name}", "validation": f"dev-{config.name}"}
        paths = dl_manager.download({split: self.RESOURCES[file] for split, file in files.items()})
        return {split: self._generate_examples(path) for split, path in paths.items()}

    def _generate_examples(self, path: Path) -> Examples:
        for article in json.loads(path.read_text(encoding="utf-8"))["data"]:
            for paragraph in article["paragraphs"]:
                place = {"title": article.get("title", ""), "context": paragraph["context"]}
                for asked in paragraph["qas"]:
                    example = {**place, "question": asked["question"], "id": asked["id"]}
                    example["answers"] = _spans(asked["answers"])
                    if "is_impossible" in asked:
                        example["plausible_answers"] = _spans(asked.get("plausible_answers", ()))
                        example["is_impossible"] = asked["is_impossible"]
                    yield asked["id"], example


def _spans(answers: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {key: [each[key] for each in answers] for key in ("text", "answer_start")}


@register
class Lm1b(GeneratorBasedBuilder):
    """A billion words of news, a sentence each, in random order."""

    name = "lm1b"
    VERSION = "1.1.0"
    RESOURCES = listed("lm1b")

    def _info(self) -> DatasetInfo:
        return self.dataset_info(
            features={"text": TextFeature()},
            supervised_keys=("text", "text"),
            homepage="http://www.statmt.org/lm-benchmark/",
            citation=(
                "C. Chelba, T. Mikolov, M. Schuster, Q. Ge, T. Brants, P. Koehn: One Billion Word "
                "Benchmark for Measuring Progress in Statistical Language Modeling, 2013"
            ),
            splits={"train": 30_301_028, "test": 306_688},
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        path = dl_manager.download(self.RESOURCES["all"])
        kinds = {"train": "training", "test": "heldout"}
        return {
            split: self._generate_examples(path, f"/{kind}-monolingual.tokenized.shuffled/news.en")
            for split, kind in kinds.items()
        }

    def _generate_examples(self, path: Path, place: str) -> Examples:
        for name, contents in iter_archive(path):
            if place in name:
                for number, line in enumerate(io.TextIOWrapper(contents, "utf-8")):
                    yield f"{posixpath.basename(name)}_{number}", {"text": line.strip()}


@register
class Gigaword(GeneratorBasedBuilder):
    """Headlines of four million articles."""

    name = "gigaword"
    VERSION = "1.2.0"
    RESOURCES = listed("gigaword")

    def _info(self) -> DatasetInfo:
        return self.dataset_info(
            features={"document": TextFeature(), "summary": TextFeature()},
            supervised_keys=("document", "summary"),
            homepage="https://github.com/harvardnlp/sent-summary",
            citation=(
                "A. M. Rush, S. Chopra, J. Weston: A Neural Attention Model for Abstractive "
                "Sentence Summarization, EMNLP 2015; D. Graff, J. Kong, K. Chen, K. Maeda: English "
                "gigaword, LDC 2003"
            ),
            splits={"train": 3_803_957, "validation": 189_651, "test": 1_951},
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        path = dl_manager.download(self.RESOURCES["all"])
        files = {"train": "train", "validation": "dev", "test": "test"}
        return {split: self._generate_examples(path, file) for split, file in files.items()}

    def _generate_examples(self, path: Path, file: str) -> Examples:
        parts = [lines_of(path, f"org_data/{file}.{end}.txt") for end in ("src", "tgt")]
        for number, pair in enumerate(zip(*parts, strict=False)):
            document, summary = (text.strip() for text in pair)
            if file != "test":
                document, summary = (t.replace("<unk>", "UNK") for t in (document, summary))
            yield number, {"document": document, "summary": summary}


_SENTENCE_ENDS = (".", "!", "?", "'", "`", '"', "\u2019", "\u201d", ")")


@register
class CnnDailymail(GeneratorBasedBuilder):
    """Articles of CNN and the Daily Mail with their highlights, which are the summaries."""

    name = "cnn_dailymail"
    VERSION = "3.4.0"
    RESOURCES = listed("cnn_dailymail")

    def _info(self) -> DatasetInfo:
        names = ("article", "highlights", "publisher", "id")
        return self.dataset_info(
            features={name: TextFeature() for name in names},
            supervised_keys=("article", "highlights"),
            homepage="https://github.com/abisee/cnn-dailymail",
            citation=(
                "A. See, P. J. Liu, C. D. Manning: Get To The Point: Summarization with "
                "Pointer-Generator Networks, ACL 2017; K. M. Hermann et al.: Teaching Machines to "
                "Read and Comprehend, NIPS 2015"
            ),
            splits={"train": 287_113, "validation": 13_368, "test": 11_490},
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        lists = {"train": "train", "validation": "val", "test": "test"}
        return {split: self._generate_examples(paths, file) for split, file in lists.items()}

    def _generate_examples(self, paths: Mapping[str, Path], file: str) -> Examples:
        urls = paths[file].read_text(encoding="utf-8").splitlines()
        wanted = {hashlib.sha1(url.strip().encode()).hexdigest() for url in urls}
        for publisher, folder in (("cnn", "cnn/stories"), ("dm", "dailymail/stories")):
            for name, contents in iter_archive(paths[publisher]):
                found = re.fullmatch(rf"{folder}/(\w+)\.story", name)
                if found and found[1] in wanted:
                    article, highlights = _story(io.TextIOWrapper(contents, "utf-8"))
                    if article and highlights:
                        texts = {"article": article, "highlights": highlights}
                        known = {"publisher": publisher, "id": found[1]}
                        yield posixpath.basename(name), {**texts, **known}


def _story(lines: Iterable[str]) -> tuple[str, str]:
    """The article and its highlights; lines without a full stop are given one."""
    article: list[str] = []
    highlights: list[str] = []
    kept = article
    for line in map(str.strip, lines):
        if line.startswith("@highlight"):
            kept = highlights
        elif line:
            ends = line.endswith(_SENTENCE_ENDS) or "@highlight" in line
            kept.append(line if ends else f"{line}.")
    return " ".join(article), "\n".join(highlights)


@register
class Wikitext(GeneratorBasedBuilder):
    """Good articles of Wikipedia, a line each of their text, empty ones too."""

    name = "wikitext"
    VERSION = "1.0.0"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = tuple(
        BuilderConfig(f"wikitext-{size}{raw}-v1", None, f"{words} million words, {text}")
        for size, words in ((103, 103), (2, 2))
        for raw, text in (("-raw", "as they are"), ("", "rare ones are <unk>"))
    )
    RESOURCES = listed("wikitext")

    @property
    def resources(self) -> Mapping[str, Resource]:
        """What the configuration is made of."""
        assert self.builder_config is not None
        name = self.builder_config.name.removesuffix("-v1")
        return {name: self.RESOURCES[name]}

    def _info(self) -> DatasetInfo:
        return self.dataset_info(
            features={"text": TextFeature()},
            homepage="https://wikitext.smerity.com/",
            citation=(
                "S. Merity, C. Xiong, J. Bradbury, R. Socher: Pointer Sentinel Mixture Models, "
                "arXiv:1609.07843, 2016"
            ),
            license="CC BY-SA 3.0",
            disable_shuffling=True,
            notes=("Layout not verified: TFDS has no builder of this name.",),
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        assert self.builder_config is not None
        folder = self.builder_config.name.removesuffix("-v1")
        path = dl_manager.download(self.RESOURCES[folder])
        end = "raw" if folder.endswith("-raw") else "tokens"
        files = {"train": "train", "validation": "valid", "test": "test"}
        return {
            split: self._generate_examples(lines_of(path, f"{folder}/wiki.{file}.{end}"))
            for split, file in files.items()
        }

    def _generate_examples(self, lines: Iterator[str]) -> Examples:
        for number, line in enumerate(lines):
            yield number, {"text": line.rstrip("\n").strip(" ")}


_C4 = "https://huggingface.co/datasets/allenai/c4/resolve/main/"


@dataclasses.dataclass(eq=False)
class C4Config(BuilderConfig):
    """A cleaning of C4.

    Attributes:
        shards: how many files for training and for validation there are.
    """

    shards: tuple[int, int] = (1024, 8)


@register
class C4(GeneratorBasedBuilder):
    """The Colossal Clean Crawled Corpus, from the JSON files of AllenAI."""

    name = "c4"
    VERSION = "3.1.0"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = (
        C4Config("en", None, "English pages, cleaned"),
        C4Config("en.noblocklist", None, "the same, with words that others block"),
        C4Config("en.noclean", None, "English pages as they are", (7168, 64)),
        C4Config("realnewslike", None, "pages of news", (512, 1)),
    )

    def _info(self) -> DatasetInfo:
        return self.dataset_info(
            features={name: TextFeature() for name in ("text", "timestamp", "url")},
            homepage="https://huggingface.co/datasets/allenai/c4",
            citation=(
                "C. Raffel et al.: Exploring the Limits of Transfer Learning with a Unified "
                "Text-to-Text Transformer, JMLR 21, 2020"
            ),
            license="ODC-BY",
            notes=(
                "Layout not verified: TFDS makes it from Common Crawl itself. No checksum is known "
                "of its files: taken as they come. Files c4/CONFIGURATION/c4-train.*.json.gz and "
                "c4-validation.*.json.gz in manual_dir are read in place of those of the network.",
            ),
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        config = cast(C4Config, self.builder_config)
        found: dict[str, list[Path]] = {}
        for split, count in zip(("train", "validation"), config.shards, strict=True):
            own = dl_manager.manual_files(f"c4/{config.name}/c4-{split}.*.json.gz")
            names = [f"c4-{split}.{i:05d}-of-{count:05d}.json.gz" for i in range(count)]
            found[split] = own or dl_manager.download(
                [Resource(f"{_C4}{config.name}/{name}") for name in names]
            )
        return {split: self._generate_examples(paths) for split, paths in found.items()}

    def _generate_examples(self, paths: Sequence[Path]) -> Examples:
        for number, path in enumerate(paths):
            with gzip.open(path, "rt", encoding="utf-8") as lines:
                for at, line in enumerate(lines):
                    row = json.loads(line)
                    yield f"{number}_{at}", {key: row[key] for key in ("text", "timestamp", "url")}
