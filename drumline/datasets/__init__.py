"""Named datasets: ``load("mnist", split="train[:80%]")``."""

from drumline.datasets import features
from drumline.datasets.builder import DatasetBuilder
from drumline.datasets.display import as_dataframe, as_numpy, show_examples
from drumline.datasets.folders.audio import audio_dataset_from_directory
from drumline.datasets.folders.images import image_dataset_from_directory
from drumline.datasets.folders.texts import text_dataset_from_directory
from drumline.datasets.folders.videos import video_dataset_from_directory
from drumline.datasets.info import DatasetInfo, SplitInfo, Splits
from drumline.datasets.prepared.builder import PreparedBuilder, builder_from_directory
from drumline.datasets.prepared.decoders import PartialDecoding, SkipDecoding, make_decoder
from drumline.datasets.prepared.directories import PreparedDataError
from drumline.datasets.prepared.generator import BuilderConfig, GeneratorBasedBuilder
from drumline.datasets.prepared.reading import ReadConfig
from drumline.datasets.prepared.writing import DuplicateKeyError
from drumline.datasets.registry import builder, list_builders, load, register
from drumline.datasets.sources.archives import ArchiveError
from drumline.datasets.sources.download import DownloadError
from drumline.datasets.sources.idx import IdxError, read_idx
from drumline.datasets.sources.manager import DownloadManager
from drumline.datasets.sources.progress import disable_progress_bar, enable_progress_bar
from drumline.datasets.sources.resource import Resource
from drumline.datasets.split_expression import (
    ReadInstruction,
    even_splits,
    split_for_jax_process,
)
from drumline.datasets.time_series import timeseries_dataset_from_array

__all__ = [
    "ArchiveError",
    "BuilderConfig",
    "DatasetBuilder",
    "DatasetInfo",
    "DownloadError",
    "DownloadManager",
    "DuplicateKeyError",
    "GeneratorBasedBuilder",
    "IdxError",
    "PartialDecoding",
    "PreparedBuilder",
    "PreparedDataError",
    "ReadConfig",
    "ReadInstruction",
    "Resource",
    "SkipDecoding",
    "SplitInfo",
    "Splits",
    "as_dataframe",
    "as_numpy",
    "audio_dataset_from_directory",
    "builder",
    "builder_from_directory",
    "disable_progress_bar",
    "enable_progress_bar",
    "even_splits",
    "features",
    "image_dataset_from_directory",
    "list_builders",
    "load",
    "make_decoder",
    "read_idx",
    "register",
    "show_examples",
    "split_for_jax_process",
    "text_dataset_from_directory",
    "timeseries_dataset_from_array",
    "video_dataset_from_directory",
]
