"""Models that begin with layers of strings: calls, fit, strategies, saved and loaded elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import drumline as dl
from drumline.data import Dataset

TEXTS = np.array(["good film", "bad film", "good good", "bad bad", "film good", "bad"] * 4, object)
LABELS = np.array([1, 0, 1, 0, 1, 0] * 4, np.float32)
KINDS = np.array(["a", "b", "c"] * 8, object)
CODES = np.arange(24) % 5 * 10
SIZES = LABELS[:, None] + np.linspace(0, 1, 24, dtype=np.float32)[:, None]
FEATURES = {"kind": KINDS, "code": CODES, "size": SIZES}


def text_model(functional: bool) -> Any:
    keras.utils.set_random_seed(0)
    encoder = dl.keras.layers.TextVectorization(max_tokens=8, output_sequence_length=3)
    encoder.adapt(Dataset.from_tensor_slices((TEXTS, LABELS)).batch(6))
    rest = [
        keras.layers.Embedding(8, 4),
        keras.layers.GlobalAveragePooling1D(),
        keras.layers.Dense(1, activation="sigmoid"),
    ]
    if not functional:
        model = keras.Sequential([encoder, *rest])
    else:
        inputs = keras.Input((), dtype="string")
        outputs = encoder(inputs)
        for layer in rest:
            outputs = layer(outputs)
        model = keras.Model(inputs, outputs)
    model.compile(keras.optimizers.Adam(0.1), "binary_crossentropy", metrics=["accuracy"])
    return model


def columns_model(replicas: int = 1) -> Any:
    keras.utils.set_random_seed(0)
    strategy = dl.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(replicas)])
    with strategy.scope():
        inputs = {
            "kind": keras.Input((), name="kind", dtype="string"),
            "code": keras.Input((), name="code", dtype="int64"),
            "size": keras.Input((1,), name="size"),
        }
        look_up = dl.keras.layers.StringLookup(output_mode="one_hot", vocabulary=["a", "c"])
        kind = look_up(inputs["kind"])
        code = dl.keras.layers.IntegerLookup(vocabulary=[10, 20])(inputs["code"])
        code = keras.layers.Flatten()(keras.layers.Embedding(3, 2)(code))
        cross = dl.keras.layers.HashedCrossing(4, output_mode="one_hot")(
            (inputs["kind"], inputs["code"])
        )
        joined = keras.layers.Concatenate()([kind, code, cross, inputs["size"]])
        model = keras.Model(inputs, keras.layers.Dense(1)(joined))
        model.compile("sgd", "mse")
    return model


@pytest.mark.parametrize("functional", [False, True])
def test_a_model_of_texts_learns(functional: bool) -> None:
    model = text_model(functional)
    data = Dataset.from_tensor_slices((TEXTS, LABELS)).batch(6)
    history = model.fit(data, validation_data=data, epochs=6, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] / 2
    evaluated = model.evaluate(TEXTS, LABELS, batch_size=6, verbose=0, return_dict=True)
    assert evaluated["loss"] == pytest.approx(history["val_loss"][-1], rel=1e-5)
    predicted = model.predict(list(TEXTS), verbose=0)
    np.testing.assert_allclose(model(TEXTS), predicted, rtol=1e-5)
    np.testing.assert_allclose(model.predict_on_batch(TEXTS[:2]), predicted[:2], rtol=1e-5)
    assert float(model.train_on_batch(TEXTS, LABELS)[0]) < history["loss"][0]


class Batches(keras.utils.PyDataset):
    """Batches of 6 texts, as arrays or as lists."""

    def __init__(self, of_lists: bool = False, alone: bool = False, **options: Any):
        super().__init__(**options)
        self.of_lists, self.alone = of_lists, alone
        self.ended = 0

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Any:
        of = slice(6 * index, 6 * index + 6)
        texts = TEXTS[of].tolist() if self.of_lists else TEXTS[of]
        return texts if self.alone else (texts, LABELS[of])

    def on_epoch_end(self) -> None:
        self.ended += 1


def generated(of_lists: bool = False) -> Any:
    yield from (Batches(of_lists)[index] for index in range(4))


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("of_lists", [False, True])
@pytest.mark.parametrize("kind", ["generator", "PyDataset", "threads"])
def test_texts_come_in_batches(kind: str, of_lists: bool, replicas: int) -> None:
    def given() -> Any:
        if kind == "generator":
            return generated(of_lists)
        return Batches(of_lists, workers=1 if kind == "PyDataset" else 2)

    with dl.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(replicas)]).scope():
        model, wanted = text_model(functional=False), text_model(functional=False)
    batches, steps = given(), {"steps": 4, "verbose": 0}
    found = model.fit(
        batches,
        validation_data=given(),
        shuffle=False,
        steps_per_epoch=4,
        validation_steps=4,
        verbose=0,
    ).history
    expected = wanted.fit(
        TEXTS, LABELS, batch_size=6, validation_data=(TEXTS, LABELS), shuffle=False, verbose=0
    ).history
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5)
    assert kind == "generator" or batches.ended
    np.testing.assert_allclose(
        model.evaluate(given(), **steps), wanted.evaluate(TEXTS, LABELS, 6, verbose=0), rtol=1e-5
    )
    rows = generated(of_lists) if kind == "generator" else Batches(of_lists, alone=True)
    np.testing.assert_allclose(
        model.predict(rows, **steps), wanted.predict(TEXTS.tolist(), verbose=0), rtol=1e-5
    )


def test_it_computes_what_its_parts_compute() -> None:
    model = text_model(False)
    rest = keras.Sequential(model.layers[1:])
    numbers = model.layers[0](TEXTS)
    assert numbers.dtype == np.int64
    np.testing.assert_allclose(model.predict(TEXTS, verbose=0), rest(numbers), rtol=1e-6)


def test_layers_of_strings_are_native_in_the_map_of_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    model = columns_model()
    seen: list[Dataset] = []
    map_of = Dataset.map
    monkeypatch.setattr(Dataset, "map", lambda *a, **k: seen.append(map_of(*a, **k)) or seen[-1])
    model.fit(Dataset.from_tensor_slices((FEATURES, LABELS)).batch(8), verbose=0)
    assert seen and "runs as Python" not in seen[-1].explain()


@pytest.mark.parametrize("replicas", [1, 2])
def test_columns_by_name_under_a_strategy(replicas: int) -> None:
    model = columns_model(replicas)
    batches = Dataset.from_tensor_slices((FEATURES, LABELS)).batch(10)
    losses = model.fit(batches, epochs=3, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    plain = columns_model()
    np.testing.assert_allclose(
        plain.fit(batches, epochs=3, verbose=0).history["loss"], losses, 1e-5
    )
    by_array = model.predict({name: each[:5] for name, each in FEATURES.items()}, verbose=0)
    np.testing.assert_allclose(model.predict(batches, verbose=0)[:5], by_array, rtol=1e-5)


_LOAD = """
import sys
import numpy as np
{imports}
model = {keras}.models.load_model(sys.argv[1])
given = np.load(sys.argv[2], allow_pickle=True)
assert "tensorflow" not in sys.modules
np.save(sys.argv[3], np.asarray(model.predict(given, verbose=0)))
"""


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("import drumline, keras", "keras"),
        ("from drumline.compat import tf", "tf.keras"),
    ],
)
def test_it_is_saved_and_loaded_in_another_process(tmp_path: Path, imports: str, name: str) -> None:
    model = text_model(True)
    model.fit(TEXTS, LABELS, verbose=0)
    model.save(tmp_path / "texts.keras")
    np.save(tmp_path / "texts.npy", TEXTS, allow_pickle=True)
    paths = [str(tmp_path / file) for file in ("texts.keras", "texts.npy", "predicted.npy")]
    script = _LOAD.format(imports=imports, keras=name)
    subprocess.run([sys.executable, "-c", script, *paths], check=True, timeout=300)
    np.testing.assert_array_equal(np.load(paths[2]), model.predict(TEXTS, verbose=0))


def test_all_of_a_model_is_saved(tmp_path: Path) -> None:
    model = columns_model()
    model.save(tmp_path / "columns.keras")
    loaded = keras.models.load_model(tmp_path / "columns.keras")
    np.testing.assert_array_equal(
        loaded.predict(FEATURES, verbose=0), model.predict(FEATURES, verbose=0)
    )
    adapted = dl.keras.layers.StringLookup()
    adapted.adapt(KINDS)
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(adapted))
    again.adapt(["z"])  # what was learned may be learned again
    assert again.get_vocabulary() == ["[UNK]", "z"]


def test_a_model_that_names_a_file_is_not_trusted(tmp_path: Path) -> None:
    file = tmp_path / "vocabulary.txt"
    file.write_text("secret\n")
    config = dl.keras.layers.StringLookup(vocabulary=["a"]).get_config()
    config["vocabulary"] = str(file)
    named = {
        "module": "drumline",
        "class_name": "StringLookup",
        "registered_name": "drumline>StringLookup",
        "config": config,
    }
    # Keras makes a TypeError of any that a layer raises while it is loaded.
    with pytest.raises(TypeError, match=r"(?s)outside of it.*safe_mode=False"):
        keras.saving.deserialize_keras_object(named)
    trusted = keras.saving.deserialize_keras_object(named, safe_mode=False)
    assert trusted.get_vocabulary() == ["[UNK]", "secret"]


def test_an_adapted_model_is_as_before_outside_of_strings() -> None:
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(np.ones((4, 2), np.float32), np.ones(4, np.float32), verbose=0)
    with pytest.raises(Exception, match="(?i)string|object|dtype"):
        model.predict(np.array([["a", "b"]], object), verbose=0)
