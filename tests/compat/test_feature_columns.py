"""Models of feature columns: in training, in maps and in templates; without TensorFlow."""

import numpy as np
import pytest

from drumline.compat import tf

fc = tf.feature_column
layers = tf.keras.layers
ROWS = 8


def features():
    return {
        "word": np.array([b"a", b"b", b"", b"zz"] * 2, object),
        "number": np.arange(ROWS, dtype=np.float32),
        "id": np.arange(ROWS, dtype=np.int64) % 3,
    }


def columns():
    words = fc.categorical_column_with_vocabulary_list("word", ["a", "b"])
    ranges = fc.bucketized_column(fc.numeric_column("number"), [2.0, 5.0])
    return [
        fc.indicator_column(words),
        fc.numeric_column("number", normalizer_fn=lambda x: x / 8.0),
        ranges,
        fc.embedding_column(fc.categorical_column_with_hash_bucket("word", 20), 2),
        fc.embedding_column(fc.crossed_column([words, ranges], 30), 3),
        fc.indicator_column(fc.categorical_column_with_identity("id", 3)),
    ]


def dataset(batch=4):
    labels = np.ones((ROWS, 1), np.float32)
    return tf.data.Dataset.from_tensor_slices((features(), labels)).batch(batch)


def sequential():
    return tf.keras.Sequential([layers.DenseFeatures(columns()), layers.Dense(1)])


def functional():
    inputs = {
        "word": tf.keras.Input((1,), dtype=tf.string, name="word"),
        "number": tf.keras.Input((1,), name="number"),
        "id": tf.keras.Input((1,), dtype=tf.int64, name="id"),
    }
    both = layers.concatenate([layers.DenseFeatures(columns())(inputs), inputs["number"]])
    return tf.keras.Model(inputs, layers.Dense(1)(both))


class Subclass(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.columns = layers.DenseFeatures(columns())
        self.top = layers.Dense(1)

    def call(self, inputs):
        return self.top(self.columns(inputs))


MODELS = {"sequential": sequential, "functional": functional, "subclass": Subclass}


@pytest.mark.parametrize("kind", MODELS)
def test_models_train_and_compute_at_once_what_they_predict(kind):
    tf.keras.utils.set_random_seed(0)
    model = MODELS[kind]()
    model.compile("sgd", "mse")
    losses = model.fit(dataset(), epochs=8, verbose=0).history["loss"]
    assert losses[-1] < losses[0] / 2
    predicted = model.predict(dataset(3), verbose=0)
    at_once = model({name: tf.constant(each) for name, each in features().items()})
    np.testing.assert_allclose(predicted, at_once, rtol=1e-5)
    np.testing.assert_allclose(
        model.evaluate(dataset(), verbose=0), np.square(predicted - 1).mean(), rtol=1e-5
    )
    embeddings = next(each for each in model.layers if isinstance(each, layers.DenseFeatures))
    assert {tuple(each.shape) for each in embeddings.weights} == {(20, 2), (30, 3)}


@pytest.mark.parametrize("kind", ["sequential", "subclass"])
def test_arrays_and_validation_data_are_prepared_too(kind):
    model = MODELS[kind]()
    model.compile("sgd", "mse")
    labels = np.ones((ROWS, 1), np.float32)
    history = model.fit(
        features(), labels, batch_size=4, validation_data=(features(), labels), verbose=0
    )
    assert "val_loss" in history.history
    assert model.predict(features(), verbose=0).shape == (ROWS, 1)


def test_gradients_reach_embeddings():
    model = Subclass()
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(features()) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    assert len(gradients) == 4
    assert all(each is not None and np.abs(np.asarray(each)).max() > 0 for each in gradients)


def test_dense_features_in_maps_of_numbers_are_compiled():
    ranges = fc.bucketized_column(fc.numeric_column("number"), [2.0, 5.0])
    layer = layers.DenseFeatures([ranges, fc.numeric_column("number")])
    numbers = tf.data.Dataset.from_tensor_slices({"number": np.arange(4.0, dtype=np.float32)})
    mapped = numbers.batch(2, drop_remainder=True).map(layer)
    found = np.concatenate([np.asarray(each) for each in mapped])
    assert found.tolist() == [[0, 1, 0, 0], [1, 1, 0, 0], [2, 0, 1, 0], [3, 0, 1, 0]]


def test_columns_stand_in_the_order_of_their_names():
    layer = layers.DenseFeatures([fc.numeric_column("b"), fc.numeric_column("a")])
    found = {}
    made = layer({"a": [1.0], "b": [2.0]}, cols_to_output_tensors=found)
    assert np.asarray(made).tolist() == [[1.0, 2.0]]
    assert {column.name: np.asarray(each).tolist() for column, each in found.items()} == {
        "a": [[1.0]],
        "b": [[2.0]],
    }


def test_shared_embeddings_share_a_variable():
    pair = [fc.categorical_column_with_identity(name, 5) for name in ("x", "y")]
    shared = fc.shared_embeddings(pair, 2)
    first = layers.DenseFeatures(shared)
    second = layers.DenseFeatures([shared[0]])
    assert len(first.trainable_weights) == 1
    assert first.trainable_weights[0] is second.trainable_weights[0]
    made = np.asarray(first({"x": [[1]], "y": [[1]]}))
    np.testing.assert_array_equal(made[:, :2], made[:, 2:])
    with pytest.raises(ValueError, match="same number of buckets"):
        fc.shared_embeddings([pair[0], fc.categorical_column_with_identity("z", 6)], 2)


def test_unsafe_numbers_of_categories_are_nan_and_not_another_row():
    identity = fc.categorical_column_with_identity("id", 3)
    layer = layers.DenseFeatures([fc.embedding_column(identity, 2)])
    made = np.asarray(layer({"id": [[7], [1]]}))
    assert np.isnan(made[0]).all() and not np.isnan(made[1]).any()


def test_sequences_have_their_lengths():
    words = fc.sequence_categorical_column_with_vocabulary_list("word", ["a", "b"])
    numbers = fc.sequence_numeric_column("number", shape=(2,))
    layer = tf.keras.experimental.SequenceFeatures([fc.indicator_column(words), numbers])
    made, lengths = layer(
        {
            "word": tf.SparseTensor([[0, 0], [0, 1], [1, 0]], ["b", "a", "b"], [2, 2]),
            "number": tf.SparseTensor(
                [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [1, 1]], [1.0, 2, 3, 4, 5, 6], [2, 4]
            ),
        }
    )
    assert np.asarray(lengths).tolist() == [2, 1]
    assert np.asarray(made).tolist() == [
        [[1, 2, 0, 1], [3, 4, 1, 0]],
        [[5, 6, 0, 1], [0, 0, 0, 0]],
    ]


def test_parsed_examples_train_a_model():
    specs = fc.make_parse_example_spec(
        [fc.numeric_column("number"), fc.categorical_column_with_hash_bucket("words", 9)]
    )

    def example(words, number):
        parts = {
            "words": tf.train.Feature(
                bytes_list=tf.train.BytesList(value=[each.encode() for each in words])
            ),
            "number": tf.train.Feature(float_list=tf.train.FloatList(value=[number])),
        }
        return tf.train.Example(features=tf.train.Features(feature=parts)).SerializeToString()

    records = [example(["a", "b"], 1.0), example([], 2.0), example(["c"], 3.0)]
    parsed = (
        tf.data.Dataset.from_tensor_slices(records)
        .batch(3)
        .map(lambda x: tf.io.parse_example(x, specs))
    )
    words = fc.categorical_column_with_hash_bucket("words", 9)
    layer = layers.DenseFeatures([fc.indicator_column(words), fc.numeric_column("number")])
    (batch,) = parsed
    made = np.asarray(layer(batch))
    assert made[:, 0].tolist() == [1.0, 2.0, 3.0]
    assert made[:, 1:].sum(1).tolist() == [2.0, 0.0, 1.0]


def test_templates_share_input_layers():
    v1 = tf.compat.v1
    embedding = fc.embedding_column(fc.categorical_column_with_hash_bucket("word", 20), 2)

    def model(inputs, found):
        return v1.feature_column.input_layer(inputs, [embedding], cols_to_vars=found)

    def variable(function):
        found = {}
        function({"word": ["a", "b"]}, found)
        (made,) = found[embedding]
        return made

    template = v1.make_template("model", model)
    assert variable(template) is variable(template)
    assert variable(model) is not variable(template)


def test_what_is_missing_is_named():
    layer = layers.DenseFeatures([fc.numeric_column("number")])
    with pytest.raises(ValueError, match="Feature number is not in features dictionary"):
        layer({"other": [1.0]})
    with pytest.raises(ValueError, match="expected a dictionary"):
        layer(tf.constant([1.0]))
    with pytest.raises(ValueError, match="cannot have rank 0"):
        layer({"number": tf.constant(1.0)})
    with pytest.raises(ValueError, match="wrap a categorical column"):
        layers.DenseFeatures([fc.categorical_column_with_identity("id", 3)])
    with pytest.raises(ValueError, match="Duplicate feature column name"):
        layers.DenseFeatures([fc.numeric_column("a"), fc.numeric_column("a")])
    with pytest.raises(NotImplementedError, match="save_weights"):
        layer.get_config()
