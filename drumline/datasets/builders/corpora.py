"""Long texts: for language models, summaries and translation."""

from __future__ import annotations

import csv
import dataclasses
import functools
import gzip
import hashlib
import importlib.resources
import io
import json
import posixpath
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

from drumline.datasets.features.containers import TranslationFeature
from drumline.datasets.features.tensors import TextFeature
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.generator import BuilderConfig, Examples, GeneratorBasedBuilder
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import ArchiveError, iter_archive, lines_of, opened
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


@dataclasses.dataclass(frozen=True)
class _Corpus:
    """Sentences and their translations.

    Attributes:
        split: to which it belongs.
        name: what it is called.
        urls: of its archives.
        paths: in each of them; empty for a file that is no archive.
    """

    split: str
    name: str
    urls: tuple[str, ...]
    paths: tuple[str, ...]


@functools.cache
def _corpora() -> Mapping[str, Mapping[str, Sequence[_Corpus]]]:
    """The corpora of each year and pair of languages, as TFDS puts them together."""
    found: dict[str, dict[str, list[_Corpus]]] = {}
    text = importlib.resources.files(__package__).joinpath("translation_corpora.tsv")
    for row in csv.reader(text.read_text("utf-8").splitlines()[1:], delimiter="\t"):
        year, pair, split, name, urls, paths = row
        places = tuple("" if path == "-" else path for path in paths.split(" "))
        corpus = _Corpus(split, name, tuple(urls.split(" ")), places)
        found.setdefault(year, {}).setdefault(pair, []).append(corpus)
    return found


class _Translations(GeneratorBasedBuilder):
    """Sentences in two languages, of a year of the Conference on Machine Translation."""

    VERSION = "1.0.0"
    RESOURCES = listed("wmt")

    def __init_subclass__(cls, **others: Any) -> None:
        super().__init_subclass__(**others)
        year = cls.name[3:5]
        cls.__doc__ = f"Sentences in two languages, of the {year}th year of WMT."
        cls.BUILDER_CONFIGS = tuple(
            BuilderConfig(pair, None, f"WMT 20{year}, {pair}") for pair in _corpora()[cls.name]
        )

    @property
    def _pair(self) -> list[str]:
        assert self.builder_config is not None
        return self.builder_config.name.split("-")

    def _info(self) -> DatasetInfo:
        year = self.name[3:5]
        return self.dataset_info(
            features=TranslationFeature(languages=self._pair),
            supervised_keys=cast(tuple[str, str], tuple(self._pair)),
            homepage=f"http://www.statmt.org/wmt{year}/translation-task.html",
            citation=f"Conference on Machine Translation: WMT 20{year}, http://www.statmt.org/wmt{year}/",
        )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        known = {resource.url: resource for resource in self.RESOURCES.values()}
        parts: dict[str, list[tuple[_Corpus, list[Path]]]] = {}
        for corpus in _corpora()[self.name]["-".join(self._pair)]:
            files = dl_manager.download([known[url] for url in corpus.urls])
            are_archives = all(corpus.paths)
            places = dl_manager.extract(files) if are_archives else files
            places = places * len(corpus.paths) if len(places) == 1 else places
            paths = [place / path for place, path in zip(places, corpus.paths, strict=True)]
            parts.setdefault(corpus.split, []).append((corpus, paths))
        return {split: self._generate_examples(each) for split, each in parts.items()}

    def _generate_examples(self, parts: list[tuple[_Corpus, list[Path]]]) -> Examples:
        for corpus, paths in parts:
            for key, sentences in self._read(corpus, paths):
                if all(sentences.values()):
                    yield f"{corpus.name}/{key}", sentences

    def _read(self, corpus: _Corpus, paths: list[Path]) -> Iterator[tuple[Any, dict[str, str]]]:
        names = corpus.paths if all(corpus.paths) else corpus.urls
        if len(paths) == 2:
            languages = [_language(name) for name in names]
            pairs = zip(
                *(_sentences(path, name) for path, name in zip(paths, names, strict=True)),
                strict=True,
            )
            key: Callable[[int], Any] = int if not all(corpus.paths) else "0/{}".format
            for number, pair in enumerate(pairs):
                yield key(number), dict(zip(languages, pair, strict=True))
        elif ".tmx" in names[0]:
            yield from _memory(paths[0])
        else:
            languages = self._pair
            if named := re.search(r"\.([a-z][a-z])-([a-z][a-z])(\.tsv|$)", names[0]):
                languages = [named[1], named[2]]
            tab = "|||" if corpus.name.startswith("wikiheadlines") else "\t"
            with io.TextIOWrapper(opened(paths[0]), "utf-8") as lines:
                for number, line in enumerate(lines):
                    cells = line.split(tab)
                    if len(cells) == 2:
                        yield number, dict(zip(languages, map(str.strip, cells), strict=True))


def _language(name: str) -> str:
    """The language of a file, which is the last part of its name but for what it ends with."""
    parts = name.split(".")
    return parts[-2] if parts[-1] in ("sgm", "gz") else parts[-1]


def _sentences(path: Path, name: str) -> Iterator[str]:
    """The sentences of a text, a line each, or of a file in SGML."""
    if not path.exists():
        raise ArchiveError(f"{path}: the archive has no such file")
    if name.endswith(".sgm"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if found := re.match(r"<seg id=\"\d+\">(.*)</seg>", line):
                yield found[1]
        return
    with opened(path) as file:
        # A carriage return may be within a sentence.
        yield from (line.decode() for line in file.read().split(b"\n"))


def _memory(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The pairs of a translation memory, by the numbers of their elements."""
    with opened(path) as file:
        for number, (_, element) in enumerate(ElementTree.iterparse(file)):
            if element.tag == "tu":
                pair = {}
                for variant in element.iterfind("tuv"):
                    language = next(v for k, v in variant.items() if k.endswith("}lang"))
                    pair[language] = variant.findtext("seg") or ""
                yield number, pair
                element.clear()


@register
class Wmt14Translate(_Translations):
    name = "wmt14_translate"


@register
class Wmt15Translate(_Translations):
    name = "wmt15_translate"


@register
class Wmt16Translate(_Translations):
    name = "wmt16_translate"


@register
class Wmt17Translate(_Translations):
    name = "wmt17_translate"


@register
class Wmt18Translate(_Translations):
    name = "wmt18_translate"


@register
class Wmt19Translate(_Translations):
    name = "wmt19_translate"
