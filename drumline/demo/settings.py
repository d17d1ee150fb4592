"""What a run of the demo is made of."""

from __future__ import annotations

import dataclasses
from pathlib import Path


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
