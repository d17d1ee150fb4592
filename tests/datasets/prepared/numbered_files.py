"""Prepared datasets of numbers, written file by file as TFDS lays them out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import drumline as dl

PREFIX = "tensorflow_datasets.core.features."
FEATURES: dict[str, Any] = {
    "pythonClassName": PREFIX + "features_dict.FeaturesDict",
    "featuresDict": {
        "features": {
            "n": {
                "pythonClassName": PREFIX + "tensor_feature.Tensor",
                "tensor": {"shape": {}, "dtype": "int64", "encoding": "none"},
            },
            "label": {
                "pythonClassName": PREFIX + "class_label_feature.ClassLabel",
                "classLabel": {"numClasses": "2"},
            },
        }
    },
}


def write(root: Path, lengths: dict[str, list[int]], nbytes: int = 100, **more: Any) -> Path:
    """Write a prepared dataset of numbers, as TFDS lays it out, and return its directory."""
    place = root / "numbers" / "1.0.0"
    place.mkdir(parents=True)
    info = {
        "name": "numbers",
        "version": "1.0.0",
        "fileFormat": "tfrecord",
        "splits": [
            {
                "name": split,
                "shardLengths": [str(length) for length in shards],
                "numBytes": str(nbytes),
                "filepathTemplate": "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
            }
            for split, shards in lengths.items()
        ],
        "supervisedKeys": {"tuple": {"items": [{"featureKey": "n"}, {"featureKey": "label"}]}},
        **more,
    }
    (place / "dataset_info.json").write_text(json.dumps(info))
    (place / "features.json").write_text(json.dumps(FEATURES))
    (place / "label.labels.txt").write_text("even\nodd\n")
    number = 0
    for split, shards in lengths.items():
        for i, length in enumerate(shards):
            name = f"numbers-{split}.tfrecord-{i:05d}-of-{len(shards):05d}"
            with dl.io.TFRecordWriter(str(place / name)) as writer:
                for _ in range(length):
                    feature = {
                        "n": dl.train.Feature(int64_list=dl.train.Int64List(value=[number])),
                        "label": dl.train.Feature(
                            int64_list=dl.train.Int64List(value=[number % 2])
                        ),
                    }
                    example = dl.train.Example(features=dl.train.Features(feature=feature))
                    writer.write(example.SerializeToString())
                    number += 1
    return place


def numbers(dataset: Any) -> list[int]:
    return [int(example["n"]) for example in dataset]
