"""The settings of a run of the demo, and the digits it trains on."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np

from drumline import data, datasets


@dataclasses.dataclass(frozen=True)
class DemoSettings:
    """One run of the demo.

    Attributes:
        dataset: the name of the dataset.
        data_dir: where its files are, if not in the default place.
        brightest: the value of a white pixel, by which images are divided.
        epochs: how often to go through the training split.
        replicas: the number of CPU devices of the mirrored run.
        batch_per_replica: images per replica and step.
        output_dir: where model, picture and logs go.
        seed: of initial weights and of the order of the images.
    """

    dataset: str
    data_dir: Path | None
    brightest: float
    epochs: int
    replicas: int
    batch_per_replica: int
    output_dir: Path
    seed: int

    @property
    def global_batch(self) -> int:
        """Images per step on all replicas together."""
        return self.batch_per_replica * self.replicas


_BY_DATASET = {
    "digits": {"brightest": 16.0, "epochs": 60, "batch_per_replica": 8},
    "mnist": {"brightest": 255.0, "epochs": 36, "batch_per_replica": 16},
}


def settings_for(
    dataset: str,
    data_dir: Path | None,
    epochs: int | None,
    replicas: int,
    output_dir: Path,
    seed: int,
) -> DemoSettings:
    """The settings for a dataset; without `epochs`, as many as it needs."""
    chosen = DemoSettings(
        dataset=dataset,
        data_dir=data_dir,
        replicas=replicas,
        output_dir=output_dir,
        seed=seed,
        **_BY_DATASET[dataset],  # type: ignore[arg-type]
    )
    return chosen if epochs is None else dataclasses.replace(chosen, epochs=epochs)


class DigitsData:
    """Training and test images of the demo, as datasets recreated for every run.

    Raises:
        FileNotFoundError: the dataset's files are not there.
        ValueError: they are damaged.
    """

    def __init__(self, settings: DemoSettings) -> None:
        self._settings = settings
        parts, info = datasets.load(
            settings.dataset,
            data_dir=settings.data_dir,
            download=False,
            as_supervised=True,
            with_info=True,
        )
        self._parts = parts
        self.image_shape: tuple[int, ...] = info.features["image"].shape
        self.train_size = info.splits["train"].num_examples
        self.test_size = info.splits["test"].num_examples

    def train(self) -> data.Dataset:
        """Shuffled batches of scaled images; the same in every run with the same seed."""
        return (
            self._scaled("train")
            .cache()
            .shuffle(self.train_size, seed=self._settings.seed)
            .batch(self._settings.global_batch)
            .prefetch(data.AUTOTUNE)
        )

    def test(self) -> data.Dataset:
        """Batches of scaled images in their order."""
        return self._scaled("test").batch(self._settings.global_batch)

    def test_arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The whole test split: images (n, height, width, 1) float32 and labels (n,) int64."""
        images, labels = next(iter(self._scaled("test").batch(self.test_size)))
        return images, labels

    def _scaled(self, split: str) -> data.Dataset:
        brightest = self._settings.brightest
        return self._parts[split].map(lambda image, label: (image / brightest, label))
