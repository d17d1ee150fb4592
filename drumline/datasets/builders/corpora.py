"""Long texts: for language models and summaries."""

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
from typing import ClassVar, cast

from drumline.datasets.features.tensors import TextFeature
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.generator import BuilderConfig, Examples, GeneratorBasedBuilder
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import iter_archive, lines_of
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import Resource, listed


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
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "Files c4/CONFIGURATION/c4-train.*.json.gz and c4-validation.*.json.gz that are there are "
        "read in place of those of the network."
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
            notes=("Layout not verified: TFDS makes it from Common Crawl itself.",),
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
