"""Sentences and their translations: the tasks of the Conferences on Machine Translation."""

from __future__ import annotations

import dataclasses
import fnmatch
import gzip
import io
import itertools
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, cast
from xml.etree import ElementTree

from drumline.datasets.features.containers import TranslationFeature
from drumline.datasets.info import DatasetInfo
from drumline.datasets.prepared.generator import DeclaredConfig, Examples, GeneratorBasedBuilder
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import iter_archive, member_of, opened
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import listed


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A part of the data of one or several years.

    In templates ``{src}`` stands for the source language, ``{0}`` and ``{1}`` for both in
    alphabetical order.

    Attributes:
        name: of it; examples' keys begin with it.
        sources: the codes of the source languages it has.
        urls: templates of the URLs of files: one, or one for each of two languages; or the names
            of files that cannot be downloaded.
        paths: templates of the paths in an archive: one, or one for each of two languages.
        target: the code of the target language.
    """

    name: str
    sources: str
    urls: tuple[str, ...]
    paths: tuple[str, ...] = ()
    target: str = "en"

    def has(self, languages: tuple[str, str]) -> bool:
        """Whether it has a pair of languages."""
        return languages[0] in self.sources.split() and languages[1] == self.target

    def files(self, source: str) -> list[str]:
        """The URLs and names of its files."""
        return [self._filled(each, source) for each in self.urls]

    def members(self, source: str) -> list[str]:
        """The paths in the archive."""
        return [self._filled(each, source) for each in self.paths]

    def _filled(self, template: str, source: str) -> str:
        return template.format(*sorted((source, self.target)), src=source)


_WMT13 = "http://www.statmt.org/wmt13/training-parallel-"
_WMT = "http://data.statmt.org/wmt"
_FRDE = f"{_WMT}19/translation-task/fr-de/bitexts/"
_PARACRAWL = "https://s3.amazonaws.com/web-language-models/paracrawl/"
CZENG = tuple(f"data-plaintext-format.{i}.tar" for i in range(10))
_CZENG_FILTER = "http://ufal.mff.cuni.cz/czeng/download.php?f=convert_czeng16_to_17.pl.zip"
_NEWS = "news-commentary-"


def _both(path: str) -> tuple[str, str]:
    return path + "{src}", path + "en"


def _news(version: str, sources: str, year: str, folder: str) -> Corpus:
    url = f"{year}/training-parallel-nc-{version}.tgz"
    path = f"{folder}{_NEWS}{version}.{{src}}-en."
    return Corpus(f"newscommentary_{version}", sources, (url,), _both(path))


def _dev(name: str, sources: str, kinds: Sequence[str] = ()) -> Corpus:
    """Return a set for validation or testing: in SGML, or in texts if there are no kinds."""
    stem = f"dev/{name.replace('newstest2008', 'news-test2008')}"
    first, second = kinds or ("", "")
    paths = (
        (f"{stem}-{first}.{{src}}.sgm", f"{stem}-{second}.en.sgm") if kinds else _both(f"{stem}.")
    )
    return Corpus(name, sources, (f"{_WMT}19/translation-task/dev.tgz",), paths)


_SRC_REF = ("{src}en-src", "{src}en-ref")
CWMT = tuple(
    Corpus(name, "zh", (f"{name}.zip",), (f"{name}/*_c[hn].txt", f"{name}/*_en.txt"))
    for name in ("casia2015", "casict2011", "casict2015", "datum2015", "datum2017", "neu2017")
)
CORPORA = {
    corpus.name: corpus
    for corpus in (
        Corpus(
            "commoncrawl",
            "cs de es fr ru",
            (f"{_WMT13}commoncrawl.tgz",),
            _both("commoncrawl.{src}-en."),
        ),
        Corpus(
            "commoncrawl_frde",
            "fr",
            (f"{_FRDE}commoncrawl.fr.gz", f"{_FRDE}commoncrawl.de.gz"),
            target="de",
        ),
        Corpus("czeng_10", "cs", CZENG),
        Corpus("czeng_16pre", "cs", ("czeng16pre.deduped-ignoring-sections.txt.gz",)),
        Corpus("czeng_16", "cs", CZENG),
        Corpus("czeng_17", "cs", (*CZENG, _CZENG_FILTER)),
        Corpus(
            "dcep_v1",
            "lv",
            (f"{_WMT}17/translation-task/dcep.lv-en.v1.tgz",),
            _both("dcep.en-lv/dcep."),
        ),
        Corpus(
            "europarl_v7",
            "cs de es fr",
            (f"{_WMT13}europarl-v7.tgz",),
            _both("training/europarl-v7.{src}-en."),
        ),
        Corpus(
            "europarl_v7_frde",
            "fr",
            (f"{_FRDE}europarl-v7.fr.gz", f"{_FRDE}europarl-v7.de.gz"),
            target="de",
        ),
        Corpus(
            "europarl_v8_18",
            "et fi",
            (f"{_WMT}18/translation-task/training-parallel-ep-v8.tgz",),
            _both("training/europarl-v8.{src}-en."),
        ),
        Corpus(
            "europarl_v8_16",
            "fi ro",
            (f"{_WMT}16/translation-task/training-parallel-ep-v8.tgz",),
            _both("training-parallel-ep-v8/europarl-v8.{src}-en."),
        ),
        Corpus(
            "europarl_v9",
            "cs de fi lt",
            ("http://www.statmt.org/europarl/v9/training/europarl-v9.{src}-en.tsv.gz",),
        ),
        Corpus(
            "gigafren",
            "fr",
            ("http://www.statmt.org/wmt10/training-giga-fren.tar",),
            ("giga-fren.release2.fixed.fr.gz", "giga-fren.release2.fixed.en.gz"),
        ),
        Corpus("hindencorp_01", "hi", ("hindencorp0.1.gz",)),
        Corpus(
            "leta_v1", "lv", (f"{_WMT}17/translation-task/leta.v1.tgz",), _both("LETA-lv-en/leta.")
        ),
        Corpus("multiun", "es fr", (f"{_WMT13}un.tgz",), _both("un/undoc.2000.{src}-en.")),
        _news("v9", "cs de fr ru", "http://www.statmt.org/wmt14", "training/"),
        _news("v10", "cs de fr ru", "http://www.statmt.org/wmt15", ""),
        _news("v11", "cs de ru", f"{_WMT}16/translation-task", "training-parallel-nc-v11/"),
        _news("v12", "cs de ru zh", f"{_WMT}17/translation-task", "training/"),
        _news("v13", "cs de ru zh", f"{_WMT}18/translation-task", "training-parallel-nc-v13/"),
        Corpus(
            "newscommentary_v14",
            "cs de kk ru zh",
            (f"http://data.statmt.org/{_NEWS[:-1]}/v14/training/{_NEWS}v14.{{0}}-{{1}}.tsv.gz",),
        ),
        Corpus(
            "newscommentary_v14_frde",
            "fr",
            (f"http://data.statmt.org/{_NEWS[:-1]}/v14/training/{_NEWS}v14.de-fr.tsv.gz",),
            target="de",
        ),
        Corpus(
            "onlinebooks_v1",
            "lv",
            (f"{_WMT}17/translation-task/books.lv-en.v1.tgz",),
            _both("farewell/farewell."),
        ),
        *(
            Corpus(
                name,
                sources,
                (f"{_PARACRAWL}release1/paracrawl-release1.en-{{src}}.zipporah0-dedup-clean.tgz",),
                _both("paracrawl-release1.en-{src}.zipporah0-dedup-clean."),
            )
            for name, sources in (("paracrawl_v1", "cs de et fi ru"), ("paracrawl_v1_ru", "ru"))
        ),
        Corpus(
            "paracrawl_v3", "cs de fi lt", (f"{_PARACRAWL}release3/en-{{src}}.bicleaner07.tmx.gz",)
        ),
        Corpus(
            "paracrawl_v3_frde",
            "fr",
            (f"{_FRDE}de-fr.bicleaner07.fr.gz", f"{_FRDE}de-fr.bicleaner07.de.gz"),
            target="de",
        ),
        Corpus(
            "rapid_2016",
            "de et fi",
            (f"{_WMT}18/translation-task/rapid2016.tgz",),
            ("rapid2016.{0}-{1}.{src}", "rapid2016.{0}-{1}.en"),
        ),
        Corpus(
            "rapid_2016_ltfi",
            "fi lt",
            ("https://tilde-model.s3-eu-west-1.amazonaws.com/rapid2016.en-{src}.tmx.zip",),
            ("rapid2016.en-{src}.tmx",),
        ),
        Corpus(
            "rapid_2019",
            "de",
            ("https://s3-eu-west-1.amazonaws.com/tilde-model/rapid2019.de-en.zip",),
            _both("rapid2019.de-en."),
        ),
        Corpus(
            "setimes_2",
            "ro tr",
            ("http://opus.nlpl.eu/download.php?f=SETIMES/v2/tmx/en-{src}.tmx.gz",),
        ),
        Corpus(
            "uncorpus_v1",
            "ru zh",
            ("https://storage.googleapis.com/tfds-data/downloads/uncorpus/UNv1.0.en-{src}.tar.gz",),
            _both("en-{src}/UNv1.0.en-{src}."),
        ),
        *(
            Corpus(f"wikiheadlines_{source}", source, (url,), (f"wiki/{source}-en/{file}",))
            for source, url, file in (
                ("fi", "http://www.statmt.org/wmt15/wiki-titles.tgz", "titles.fi-en"),
                ("hi", "http://www.statmt.org/wmt14/wiki-titles.tgz", "wiki-titles.hi-en"),
                ("ru", "http://www.statmt.org/wmt15/wiki-titles.tgz", "wiki.ru-en"),
            )
        ),
        Corpus(
            "wikititles_v1",
            "cs de fi gu kk lt ru zh",
            ("http://data.statmt.org/wikititles/v1/wikititles-v1.{src}-en.tsv.gz",),
        ),
        Corpus(
            "yandexcorpus", "ru", ("1mcorpus.zip",), ("corpus.en_ru.1m.ru", "corpus.en_ru.1m.en")
        ),
        *CWMT,
        Corpus(
            "euelections_dev2019",
            "fr",
            (f"{_WMT}19/translation-task/dev.tgz",),
            ("dev/euelections_dev2019.fr-de.src.fr", "dev/euelections_dev2019.fr-de.tgt.de"),
            "de",
        ),
        _dev("newsdev2014", "hi"),
        _dev("newsdev2015", "fi", ("fien-src", "fien-ref")),
        _dev("newsdev2016", "ro tr", _SRC_REF),
        _dev("newsdev2017", "lv zh", _SRC_REF),
        _dev("newsdev2018", "et", _SRC_REF),
        _dev("newsdev2019", "gu kk lt", _SRC_REF),
        _dev("newsdiscussdev2015", "fr", _SRC_REF),
        _dev("newsdiscusstest2015", "fr", _SRC_REF),
        _dev("newstest2013", "cs de es fr ru"),
        _dev("newstest2014", "cs de es fr hi ru", _SRC_REF),
        _dev("newstest2015", "cs de fi ru", _SRC_REF),
        _dev("newstest2016", "cs de fi ro ru tr", _SRC_REF),
        _dev("newstestB2016", "fi", ("enfi-ref", "enfi-src")),
        _dev("newstest2017", "cs de fi lv ru tr zh", _SRC_REF),
        _dev("newstestB2017", "fi", ("fien-src", "fien-ref")),
        _dev("newstest2018", "cs de et fi ru tr zh", _SRC_REF),
    )
}


Pair = dict[str, str]
"""A sentence in two languages, by their codes."""


@dataclasses.dataclass(eq=False)
class WmtConfig(DeclaredConfig):
    """A pair of languages.

    Attributes:
        languages: the codes of source and target.
        parts: the corpora of each split.
    """

    languages: tuple[str, str] = ("", "")
    parts: Mapping[str, Sequence[Corpus]] = dataclasses.field(default_factory=dict)


def _configs(
    sources: str, corpora: Mapping[str, str], more: Sequence[tuple[str, str]] = ()
) -> tuple[WmtConfig, ...]:
    """Return the configurations of a year: its source languages, and the corpora of splits."""
    known = {resource.url: resource for resource in listed("wmt").values()}
    pairs = [*((source, "en") for source in sources.split()), *more]
    made = []
    for pair in pairs:
        parts = {
            split: [CORPORA[name] for name in names.split() if CORPORA[name].has(pair)]
            for split, names in corpora.items()
        }
        files = [
            file
            for corpus in itertools.chain.from_iterable(parts.values())
            for file in corpus.files(pair[0])
        ]
        made.append(
            WmtConfig(
                "-".join(pair),
                "1.0.0",
                f"From {pair[0]} to {pair[1]}.",
                features=TranslationFeature(pair),
                supervised_keys=pair,
                splits=dict.fromkeys(parts, 0),
                resources={file: known[file] for file in files if "://" in file},
                languages=pair,
                parts=parts,
            )
        )
    return tuple(made)


class _Wmt(GeneratorBasedBuilder):
    """Sentences and their translations: the data of a conference's task."""

    VERSION = "1.0.0"
    MANUAL_DOWNLOAD_INSTRUCTIONS = (
        "CzEng (data-plaintext-format.*.tar, czeng16pre.*) is at http://ufal.mff.cuni.cz/czeng, "
        "HindEnCorp (hindencorp0.1.gz) at http://ufallab.ms.mff.cuni.cz/~bojar/hindencorp, "
        "Yandex's corpus (1mcorpus.zip) at https://translate.yandex.ru/corpus?lang=en, and CWMT's "
        "(such as casia2015.zip) at http://nlp.nju.edu.cn/cwmt-wmt"
    )

    def _info(self) -> DatasetInfo:
        found, names = super()._info(), self._by_hand()
        if not names:
            return found
        note = (
            f"Of its files cannot be downloaded, and are to be in manual_dir: {', '.join(names)}. "
            f"No checksum of them is known: taken as they come. {self.MANUAL_DOWNLOAD_INSTRUCTIONS}"
        )
        return dataclasses.replace(found, notes=(*found.notes, note))

    def _by_hand(self) -> list[str]:
        """Return the names of the configuration's files that cannot be downloaded."""
        config = cast(WmtConfig, self.builder_config)
        corpora = itertools.chain.from_iterable(config.parts.values())
        files = {file for corpus in corpora for file in corpus.files(config.languages[0])}
        return sorted(file for file in files if "://" not in file)

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        config = cast(WmtConfig, self.builder_config)
        manual = {name: dl_manager.manual_file(name) for name in self._by_hand()}
        paths = {**manual, **dl_manager.download(dict(self.resources))}
        return {split: self._generate_examples(paths, split) for split in config.parts}

    def _generate_examples(self, paths: Mapping[str, Path], split: str) -> Examples:
        config = cast(WmtConfig, self.builder_config)
        for corpus in config.parts[split]:
            names = corpus.files(config.languages[0])
            files = [paths[name] for name in names]
            for key, pair in _read(corpus, names, files, config.languages):
                if all(pair.values()):
                    yield f"{corpus.name}/{key}", pair


def _read(
    corpus: Corpus, names: list[str], files: list[Path], languages: tuple[str, str]
) -> Iterator[tuple[Any, Pair]]:
    """Yield keys and sentences of a corpus."""
    members = corpus.members(languages[0])
    if corpus.name.startswith("czeng_") and not corpus.name.endswith("pre"):
        yield from _of_czeng(files)
    elif len(members) == 2 and "*" in members[0]:
        yield from _of_many(files[0], members)
    elif len(members) == 2:
        with member_of(files[0], members[0]) as first, member_of(files[0], members[1]) as second:
            languages_of = [_language(member) for member in members]
            for n, pair in _side_by_side(first, second, members, languages_of):
                yield f"0/{n}", pair
    elif len(files) == 2:
        with opened(files[0]) as first, opened(files[1]) as second:
            yield from _side_by_side(first, second, names, languages)
    elif members:
        with member_of(files[0], members[0]) as file:
            is_tmx = members[0].endswith(".tmx")
            yield from _of_tmx(file) if is_tmx else _of_columns(file, members[0], "|||")
    else:
        with opened(files[0]) as file:
            if ".tmx" in names[0]:
                yield from _of_tmx(file)
            elif corpus.name.startswith("hindencorp"):
                yield from _of_columns(file, names[0], "\t", 5, {"en": 3, "hi": 4})
            elif corpus.name == "czeng_16pre":
                yield from _of_columns(file, names[0], "\t", 2, {"en": 0, "cs": 1})
            else:
                yield from _of_columns(file, names[0], "\t")


def _language(member: str) -> str:
    """Return the language that a file's name ends with, before what says how it is written."""
    *_, first, last = re.split(r"[._]", member)
    code = first if last in ("sgm", "gz", "txt") else last
    return "zh" if code in ("ch", "cn") else code


_SEGMENT = re.compile(r"<seg id=\"\d+\">(.*)</seg>")


def _sentences(file: IO[bytes], name: str) -> Iterable[str]:
    """Yield the sentences of a file: those in tags of SGML, or its lines."""
    if name.endswith(".sgm"):
        found = map(_SEGMENT.match, io.TextIOWrapper(file, "utf-8"))
        return (each.group(1) for each in found if each)
    lines = _unpacked(file) if name.endswith(".gz") and "://" not in name else file
    return (line.decode().removesuffix("\n") for line in lines)


def _unpacked(file: IO[bytes]) -> IO[bytes]:
    return cast(IO[bytes], gzip.GzipFile(fileobj=file))


def _side_by_side(
    first: IO[bytes], second: IO[bytes], names: Sequence[str], languages: Sequence[str]
) -> Iterator[tuple[int, Pair]]:
    """Yield the sentences of two files with a sentence a line.

    Raises:
        ValueError: one has more of them.
    """
    pairs = itertools.zip_longest(_sentences(first, names[0]), _sentences(second, names[1]))
    for n, (one, other) in enumerate(pairs):
        if one is None or other is None:
            longer = names[0] if other is None else names[1]
            raise ValueError(f"{longer} has more sentences than {names[other is None]}, {n:,}")
        yield n, {languages[0]: one, languages[1]: other}


def _of_many(path: Path, patterns: Sequence[str]) -> Iterator[tuple[str, Pair]]:
    """Yield the sentences of files side by side in an archive, of two patterns."""
    names = [name for name, _ in iter_archive(path)]
    both = [sorted(name for name in names if fnmatch.fnmatch(name, each)) for each in patterns]
    if len(both[0]) != len(both[1]) or not both[0]:
        raise ValueError(f"{path}: {len(both[0])} files {patterns[0]}, {len(both[1])} of the other")
    for number, pair in enumerate(zip(*both, strict=True)):
        with member_of(path, pair[0]) as first, member_of(path, pair[1]) as second:
            for n, found in _side_by_side(first, second, pair, [_language(each) for each in pair]):
                yield f"{number}/{n}", found


def _of_columns(
    file: IO[bytes],
    name: str,
    separator: str,
    count: int = 2,
    columns: Mapping[str, int] | None = None,
) -> Iterator[tuple[int, Pair]]:
    """Yield the sentences of a table; lines with another number of columns are left out."""
    if columns is None:
        found = re.search(r"\.([a-z]{2})-([a-z]{2})(\.|$)", name)
        assert found is not None
        columns = {found[1]: 0, found[2]: 1}
    for n, line in enumerate(io.TextIOWrapper(file, "utf-8")):
        cells = line.split(separator)
        if len(cells) == count:
            yield n, {language: cells[i].strip() for language, i in columns.items()}


def _of_tmx(file: IO[bytes]) -> Iterator[tuple[int, Pair]]:
    for n, (_, element) in enumerate(ElementTree.iterparse(file)):
        if element.tag == "tu":
            pair = {}
            for each in element.iterfind("tuv"):
                code = next(value for key, value in each.items() if key.endswith("}lang"))
                pair[code] = each.findtext("seg") or ""
            yield n, pair
            element.clear()


def _of_czeng(files: Sequence[Path]) -> Iterator[tuple[str, Pair]]:
    """Yield the sentences of CzEng's archives; a last file has a script that names bad blocks."""
    bad: set[str] = set()
    if len(files) > len(CZENG):
        with member_of(files[-1], "convert_czeng16_to_17.pl") as script:
            listing = re.search(rb"qw{([\s\d]*)}", script.read())
            bad = set(listing[1].decode().split()) if listing else set()
    for path in files[: len(CZENG)]:
        for name, contents in iter_archive(path):
            if not fnmatch.fnmatch(name, "data.plaintext-format/??train.gz"):
                continue
            for n, line in enumerate(_unpacked(contents)):
                if not line.strip():
                    continue
                place, _, czech, english = line.decode().split("\t")
                block = re.match(r"[^-]+-b(\d+)-\d\d[tde]", place)
                if block is None or block[1] not in bad:
                    key = f"{posixpath.basename(name)}/{n}"
                    yield key, {"cs": czech.strip(), "en": english.strip()}


@dataclasses.dataclass(frozen=True)
class Conference:
    """The task of a conference, which becomes a builder.

    Attributes:
        year: of the conference; its data are at its homepage unless another is given.
        sources: the codes of the languages that are translated to English.
        splits: the names of each one's corpora.
        more: other pairs of languages.
        about: what the data are.
        homepage: where the task is described.
        citation: whom to cite.
        notes: what else there is to know.
    """

    year: int
    sources: str
    splits: Mapping[str, str]
    more: Sequence[tuple[str, str]] = ()
    about: str = ""
    homepage: str = ""
    citation: str = ""
    notes: tuple[str, ...] = ()

    def builder(self, name: str) -> type[GeneratorBasedBuilder]:
        """Return the builder that makes its data."""
        kind, of = ("Workshop", "Statistical ") if self.year < 2016 else ("Conference", "")
        where = f"{kind} on {of}Machine Translation, WMT {self.year}"
        about = f"Sentences and their translations: the task of the {kind} of {self.year}."
        members = {
            "__doc__": self.about or about,
            "__module__": __name__,
            "name": name,
            "HOMEPAGE": self.homepage
            or f"http://www.statmt.org/wmt{self.year % 100}/translation-task.html",
            "CITATION": self.citation or f"O. Bojar et al.: Findings of the {self.year} {where}",
            "NOTES": self.notes,
            "BUILDER_CONFIGS": _configs(self.sources, self.splits, self.more),
        }
        return type("".join(map(str.capitalize, name.split("_"))), (_Wmt,), members)


_CHINESE = " ".join(corpus.name for corpus in CWMT)
TASKS = {
    "wmt14_translate": Conference(
        2014,
        "cs de fr hi ru",
        {
            "train": "europarl_v7 commoncrawl multiun newscommentary_v9 gigafren czeng_10 "
            "yandexcorpus wikiheadlines_hi wikiheadlines_ru hindencorp_01",
            "validation": "newsdev2014 newstest2013",
            "test": "newstest2014",
        },
    ),
    "wmt15_translate": Conference(
        2015,
        "cs de fi fr ru",
        {
            "train": "europarl_v7 europarl_v8_16 commoncrawl multiun newscommentary_v10 gigafren "
            "czeng_10 yandexcorpus wikiheadlines_fi wikiheadlines_ru",
            "validation": "newsdev2015 newsdiscussdev2015 newstest2014",
            "test": "newstest2015 newsdiscusstest2015",
        },
    ),
    "wmt16_translate": Conference(
        2016,
        "cs de fi ro ru tr",
        {
            "train": "europarl_v7 europarl_v8_16 commoncrawl newscommentary_v11 czeng_16pre "
            "yandexcorpus wikiheadlines_fi wikiheadlines_ru setimes_2",
            "validation": "newsdev2016 newstest2015",
            "test": "newstest2016 newstestB2016",
        },
    ),
    "wmt17_translate": Conference(
        2017,
        "cs de fi lv ru tr zh",
        {
            "train": "europarl_v7 europarl_v8_16 commoncrawl newscommentary_v12 czeng_16 "
            "yandexcorpus wikiheadlines_fi wikiheadlines_ru setimes_2 uncorpus_v1 rapid_2016 "
            f"leta_v1 dcep_v1 onlinebooks_v1 {_CHINESE}",
            "validation": "newsdev2017 newstest2016 newstestB2016",
            "test": "newstest2017 newstestB2017",
        },
    ),
    "wmt18_translate": Conference(
        2018,
        "cs de et fi ru tr zh",
        {
            "train": "europarl_v7 europarl_v8_18 paracrawl_v1 commoncrawl newscommentary_v13 "
            "czeng_17 yandexcorpus wikiheadlines_fi wikiheadlines_ru setimes_2 uncorpus_v1 "
            f"rapid_2016 {_CHINESE}",
            "validation": "newsdev2018 newstest2017 newstestB2017",
            "test": "newstest2018",
        },
    ),
    "wmt19_translate": Conference(
        2019,
        "cs de fi gu kk lt ru zh",
        {
            "train": "europarl_v9 europarl_v7_frde paracrawl_v3 paracrawl_v1_ru paracrawl_v3_frde "
            "commoncrawl commoncrawl_frde newscommentary_v14 newscommentary_v14_frde czeng_17 "
            f"yandexcorpus wikititles_v1 uncorpus_v1 rapid_2016_ltfi rapid_2019 {_CHINESE}",
            "validation": "euelections_dev2019 newsdev2019 newstest2018",
        },
        [("fr", "de")],
        citation="L. Barrault et al.: Findings of the 2019 Conference on Machine Translation",
        notes=(
            "In fr-de, TensorFlow Datasets takes the German sentences of ParaCrawl for French "
            "ones; they are what they are here.",
        ),
    ),
    "wmt_t2t_translate": Conference(
        2014,
        "de",
        {
            "train": "europarl_v7 commoncrawl newscommentary_v13",
            "validation": "newstest2013",
            "test": "newstest2014",
        },
        about="Sentences and their translations to German, as Tensor2Tensor's tutorials take them.",
        homepage="https://github.com/tensorflow/tensor2tensor",
    ),
}
for _name, _conference in TASKS.items():
    register(_conference.builder(_name))
