"""Sounds: spoken words, read books, music and noises."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import io
import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np

from drumline.datasets.builders.bases import OneFile
from drumline.datasets.features.media import AudioFeature
from drumline.datasets.features.sound_files import SoundError, decode_sound
from drumline.datasets.features.tensors import ClassLabel, ScalarFeature, TensorFeature, TextFeature
from drumline.datasets.prepared.generator import DeclaredConfig, Examples, GeneratorBasedBuilder
from drumline.datasets.registry import register
from drumline.datasets.sources.archives import iter_archive, member_of
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.resource import listed

_WORDS = ("down", "go", "left", "no", "off", "on", "right", "stop", "up", "yes")
_RATE = 16_000
_NOISE, _TAP = "_background_noise_", "_background_noise_/running_tap.wav"


@register
class SpeechCommands(GeneratorBasedBuilder):
    """Ten spoken words, other words and silence, a second each."""

    name = "speech_commands"
    VERSION = "0.0.3"
    FEATURES: ClassVar[Mapping[str, Any]] = {
        "audio": AudioFeature("wav", dtype=np.int16, sample_rate=_RATE),
        "label": ClassLabel(names=[*_WORDS, "_silence_", "_unknown_"]),
    }
    SUPERVISED_KEYS = ("audio", "label")
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 85_511, "validation": 10_102, "test": 4_890}
    HOMEPAGE = "https://arxiv.org/abs/1804.03209"
    CITATION = (
        "P. Warden: Speech Commands: A Dataset for Limited-Vocabulary Speech Recognition, "
        "arXiv:1804.03209, 2018"
    )
    LICENSE = "CC BY 4.0"
    RESOURCES = listed("speech_commands")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        lists = {"validation_list.txt": {_TAP}, "testing_list.txt": set[str]()}
        for name, contents in iter_archive(paths["all"]):
            if name in lists:
                lists[name] |= set(contents.read().decode("ascii").split())
        others, tested = lists.values()
        return {
            "train": self._generate_examples(paths["all"], others | tested, False),
            "validation": self._generate_examples(paths["all"], others, True),
            "test": self._generate_examples(paths["test"], set(), False),
        }

    def _generate_examples(self, path: Path, names: set[str], is_wanted: bool) -> Examples:
        for name, contents in iter_archive(path):
            folder, file = posixpath.split(name)
            if not name.endswith(".wav") or (name in names) != is_wanted:
                continue
            word = posixpath.basename(folder)
            silent = word in ("_silence_", _NOISE)
            label = word if word in _WORDS else "_silence_" if silent else "_unknown_"
            with contextlib.suppress(SoundError):  # some files are empty
                samples = decode_sound(contents.read(), None, "wav").reshape(-1)
                for key, start, end in _pieces(f"{word}_{file}", word, len(samples)):
                    yield key, {"audio": samples[start:end].astype(np.int16), "label": label}


def _pieces(key: str, word: str, length: int) -> Iterator[tuple[str, int, int]]:
    """Yield keys and bounds of the parts of a sound: a second each of noise, else all of it."""
    if word != _NOISE:
        yield key, 0, length
        return
    for start in range(0, length - _RATE, _RATE // 2):
        yield f"{key}_{start}", start, start + _RATE


@dataclasses.dataclass(eq=False)
class LibrispeechConfig(DeclaredConfig):
    """Whether files are stored, or their samples."""

    lazy_decode: bool = False


def _librispeech(name: str, version: str, lazy: bool, about: str) -> LibrispeechConfig:
    speech = AudioFeature("flac", dtype=np.int16, sample_rate=_RATE, lazy_decode=lazy)
    return LibrispeechConfig(
        name,
        version,
        about,
        features={
            "speech": speech,
            "text": TextFeature(),
            "speaker_id": np.int64,
            "chapter_id": np.int64,
            "id": TensorFeature((), str),
        },
        lazy_decode=lazy,
    )


@register
class Librispeech(GeneratorBasedBuilder):
    """A thousand hours of read English; needs soundfile."""

    name = "librispeech"
    VERSION = "2.1.1"
    SUPERVISED_KEYS = ("speech", "text")
    SPLITS: ClassVar[Mapping[str, int]] = {
        "dev_clean": 2_703,
        "dev_other": 2_864,
        "test_clean": 2_620,
        "test_other": 2_939,
        "train_clean100": 28_539,
        "train_clean360": 104_014,
        "train_other500": 148_688,
    }
    HOMEPAGE = "http://www.openslr.org/12"
    CITATION = (
        "V. Panayotov, G. Chen, D. Povey, S. Khudanpur: Librispeech: an ASR corpus based on public "
        "domain audio books, ICASSP 2015"
    )
    LICENSE = "CC BY 4.0"
    RESOURCES = listed("librispeech")
    BUILDER_CONFIGS: ClassVar[Sequence[LibrispeechConfig]] = (
        _librispeech("default", "2.1.1", False, "Samples are stored."),
        _librispeech("lazy_decode", "2.1.2", True, "Files are stored, and decoded when read."),
    )

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        paths = dl_manager.download(dict(self.RESOURCES))
        return {split: self._generate_examples(path) for split, path in paths.items()}

    def _generate_examples(self, path: Path) -> Examples:
        sounds: dict[str, bytes] = {}
        texts: dict[str, str] = {}
        for name, contents in iter_archive(path):  # what is said comes before or after the sound
            key = posixpath.basename(name).removesuffix(".flac")
            if name.endswith(".flac"):
                sounds[key] = contents.read()
            elif re.fullmatch(r"LibriSpeech(/[^/]+){3}/[^/]+\.txt", name):
                lines = contents.read().decode().split("\n")
                for line in filter(None, map(str.strip, lines)):
                    each, _, text = line.partition(" ")
                    texts[each] = text
            for each in sounds.keys() & texts.keys():
                speaker, chapter = map(int, each.split("-")[:2])
                found = {"speech": sounds.pop(each), "text": texts.pop(each), "id": each}
                yield each, {**found, "speaker_id": speaker, "chapter_id": chapter}
        if texts:
            raise ValueError(f"{path}: there is no sound {next(iter(texts))}.flac of a text")


@register
class Ljspeech(OneFile):
    """A day of passages from books, read by one speaker."""

    name = "ljspeech"
    VERSION = "1.1.1"
    FEATURES: ClassVar[Mapping[str, Any]] = {
        "id": TensorFeature((), str),
        "speech": AudioFeature(dtype=np.int16, sample_rate=22_050),
        "text": TextFeature(),
        "text_normalized": TextFeature(),
    }
    SUPERVISED_KEYS = ("text_normalized", "speech")
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 13_100}
    HOMEPAGE = "https://keithito.com/LJ-Speech-Dataset/"
    CITATION = "K. Ito, L. Johnson: The LJ Speech Dataset, 2017"
    LICENSE = "public domain"
    RESOURCES = listed("ljspeech")

    def _generate_examples(self, path: Path) -> Examples:
        with member_of(path, "LJSpeech-1.1/metadata.csv") as file:
            rows = [line.strip().split("|") for line in io.TextIOWrapper(file, "utf-8")]
        texts = {f"LJSpeech-1.1/wavs/{key}.wav": (key, *others) for key, *others in rows}
        for name, contents in iter_archive(path):
            if name in texts:
                key, text, normalized = texts.pop(name)
                said = {"text": text, "text_normalized": normalized}
                yield key, {"id": key, "speech": contents.read(), **said}
        if texts:
            raise ValueError(f"{path}: there is no sound {next(iter(texts))}")


_GENRES = "blues classical country disco hiphop jazz metal pop reggae rock"


@register
class Gtzan(OneFile):
    """Half a minute each of a thousand pieces of music, of ten genres."""

    name = "gtzan"
    VERSION = "1.0.0"
    FEATURES: ClassVar[Mapping[str, Any]] = {
        "audio": AudioFeature("wav", sample_rate=22_050),
        "label": ClassLabel(names=_GENRES.split(" ")),
        "audio/filename": TextFeature(),
    }
    SUPERVISED_KEYS = ("audio", "label")
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 1_000}
    HOMEPAGE = "http://marsyas.info/index.html"
    CITATION = (
        "G. Tzanetakis, G. Essl, P. Cook: Automatic Musical Genre Classification Of Audio Signals, "
        "ISMIR 2001"
    )
    RESOURCES = listed("gtzan")

    def _generate_examples(self, path: Path) -> Examples:
        for name, contents in iter_archive(path):
            file = posixpath.basename(name)
            if name.startswith("genres/") and file.endswith(".wav"):
                label = file.split(".")[0]
                yield file, {"audio": contents.read(), "label": label, "audio/filename": file}


_NOISES = (
    "dog rooster pig cow frog cat hen insects sheep crow rain sea_waves crackling_fire crickets "
    "chirping_birds water_drops wind pouring_water toilet_flush thunderstorm crying_baby sneezing "
    "clapping breathing coughing footsteps laughing brushing_teeth snoring drinking_sipping "
    "door_wood_knock mouse_click keyboard_typing door_wood_creaks can_opening washing_machine "
    "vacuum_cleaner clock_alarm clock_tick glass_breaking helicopter chainsaw siren car_horn "
    "engine train church_bells airplane fireworks hand_saw"
)


@register
class Esc50(GeneratorBasedBuilder):
    """Five seconds each of 2,000 noises of 50 kinds, in five folds, each a split."""

    name = "esc50"
    VERSION = "2.0.0"
    FEATURES: ClassVar[Mapping[str, Any]] = {
        "audio": AudioFeature("wav", dtype=np.int16, sample_rate=44_100),
        "label": ClassLabel(names=_NOISES.split(" ")),
        "esc10": np.bool_,
        "filename": TextFeature(),
        "src_file": TextFeature(),
        "take": TextFeature(),
    }
    SUPERVISED_KEYS = ("audio", "label")
    SPLITS: ClassVar[Mapping[str, int]] = {f"fold{n}": 400 for n in range(1, 6)}
    HOMEPAGE = "https://github.com/karolpiczak/ESC-50"
    CITATION = "K. J. Piczak: ESC: Dataset for Environmental Sound Classification, ACM MM 2015"
    LICENSE = "CC BY-NC 3.0"
    NOTES = (
        "Layout not verified: TensorFlow Datasets has no builder of this name to compare with. The "
        "file is downloaded without a checksum: GitHub packs it when it is asked for.",
    )
    RESOURCES = listed("esc50")

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        path = dl_manager.download(self.RESOURCES["all"])
        return {split: self._generate_examples(path, split[-1]) for split in self.SPLITS}

    def _generate_examples(self, path: Path, fold: str) -> Examples:
        with member_of(path, "ESC-50-master/meta/esc50.csv") as file:
            rows = {row["filename"]: row for row in csv.DictReader(io.TextIOWrapper(file, "utf-8"))}
        for name, contents in iter_archive(path):
            row = rows.get(posixpath.basename(name))
            if row is not None and "/audio/" in name and row["fold"] == fold:
                texts = {key: row[key] for key in ("filename", "src_file", "take")}
                is_of_ten = row["esc10"] == "True"
                found = {"audio": contents.read(), "label": row["category"], "esc10": is_of_ten}
                yield row["filename"], {**found, **texts}


_LANGUAGES = (
    "en ab ar as br ca cnh cs cv cy de dv el eo es et eu fa fi fr fy-NL ga-IE hi hsb hu ia id it "
    "ja ka kab ky lg lt lv mn mt nl or pa-IN pl pt rm-sursilv rm-vallader ro ru rw sah sl sv-SE ta "
    "th tr tt uk vi vot zh-CN zh-HK zh-TW"
)
_CORPUS = "cv-corpus-6.1-2020-12-11"


_VOICE = {
    "client_id": TextFeature(doc="Hashed UUID of a given user"),
    "upvotes": ScalarFeature(np.int32, doc="Number of people who said audio matches the text"),
    "downvotes": ScalarFeature(np.int32, doc="Number of people who said audio does not match text"),
    "age": TextFeature(doc="Age bucket of the speaker"),
    "gender": ClassLabel(names=["male", "female", "other"], doc="Gender of the speaker"),
    "accent": TextFeature(doc="Accent of the speaker"),
    "segment": TextFeature(doc="The custom segment that the sentence belongs to"),
    "sentence": TextFeature(doc="Supposed transcription of the audio"),
    "voice": AudioFeature(),
}


@register
class CommonVoice(GeneratorBasedBuilder):
    """Sentences that people read aloud to Mozilla, in 60 languages; needs soundfile."""

    name = "common_voice"
    VERSION = "2.0.0"
    FEATURES: ClassVar[Mapping[str, Any]] = _VOICE
    HOMEPAGE = "https://voice.mozilla.org/en/datasets"
    CITATION = "R. Ardila et al.: Common Voice: A Massively-Multilingual Speech Corpus, LREC 2020"
    LICENSE = "CC0 1.0"
    NOTES = (
        "Layout not verified: TensorFlow Datasets' builder needs Apache Beam and ffmpeg. As in it, "
        "the split 'validation' is the file 'validated', which has other splits' examples.",
    )
    BUILDER_CONFIGS: ClassVar[Sequence[DeclaredConfig]] = tuple(
        DeclaredConfig(
            language,
            description=f"Language Code: {language}",
            resources={"all": listed("common_voice")[language]},
        )
        for language in _LANGUAGES.split(" ")
    )
    SPLITS: ClassVar[Mapping[str, int]] = {"train": 0, "test": 0, "validation": 0, "dev": 0}
    FILES: ClassVar[Mapping[str, str]] = {
        "train": "train",
        "test": "test",
        "validation": "validated",
        "dev": "dev",
    }

    def _split_generators(self, dl_manager: DownloadManager) -> Mapping[str, Examples]:
        path = dl_manager.download(self.resources["all"])
        folder = f"{_CORPUS}/{cast(DeclaredConfig, self.builder_config).name}"
        tables = {
            name: contents.read().decode()
            for name, contents in iter_archive(path)
            if name.endswith(".tsv")
        }
        found = {
            split: [
                *csv.DictReader(tables.get(f"{folder}/{file}.tsv", "").splitlines(), delimiter="\t")
            ]
            for split, file in self.FILES.items()
        }
        return {split: self._generate_examples(path, rows) for split, rows in found.items() if rows}

    def _generate_examples(self, path: Path, rows: Sequence[Mapping[str, str]]) -> Examples:
        numbered = {row["path"]: (n, row) for n, row in enumerate(rows) if row.get("path")}
        for name, contents in iter_archive(path):
            n, row = numbered.get(posixpath.basename(name), (0, None))
            if row is not None and name.endswith(".mp3"):
                texts = ("client_id", "sentence", "age", "accent", "segment")
                example: dict[str, Any] = {each: row[each] for each in texts}
                for key, column in (("upvotes", "up_votes"), ("downvotes", "down_votes")):
                    example[key] = int(row[column] or 0)
                yield n, {**example, "gender": row["gender"] or -1, "voice": contents.read()}
