"""Named datasets: ``load("mnist", split="train[:80%]")``."""

from drumline.datasets.builder import DatasetBuilder, DatasetInfo, SplitInfo, Splits
from drumline.datasets.folders.audio import audio_dataset_from_directory
from drumline.datasets.folders.images import image_dataset_from_directory
from drumline.datasets.folders.texts import text_dataset_from_directory
from drumline.datasets.folders.videos import video_dataset_from_directory
from drumline.datasets.idx import IdxError, read_idx
from drumline.datasets.registry import builder, list_builders, load, register
from drumline.datasets.time_series import timeseries_dataset_from_array

__all__ = [
    "DatasetBuilder",
    "DatasetInfo",
    "IdxError",
    "SplitInfo",
    "Splits",
    "audio_dataset_from_directory",
    "builder",
    "image_dataset_from_directory",
    "list_builders",
    "load",
    "read_idx",
    "register",
    "text_dataset_from_directory",
    "timeseries_dataset_from_array",
    "video_dataset_from_directory",
]
