"""Models with strings among their inputs, in calls, fit, evaluate and predict."""

import numpy as np
import pytest

from drumline.compat import tf

keras = tf.keras
layers = keras.layers
TEXTS = np.array(["good film", "bad film", "good good", "bad bad", "film good", "bad"] * 4, object)
LABELS = np.array([1, 0, 1, 0, 1, 0] * 4, np.int64)


def data():
    return tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(6)


def text_model(first_input):
    keras.utils.set_random_seed(0)
    encoder = layers.TextVectorization(max_tokens=8, output_sequence_length=3)
    encoder.adapt(data().map(lambda text, label: text))
    model = keras.Sequential(
        [
            *([keras.Input(shape=(1,), dtype=tf.string)] if first_input else []),
            encoder,
            layers.Embedding(8, 4),
            layers.GlobalAveragePooling1D(),
            layers.Dense(1),
        ]
    )
    model.compile(
        keras.optimizers.Adam(0.1),
        keras.losses.BinaryCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model, encoder


@pytest.mark.parametrize("first_input", [False, True])
def test_a_model_of_texts_learns_from_a_dataset(first_input):
    model, _ = text_model(first_input)
    history = model.fit(data(), validation_data=data(), epochs=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0] / 2
    assert history["val_loss"][-1] == pytest.approx(
        model.evaluate(data(), verbose=0, return_dict=True)["loss"], rel=1e-5
    )
    called = model(tf.constant(TEXTS[:3]))
    assert type(called) is tf.Tensor
    np.testing.assert_allclose(called.numpy(), model.predict(TEXTS[:3], verbose=0), rtol=1e-5)


def test_it_is_saved_and_loaded_with_its_vocabulary(tmp_path):
    model, _ = text_model(True)
    model.fit(data(), epochs=1, verbose=0)
    model.save(tmp_path / "texts.keras")
    loaded = keras.models.load_model(tmp_path / "texts.keras")
    np.testing.assert_array_equal(loaded.predict(TEXTS, verbose=0), model.predict(TEXTS, verbose=0))


def test_it_computes_what_its_parts_compute():
    model, encoder = text_model(False)
    model(tf.constant(["good"]))
    rest = keras.Sequential(model.layers[1:])
    np.testing.assert_allclose(
        model(tf.constant(TEXTS)).numpy(), rest(encoder(tf.constant(TEXTS))).numpy(), rtol=1e-6
    )


@pytest.mark.parametrize("replicas", [1, 2])
def test_columns_of_strings_and_numbers_by_name(replicas):
    keras.utils.set_random_seed(0)
    columns = {"kind": TEXTS.astype(object), "size": LABELS.astype(np.float32)}
    look_up = layers.StringLookup(output_mode="one_hot")
    look_up.adapt(TEXTS)
    with tf.distribute.MirroredStrategy([f"/cpu:{i}" for i in range(replicas)]).scope():
        kind = keras.Input((1,), name="kind", dtype="string")
        size = keras.Input((1,), name="size")
        joined = layers.concatenate([look_up(kind), size])
        model = keras.Model({"kind": kind, "size": size}, layers.Dense(1)(joined))
        model.compile("sgd", "mse")
    batches = tf.data.Dataset.from_tensor_slices((columns, LABELS.astype(np.float32))).batch(8)
    history = model.fit(batches, epochs=3, verbose=0).history["loss"]
    assert history[-1] < history[0]
    by_array = model.predict({k: v[:5] for k, v in columns.items()}, verbose=0)
    np.testing.assert_allclose(model.predict(batches, verbose=0)[:5], by_array, rtol=1e-5)


def test_columns_of_tables_are_inputs_of_models_with_strings():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"kind": ["a", "b", "a", "c"] * 3, "size": [1.0, 2.0, 3.0, 4.0] * 3})
    inputs = {
        "kind": keras.Input(shape=(1,), name="kind", dtype=tf.string),
        "size": keras.Input(shape=(1,), name="size"),
    }
    kinds = layers.StringLookup(vocabulary=["a", "b", "c"], output_mode="one_hot")(inputs["kind"])
    model = keras.Model(inputs, layers.Dense(1)(layers.Concatenate()([kinds, inputs["size"]])))
    model.compile(keras.optimizers.Adam(0.1), "mse")
    arrays = {name: column.to_numpy() for name, column in table.items()}
    predicted = model.predict(arrays, verbose=0)
    np.testing.assert_array_equal(model.predict(dict(table), verbose=0), predicted)
    np.testing.assert_allclose(model(dict(table)).numpy(), predicted, rtol=1e-6)
    assert model(dict(table.iloc[:1])).shape == (1, 1)
    history = model.fit(dict(table), table["size"], epochs=2, verbose=0).history
    assert history["loss"][1] < history["loss"][0]


@pytest.mark.parametrize("first_input", [False, True])
def test_a_list_of_strings_is_one_input(first_input):
    model, _ = text_model(first_input)
    given = ["good film", "bad", "bad film"]
    predicted = model.predict(given, verbose=0)
    assert predicted.shape == (3, 1)
    np.testing.assert_array_equal(predicted, model.predict(np.array(given, object), verbose=0))
    np.testing.assert_allclose(model(given), predicted, rtol=1e-5)
    assert model.predict(["good"], verbose=0).shape == (1, 1)


class Ids(layers.Layer):
    """A user's layer of strings."""

    def __init__(self):
        super().__init__()
        words = tf.lookup.KeyValueTensorInitializer(["good", "bad"], [0, 1], tf.string, tf.int64)
        self.table = tf.lookup.StaticVocabularyTable(words, 1)

    def call(self, words):
        return self.table.lookup(words)


def test_layers_of_users_get_strings():
    ids = Ids()
    for words in (tf.constant(["bad", "good", "film"]), np.array(["bad", "good", "film"], object)):
        assert np.asarray(ids(words)).tolist() == [1, 0, 2]
    batches = tf.data.Dataset.from_tensor_slices(["bad", "film", "good"]).batch(2).map(ids)
    assert [each.numpy().tolist() for each in batches] == [[1, 2], [0]]
    # What is set while it is called is as it was.
    assert ids._convert_input_args and not ids._allow_non_tensor_positional_args


def test_a_layer_that_fails_on_strings_takes_numbers_afterwards():
    class Doubled(layers.Layer):
        def call(self, x):
            return x * 2.0

    doubled = Doubled()
    with pytest.raises(tf.errors.InvalidArgumentError, match="(?s)Doubled.call.*string tensor"):
        doubled(tf.constant(["a"]))
    assert doubled(np.ones(2)).numpy().tolist() == [2.0, 2.0]
    assert doubled._convert_input_args
