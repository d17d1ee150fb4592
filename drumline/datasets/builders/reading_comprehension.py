"""Tasks for models that understand whole texts: SuperGLUE, SQuAD."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from drumline.datasets.builders.language_understanding import FOLLOWS
from drumline.datasets.features.containers import FeaturesDict, SequenceFeature
from drumline.datasets.features.tensors import ClassLabel, TextFeature
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.generator import BuilderConfig, Examples, GeneratorBasedBuilder
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import lines_of
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import listed


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


@register
class SuperGlue(GeneratorBasedBuilder):
    """Eight tasks that are harder than those of GLUE, and two diagnostic sets."""

    name = "super_glue"
    VERSION = "1.0.2"
    BUILDER_CONFIGS: ClassVar[Sequence[BuilderConfig]] = (
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
    RESOURCES = listed("super_glue")

    @property
    def _task(self) -> SuperGlueConfig:
        return cast(SuperGlueConfig, self.builder_config)

    def _files(self) -> dict[str, str]:
        if len(self._task.sizes) == 1:
            return {"test": self._task.resource}
        return {"train": "train", "validation": "val", "test": "test"}

    def _info(self) -> DatasetInfo:
        task = self._task
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
        return self.dataset_info(
            features=features,
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
