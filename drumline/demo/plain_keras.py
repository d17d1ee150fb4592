"""A program of its own that scores a saved model with Keras alone.

Usage: ``python plain_keras.py MODEL.keras TEST.npz``. Prints JSON: the accuracy, and the modules
of drumline that were imported (there are none unless something is wrong).
"""

from __future__ import annotations

import json
import sys

import keras
import numpy as np


def main(model_path: str, data_path: str) -> None:
    """Score the model at `model_path` on the images and labels in `data_path`."""
    model = keras.models.load_model(model_path)
    with np.load(data_path) as data:
        images, labels = data["images"], data["labels"]
    scores = model.evaluate(images, labels, verbose=0, return_dict=True)
    drumline = [name for name in sys.modules if name.split(".")[0] == "drumline"]
    print(json.dumps({"accuracy": float(scores["accuracy"]), "drumline": drumline}))


if __name__ == "__main__":
    main(*sys.argv[1:])
