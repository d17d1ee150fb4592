"""Fingerprints stay what they were: directories of snapshots are named by them.

Of datasets whose fingerprints hold no program of JAX's and no code of Python's, which other
versions of these change. Whoever moves or renames a class adds its recorded name to `digest.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset

RECORDED = {
    "split": 0xE9977423487BEA45,
    "unicode_decode": 0xCC3A362C840733D5,
    "lower": 0x7DF2E1C39187A385,
    "join": 0x1D678C04B7693E5D,
    "substr": 0xF3643F8D6FCEA17E,
    "to_number": 0xCAB7CA612254FC87,
    "regex_replace": 0xEDEBC8E62324A6D3,
    "to_hash_bucket": 0x5BBBDFE49928492D,
    "ngrams": 0x1B830E32E93521E2,
    "equal": 0x67942F50620DAB14,
    "decode_wav": 0x792DE5E5CEC66AD8,
    "decode_csv": 0x2B30389EDE92F686,
    "decode_raw": 0xF93572A0457F3F86,
    "parse_example": 0xC66F0FE37664A4D5,
    "decode_jpeg_resized": 0x6A20C141BBF800E2,
    "encode_png": 0xDAAB9197C8B5D5CF,
    "resize_with_pad": 0xE11FDED3F726DDB3,
    "flip": 0x5FAFBB1B4ED6C9A2,
    "adjust_brightness": 0xC78890458433C4B2,
    "shuffle": 0xAA7DBDCD18747C35,
    "batch": 0x9C27C744FCA4A6B4,
    "padded_batch": 0x6FAD068262BFB83F,
    "take_skip": 0x1B75090F9E3B9B79,
    "repeat": 0x573FFD0D6215D38A,
    "shard": 0xE7783E937E095A3C,
    "enumerate": 0xF7D4924900F2622E,
    "zip": 0x08345999A568AD4E,
    "concatenate": 0x6670B8373CEF4516,
    "window": 0x03C0D40CD1FE21CE,
    "unbatch": 0x6F8AAB32C718EDEB,
    "rebatch": 0x9DCE7743D81DE790,
    "cache": 0xA3A1DE40AF64B2CB,
    "prefetch": 0x42D99F570522575D,
    "sample": 0xC6F44CB52A314502,
    "choose": 0x22C273B8262B72AF,
    "random": 0xCC3478FE64098C22,
    "ragged_batch": 0x96C3B930269037F0,
    "assert_cardinality": 0x1ADA8E38260BC621,
    "ignore_errors": 0xE1624DC520F74180,
}
"""By version 0.1."""


def datasets() -> dict[str, Dataset]:
    strings = Dataset.from_tensor_slices(np.array([b"a b", b"c"]))
    rows = Dataset.from_tensor_slices(np.arange(12, dtype=np.int32).reshape(6, 2))

    def decoded(contents: Any) -> Any:
        return dl.image.decode_png(contents, channels=1)

    maps = {
        "split": lambda x: dl.strings.split(x),
        "unicode_decode": lambda x: dl.strings.unicode_decode(x, "UTF-8"),
        "lower": lambda x: dl.strings.lower(x),
        "join": lambda x: dl.strings.join([x, x]),
        "substr": lambda x: dl.strings.substr(x, 0, 1),
        "to_number": lambda x: dl.strings.to_number(x),
        "regex_replace": lambda x: dl.strings.regex_replace(x, "a", "b"),
        "to_hash_bucket": lambda x: dl.strings.to_hash_bucket_fast(x, 10),
        "ngrams": lambda x: dl.strings.ngrams(dl.strings.split(x), 2),
        "equal": lambda x: x == b"a",
        "decode_wav": lambda x: dl.audio.decode_wav(x),
        "decode_csv": lambda x: dl.io.decode_csv(x, [1.0, b""]),
        "decode_raw": lambda x: dl.io.decode_raw(x, "uint8"),
        "parse_example": lambda x: dl.io.parse_single_example(
            x, {"a": dl.io.FixedLenFeature([2], "float32"), "b": dl.io.VarLenFeature("int64")}
        ),
        "decode_jpeg_resized": lambda x: dl.image.resize(
            dl.image.decode_jpeg(x, channels=3), (8, 8)
        ),
        "encode_png": lambda x: dl.image.encode_png(decoded(x)),
        "resize_with_pad": lambda x: dl.image.resize_with_pad(decoded(x), 5, 5),
        "flip": lambda x: dl.image.flip_left_right(decoded(x)),
        "adjust_brightness": lambda x: dl.image.adjust_brightness(decoded(x), 0.3),
    }
    made = {name: strings.map(function) for name, function in maps.items()}
    return made | {
        "shuffle": rows.shuffle(3, seed=1),
        "batch": rows.batch(2, drop_remainder=True),
        "padded_batch": rows.padded_batch(4),
        "take_skip": rows.skip(1).take(2),
        "repeat": rows.repeat(3),
        "shard": rows.shard(2, 1),
        "enumerate": rows.enumerate(),
        "zip": Dataset.zip((rows, strings)),
        "concatenate": rows.concatenate(rows),
        "window": rows.window(2),
        "unbatch": rows.unbatch(),
        "rebatch": rows.batch(3).rebatch(2),
        "cache": rows.cache(),
        "prefetch": rows.prefetch(2),
        "sample": Dataset.sample_from_datasets([rows, rows], seed=3),
        "choose": Dataset.choose_from_datasets([rows, rows], Dataset.range(2)),
        "random": Dataset.random(seed=4).take(3),
        "ragged_batch": strings.map(maps["split"]).ragged_batch(2),
        "assert_cardinality": rows.apply(dl.data.experimental.assert_cardinality(6)),
        "ignore_errors": rows.ignore_errors(),
    }


@pytest.mark.parametrize("name", RECORDED)
def test_a_fingerprint_is_the_recorded_one(name: str, made: dict[str, Dataset]) -> None:
    assert int(made[name].fingerprint()) == RECORDED[name]


@pytest.fixture(scope="module")
def made() -> dict[str, Dataset]:
    return datasets()
