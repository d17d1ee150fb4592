"""Small files of the Conferences on Machine Translation, with known sentences."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

from tests.datasets.builders.archives import Examples, Fabricated, tar, zipped

_DEV = "http://data.statmt.org/wmt19/translation-task/dev.tgz"
_WMT = "http://data.statmt.org/wmt"
_WMT13 = {
    "europarl_v7": ("europarl-v7", "training/europarl-v7"),
    "commoncrawl": ("commoncrawl", "commoncrawl"),
    "multiun": ("un", "un/undoc.2000"),
}
_COUNT = 3


def _said(corpus: str, language: str, i: int) -> str:
    return f"{corpus}: sentence {i} in {language}, é"


class _Task:
    """Collects the files of a pair of languages, and what is in them."""

    def __init__(self, source: str, target: str = "en") -> None:
        self.pair = (source, target)
        self.inside: dict[str, dict[str, bytes]] = {}
        self.plain: dict[str, bytes] = {}
        self.manual: dict[str, bytes] = {}
        self.examples: Examples = {}

    def said(self, corpus: str, split: str, count: int = _COUNT) -> list[tuple[str, str]]:
        """Return sentences in both languages, which are to be read."""
        source, target = self.pair
        pairs = [(_said(corpus, source, i), _said(corpus, target, i)) for i in range(count)]
        self.examples.setdefault(split, []).extend(
            {source: one.encode(), target: other.encode()} for one, other in pairs
        )
        return pairs

    def lines(self, corpus: str, split: str = "train") -> tuple[bytes, bytes]:
        """Return two texts with a sentence a line; one that is empty is left out."""
        pairs = [*self.said(corpus, split), ("", "nothing")]
        first, second = (("\n".join(pair[k] for pair in pairs) + "\n").encode() for k in (0, 1))
        return first, second

    def parallel(self, corpus: str, url: str, paths: tuple[str, str], split: str = "train") -> None:
        for path, content in zip(paths, self.lines(corpus, split), strict=True):
            self.inside.setdefault(url, {})[path] = content

    def texts(self, corpus: str, url: str, stem: str, split: str = "train") -> None:
        self.parallel(corpus, url, (stem + self.pair[0], stem + self.pair[1]), split)

    def of_wmt13(self, *corpora: str) -> None:
        """Write some of the corpora that were in most years."""
        for corpus in corpora:
            file, stem = _WMT13[corpus]
            url = f"http://www.statmt.org/wmt13/training-parallel-{file}.tgz"
            self.texts(corpus, url, f"{stem}.{self.pair[0]}-en.")

    def news(self, version: str, year: str, folder: str) -> None:
        url = f"{year}/training-parallel-nc-{version}.tgz"
        stem = f"{folder}news-commentary-{version}.{self.pair[0]}-en."
        self.texts(f"newscommentary_{version}", url, stem)

    def sgml(self, corpus: str, split: str) -> None:
        pairs = self.said(corpus, split)
        for k, kind in enumerate(("src", "ref")):
            kind = f"{self.pair[0]}en-{kind}"
            tags = [f'<seg id="{i + 1}">{pair[k]}</seg>\n' for i, pair in enumerate(pairs)]
            content = f'<srcset setid="x">\n<doc>\n{"".join(tags)}</doc>\n</srcset>\n'
            name = f"dev/{corpus}-{kind}.{self.pair[k]}.sgm"
            self.inside.setdefault(_DEV, {})[name] = content.encode()

    def columns(self, corpus: str, order: tuple[int, int] = (0, 1), separator: str = "\t") -> bytes:
        rows = [separator.join(pair[k] for k in order) for pair in self.said(corpus, "train")]
        return ("\n".join(rows) + "\n").encode()

    def tmx(self, corpus: str) -> bytes:
        units = [
            "<tu>"
            + "".join(
                f'<tuv xml:lang="{language}"><seg>{text}</seg></tuv>'
                for language, text in zip(self.pair, pair, strict=True)
            )
            + "</tu>"
            for pair in self.said(corpus, "train")
        ]
        head = '<?xml version="1.0" encoding="UTF-8"?><tmx version="1.4"><header/><body>'
        return f"{head}{''.join(units)}</body></tmx>".encode()

    def czeng(self, blocks: list[str], kept: list[str], corpus: str) -> None:
        """Write ten archives with a file of one sentence for each block."""
        for n in range(10):
            members = {}
            for k, block in enumerate(blocks):
                czech, english = (_said(corpus, code, 10 * n + k) for code in self.pair)
                line = f"web-b{block}-00train-f1\t0.5\t{czech}\t{english}\n"
                name = f"data.plaintext-format/{n}{k}train.gz"
                members[name] = gzip.compress(f"{line}\n".encode())
                if block in kept:
                    self.examples.setdefault("train", []).append(
                        {"cs": czech.encode(), "en": english.encode()}
                    )
            self.manual[f"data-plaintext-format.{n}.tar"] = tar(members, "w:")

    def done(self) -> Fabricated:
        files = {
            url: zipped(inside) if url.endswith(".zip") else tar(inside, _mode(url))
            for url, inside in self.inside.items()
        }
        return Fabricated({**files, **self.plain}, self.examples, self.manual)


def _mode(url: str) -> str:
    return "w:" if url.endswith(".tar") else "w:gz"


def _wmt14_cs() -> Fabricated:
    task = _Task("cs")
    task.czeng(["1", "2"], ["1", "2"], "czeng_10")
    task.of_wmt13("europarl_v7", "commoncrawl")
    task.news("v9", "http://www.statmt.org/wmt14", "training/")
    task.texts("newstest2013", _DEV, "dev/newstest2013.", "validation")
    task.sgml("newstest2014", "test")
    return task.done()


def _wmt14_fr() -> Fabricated:
    task = _Task("fr")
    task.of_wmt13("europarl_v7", "commoncrawl", "multiun")
    task.news("v9", "http://www.statmt.org/wmt14", "training/")
    first, second = task.lines("gigafren")
    task.inside["http://www.statmt.org/wmt10/training-giga-fren.tar"] = {
        "giga-fren.release2.fixed.fr.gz": gzip.compress(first),
        "giga-fren.release2.fixed.en.gz": gzip.compress(second),
    }
    task.texts("newstest2013", _DEV, "dev/newstest2013.", "validation")
    task.sgml("newstest2014", "test")
    return task.done()


def _wmt14_hi() -> Fabricated:
    task = _Task("hi")
    rows = [f"x\ty\tz\t{en}\t{hi}" for hi, en in task.said("hindencorp_01", "train")]
    task.manual["hindencorp0.1.gz"] = gzip.compress(("\n".join([*rows, "cut"]) + "\n").encode())
    task.inside["http://www.statmt.org/wmt14/wiki-titles.tgz"] = {
        "wiki/hi-en/wiki-titles.hi-en": task.columns("wikiheadlines_hi", separator=" ||| ")
    }
    task.texts("newsdev2014", _DEV, "dev/newsdev2014.", "validation")
    task.sgml("newstest2014", "test")
    return task.done()


def _wmt15_fi() -> Fabricated:
    task = _Task("fi")
    task.texts(
        "europarl_v8_16",
        f"{_WMT}16/translation-task/training-parallel-ep-v8.tgz",
        "training-parallel-ep-v8/europarl-v8.fi-en.",
    )
    task.inside["http://www.statmt.org/wmt15/wiki-titles.tgz"] = {
        "wiki/fi-en/titles.fi-en": task.columns("wikiheadlines_fi", separator=" ||| ")
    }
    task.sgml("newsdev2015", "validation")
    task.sgml("newstest2015", "test")
    return task.done()


def _wmt16_ro() -> Fabricated:
    task = _Task("ro")
    task.texts(
        "europarl_v8_16",
        f"{_WMT}16/translation-task/training-parallel-ep-v8.tgz",
        "training-parallel-ep-v8/europarl-v8.ro-en.",
    )
    url = "http://opus.nlpl.eu/download.php?f=SETIMES/v2/tmx/en-ro.tmx.gz"
    task.plain[url] = gzip.compress(task.tmx("setimes_2"))
    task.sgml("newsdev2016", "validation")
    task.sgml("newstest2016", "test")
    return task.done()


def _wmt16_cs() -> Fabricated:
    task = _Task("cs")
    task.of_wmt13("europarl_v7", "commoncrawl")
    task.news("v11", f"{_WMT}16/translation-task", "training-parallel-nc-v11/")
    task.manual["czeng16pre.deduped-ignoring-sections.txt.gz"] = gzip.compress(
        task.columns("czeng_16pre", (1, 0))
    )
    task.sgml("newstest2015", "validation")
    task.sgml("newstest2016", "test")
    return task.done()


def _wmt17_lv() -> Fabricated:
    task = _Task("lv")
    base = f"{_WMT}17/translation-task/"
    task.texts("leta_v1", f"{base}leta.v1.tgz", "LETA-lv-en/leta.")
    task.texts("dcep_v1", f"{base}dcep.lv-en.v1.tgz", "dcep.en-lv/dcep.")
    task.texts("onlinebooks_v1", f"{base}books.lv-en.v1.tgz", "farewell/farewell.")
    task.sgml("newsdev2017", "validation")
    task.sgml("newstest2017", "test")
    return task.done()


def _wmt17_zh() -> Fabricated:
    task = _Task("zh")
    task.news("v12", f"{_WMT}17/translation-task", "training/")
    task.texts(
        "uncorpus_v1",
        "https://storage.googleapis.com/tfds-data/downloads/uncorpus/UNv1.0.en-zh.tar.gz",
        "en-zh/UNv1.0.en-zh.",
    )
    for name in ("casia2015", "casict2011", "casict2015", "datum2015", "datum2017", "neu2017"):
        members = {}
        for part in "ab":
            first, second = task.lines(f"{name}_{part}")
            members[f"{name}/{part}_{'ch' if name == 'neu2017' else 'cn'}.txt"] = first
            members[f"{name}/{part}_en.txt"] = second
        url = f"ftp://cwmt-wmt:cwmt-wmt@nlp.nju.edu.cn/parallel/{name}.zip"
        task.plain[url] = task.manual[f"{name}.zip"] = zipped(members)
    task.sgml("newsdev2017", "validation")
    task.sgml("newstest2017", "test")
    return task.done()


def _wmt18_et() -> Fabricated:
    task = _Task("et")
    base = f"{_WMT}18/translation-task/"
    task.texts(
        "europarl_v8_18", f"{base}training-parallel-ep-v8.tgz", "training/europarl-v8.et-en."
    )
    stem = "paracrawl-release1.en-et.zipporah0-dedup-clean"
    url = f"https://s3.amazonaws.com/web-language-models/paracrawl/release1/{stem}.tgz"
    task.texts("paracrawl_v1", url, f"{stem}.")
    task.texts("rapid_2016", f"{base}rapid2016.tgz", "rapid2016.en-et.")
    task.sgml("newsdev2018", "validation")
    task.sgml("newstest2018", "test")
    return task.done()


def _wmt19_cs() -> Fabricated:
    """CzEng's block 2 is one that its script leaves out."""
    task = _Task("cs")
    task.czeng(["1", "2"], ["1"], "czeng_17")
    url = "http://ufal.mff.cuni.cz/czeng/download.php?f=convert_czeng16_to_17.pl.zip"
    task.plain[url] = zipped({"convert_czeng16_to_17.pl": b"my %bad = map { 1 } qw{2 33\n44};\n"})
    task.of_wmt13("commoncrawl")
    _tsv(task, "europarl_v9", "http://www.statmt.org/europarl/v9/training/europarl-v9.cs-en")
    _tsv(task, "newscommentary_v14", _news14("cs-en"))
    _tsv(task, "wikititles_v1", "http://data.statmt.org/wikititles/v1/wikititles-v1.cs-en")
    _paracrawl3(task)
    task.sgml("newstest2018", "validation")
    return task.done()


def _tsv(task: _Task, corpus: str, url: str, order: tuple[int, int] = (0, 1)) -> None:
    content = task.columns(corpus, order) + b"a line\twith three\tcolumns\n"
    task.plain[f"{url}.tsv.gz"] = gzip.compress(content)


def _news14(pair: str) -> str:
    return f"http://data.statmt.org/news-commentary/v14/training/news-commentary-v14.{pair}"


def _paracrawl3(task: _Task) -> None:
    base = "https://s3.amazonaws.com/web-language-models/paracrawl/release3/"
    url = f"{base}en-{task.pair[0]}.bicleaner07.tmx.gz"
    task.plain[url] = gzip.compress(task.tmx("paracrawl_v3"))


def _wmt19_kk() -> Fabricated:
    task = _Task("kk")
    _tsv(task, "newscommentary_v14", _news14("en-kk"), (1, 0))
    _tsv(task, "wikititles_v1", "http://data.statmt.org/wikititles/v1/wikititles-v1.kk-en")
    task.sgml("newsdev2019", "validation")
    return task.done()


def _wmt19_lt() -> Fabricated:
    task = _Task("lt")
    _tsv(task, "europarl_v9", "http://www.statmt.org/europarl/v9/training/europarl-v9.lt-en")
    _tsv(task, "wikititles_v1", "http://data.statmt.org/wikititles/v1/wikititles-v1.lt-en")
    _paracrawl3(task)
    url = "https://tilde-model.s3-eu-west-1.amazonaws.com/rapid2016.en-lt.tmx.zip"
    task.plain[url] = zipped({"rapid2016.en-lt.tmx": task.tmx("rapid_2016_ltfi")})
    task.sgml("newsdev2019", "validation")
    return task.done()


def wmt19_frde(*, swapped: bool = False) -> Fabricated:
    """`swapped`: as TFDS has it, which takes the German sentences of ParaCrawl for French ones."""
    task = _Task("fr", "de")
    base = "http://data.statmt.org/wmt19/translation-task/fr-de/bitexts/"
    for corpus, stem in (
        ("commoncrawl_frde", "commoncrawl"),
        ("europarl_v7_frde", "europarl-v7"),
        ("paracrawl_v3_frde", "de-fr.bicleaner07"),
    ):
        for language, content in zip(task.pair, task.lines(corpus), strict=True):
            task.plain[f"{base}{stem}.{language}.gz"] = gzip.compress(content)
    _tsv(task, "newscommentary_v14_frde", _news14("de-fr"), (1, 0))
    paths = ("dev/euelections_dev2019.fr-de.src.fr", "dev/euelections_dev2019.fr-de.tgt.de")
    task.parallel("euelections_dev2019", _DEV, paths, "validation")
    if swapped:
        stem = f"{base}de-fr.bicleaner07"
        one, other = task.plain[f"{stem}.fr.gz"], task.plain[f"{stem}.de.gz"]
        task.plain.update({f"{stem}.fr.gz": other, f"{stem}.de.gz": one})
    return task.done()


def _wmt_t2t() -> Fabricated:
    task = _Task("de")
    task.of_wmt13("europarl_v7", "commoncrawl")
    task.news("v13", f"{_WMT}18/translation-task", "training-parallel-nc-v13/")
    task.texts("newstest2013", _DEV, "dev/newstest2013.", "validation")
    task.sgml("newstest2014", "test")
    return task.done()


TRANSLATIONS: dict[str, Callable[..., Any]] = {
    "wmt14_translate/cs-en": _wmt14_cs,
    "wmt14_translate/fr-en": _wmt14_fr,
    "wmt14_translate/hi-en": _wmt14_hi,
    "wmt15_translate/fi-en": _wmt15_fi,
    "wmt16_translate/ro-en": _wmt16_ro,
    "wmt16_translate/cs-en": _wmt16_cs,
    "wmt17_translate/lv-en": _wmt17_lv,
    "wmt17_translate/zh-en": _wmt17_zh,
    "wmt18_translate/et-en": _wmt18_et,
    "wmt19_translate/cs-en": _wmt19_cs,
    "wmt19_translate/kk-en": _wmt19_kk,
    "wmt19_translate/lt-en": _wmt19_lt,
    "wmt19_translate/fr-de": wmt19_frde,
    "wmt_t2t_translate/de-en": _wmt_t2t,
}
"""What makes the files of each pair of languages."""
