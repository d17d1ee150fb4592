"""The corpora that the Conferences on Machine Translation's tasks are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence


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
