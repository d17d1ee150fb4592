"""Small archives of sounds in the layouts in which they are distributed, with known content."""

from __future__ import annotations

import io
import wave
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.datasets.builders.archives import Examples, Fabricated, tar, url_of, zipped


def samples(seed: int, count: int = 50) -> np.ndarray:
    return np.random.RandomState(seed).randint(-(1 << 15), 1 << 15, count).astype(np.int16)


def wav(values: np.ndarray, rate: int = 16_000) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(values.astype("<i2").tobytes())
    return out.getvalue()


def of_library(values: np.ndarray, kind: str) -> bytes:
    library = pytest.importorskip("soundfile", reason="needs soundfile (the extra `audio`)")
    out = io.BytesIO()
    library.write(out, values, 16_000, format=kind)
    return out.getvalue()


def speech_commands(*, damaged: bool = False) -> Fabricated:
    """`damaged`: with a file that holds nothing, as some do; it is left out."""
    words = ["yes", "up", "tree"]
    labels = {"yes": 9, "up": 8, "tree": 11, "_silence_": 10, "_unknown_": 11}
    files: dict[str, bytes] = {"./README.md": b"x"}
    examples: Examples = {"train": [], "validation": [], "test": []}
    listing: dict[str, list[str]] = {"validation": [], "testing": []}
    for i in range(6):
        word, name = words[i % 3], f"{i}_nohash_0.wav"
        files[f"./{word}/{name}"] = wav(samples(i))
        if i in (2, 4):
            listing["validation" if i == 2 else "testing"].append(f"{word}/{name}")
        if i != 4:
            found = {"audio": samples(i), "label": labels[word]}
            examples["validation" if i == 2 else "train"].append(found)
    if damaged:
        files["./yes/damaged_nohash_0.wav"] = b""
    for k, (noise, split) in enumerate(
        {"pink_noise": "train", "running_tap": "validation"}.items()
    ):
        values = samples(20 + k, 33_000)
        files[f"./_background_noise_/{noise}.wav"] = wav(values)
        examples[split] += [
            {"audio": values[start : start + 16_000], "label": 10}
            for start in range(0, 33_000 - 16_000, 8_000)
        ]
    files.update(
        {f"./{kind}_list.txt": ("\n".join(of) + "\n").encode() for kind, of in listing.items()}
    )
    tested = {}
    for i, word in enumerate(("yes", "_silence_", "_unknown_")):
        tested[f"{word}/{i}.wav"] = wav(samples(40 + i))
        examples["test"].append({"audio": samples(40 + i), "label": labels[word]})
    urls = {"all": tar(files), "test": tar(tested)}
    return Fabricated({url_of("speech_commands", k): v for k, v in urls.items()}, examples)


def librispeech(config: str) -> Fabricated:
    splits = {
        "dev_clean": "dev-clean",
        "dev_other": "dev-other",
        "test_clean": "test-clean",
        "test_other": "test-other",
        "train_clean100": "train-clean-100",
        "train_clean360": "train-clean-360",
        "train_other500": "train-other-500",
    }
    files, examples = {}, {}
    about = b"; comment\n14 | F | x | 25.03 | A\n"
    for seed, (split, folder) in enumerate(splits.items()):
        inside = {"LibriSpeech/SPEAKERS.TXT": about, "LibriSpeech/CHAPTERS.TXT": b"; none\n"}
        texts, found = [], []
        place = f"LibriSpeech/{folder}/14/208"
        for i in range(3):
            key, values = f"14-208-{i:04d}", samples(10 * seed + i)
            texts.append(f"{key} SAID {i}")
            if i == 1:  # texts may stand before or after sounds
                inside[f"{place}/14-208.trans.txt"] = b""
            inside[f"{place}/{key}.flac"] = of_library(values, "FLAC")
            found.append(
                {
                    "speech": values,
                    "text": f"SAID {i}".encode(),
                    "speaker_id": 14,
                    "chapter_id": 208,
                    "id": key.encode(),
                }
            )
        inside[f"{place}/14-208.trans.txt"] = ("\n".join(texts) + "\n").encode()
        files[f"http://www.openslr.org/resources/12/{folder}.tar.gz"] = tar(inside)
        examples[split] = found
    return Fabricated(files, examples)


def ljspeech() -> Fabricated:
    rows, inside, found = [], {}, []
    for i in range(3):
        key, values = f"LJ001-000{i}", samples(i)
        rows.append(f"{key}|Nº {i}, he said|Number {i}, he said")
        inside[f"LJSpeech-1.1/wavs/{key}.wav"] = wav(values, 22_050)
        text, normalized = f"Nº {i}, he said".encode(), f"Number {i}, he said".encode()
        found.append(
            {"id": key.encode(), "speech": values, "text": text, "text_normalized": normalized}
        )
    inside["LJSpeech-1.1/metadata.csv"] = ("\n".join(rows) + "\n").encode()
    return Fabricated({url_of("ljspeech"): tar(inside, "w:bz2")}, {"train": found})


def gtzan() -> Fabricated:
    inside, found = {"genres/bextract_single.mf": b"x"}, []
    for i, genre in enumerate(("blues", "disco", "rock")):
        name, values = f"{genre}.0000{i}.wav", samples(i)
        inside[f"genres/{genre}/{name}"] = wav(values, 22_050)
        label = {"blues": 0, "disco": 3, "rock": 9}[genre]
        found.append(
            {"audio": values.astype(np.int64), "label": label, "audio/filename": name.encode()}
        )
    return Fabricated({url_of("gtzan"): tar(inside)}, {"train": found})


def esc50() -> Fabricated:
    head = "filename,fold,target,category,esc10,src_file,take"
    rows, inside, examples = [head], {}, {}
    for fold in range(1, 6):
        found = []
        for i, (target, category) in enumerate(((0, "dog"), (49, "hand_saw"))):
            name, values = f"{fold}-{100 + i}-A-{target}.wav", samples(10 * fold + i)
            rows.append(f"{name},{fold},{target},{category},{i == 0},{100 + i},A")
            inside[f"ESC-50-master/audio/{name}"] = wav(values, 44_100)
            found.append(
                {
                    "audio": values,
                    "label": target,
                    "esc10": np.bool_(i == 0),
                    "filename": name.encode(),
                    "src_file": str(100 + i).encode(),
                    "take": b"A",
                }
            )
        examples[f"fold{fold}"] = found
    inside["ESC-50-master/meta/esc50.csv"] = ("\n".join(rows) + "\n").encode()
    return Fabricated({url_of("esc50"): zipped(inside)}, examples)


def common_voice() -> Fabricated:
    library = pytest.importorskip("soundfile", reason="needs soundfile (the extra `audio`)")
    names = ["client_id", "path", "sentence", "up_votes", "down_votes"]
    names += ["age", "gender", "accent", "locale", "segment"]
    folder = "cv-corpus-6.1-2020-12-11/ab"
    inside, examples = {}, {}
    for seed, (file, split) in enumerate({"train": "train", "validated": "validation"}.items()):
        rows, found = ["\t".join(names)], []
        for i in range(2):
            name = f"common_voice_ab_{seed}{i}.mp3"
            # Silence is decoded to the same numbers everywhere; its length tells which it is.
            content = of_library(np.zeros(3_000 + 1_000 * seed + 500 * i), "MP3")
            inside[f"{folder}/clips/{name}"] = content
            gender = ("", "other")[i]
            rows.append(f"id{i}\t{name}\tSátz {i}\t{2 + i}\t\tteens\t{gender}\t\tab\t")
            heard, _ = library.read(io.BytesIO(content))
            found.append(
                {
                    "client_id": f"id{i}".encode(),
                    "sentence": f"Sátz {i}".encode(),
                    "upvotes": np.int32(2 + i),
                    "downvotes": np.int32(0),
                    "age": b"teens",
                    "gender": 2 * i if i else -1,
                    "accent": b"",
                    "segment": b"",
                    "voice": np.rint(heard * 32768).astype(np.int64),
                }
            )
        inside[f"{folder}/{file}.tsv"] = ("\n".join(rows) + "\n").encode()
        examples[split] = found
    inside[f"{folder}/test.tsv"] = ("\t".join(names) + "\n").encode()
    return Fabricated({url_of("common_voice/ab"): tar(inside)}, examples)


SOUNDS: dict[str, Callable[..., Any]] = {
    "speech_commands": speech_commands,
    "librispeech/default": lambda: librispeech("default"),
    "librispeech/lazy_decode": lambda: librispeech("lazy_decode"),
    "ljspeech": ljspeech,
    "gtzan": gtzan,
    "esc50": esc50,
    "common_voice/ab": common_voice,
}
"""What makes the files of each dataset."""
