"""The digits as the demo feeds them."""

from __future__ import annotations

import numpy as np

from drumline import data, datasets
from drumline.demo.settings import DemoSettings


class DigitsData:
    """Training and test images of the demo, as datasets made anew for every run.

    Raises:
        FileNotFoundError: the dataset's files are not there.
        ValueError: they are damaged.
    """

    def __init__(self, settings: DemoSettings) -> None:
        self._settings = settings
        parts, info = datasets.load(
            settings.dataset, data_dir=settings.data_dir, as_supervised=True, with_info=True
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
