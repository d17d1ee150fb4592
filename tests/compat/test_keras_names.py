"""Names of ``tf.keras`` that Keras 3 dropped, and arguments and methods in their old spellings."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from drumline.compat import tf

keras = tf.keras
X = np.linspace(-1, 1, 24).reshape(8, 3).astype(np.float32)


def model():
    keras.utils.set_random_seed(0)
    made = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    made.compile("sgd", "mse")
    return made


def test_optimizers_take_lr_and_decay():
    assert float(keras.optimizers.Adam(lr=0.25).lr) == 0.25
    assert float(keras.optimizers.legacy.SGD(0.5).learning_rate) == 0.5
    decaying = keras.optimizers.SGD(lr=0.5, decay=0.5)
    weight = tf.Variable(0.0)
    for _ in range(2):
        decaying.apply_gradients([(tf.constant(1.0), weight)])
    assert weight.numpy() == pytest.approx(-0.5 - 0.5 / 1.5)
    with pytest.raises(TypeError, match="lr"):
        keras.optimizers.Adam(0.1, lr=0.1)


def test_old_names_are_there_and_answers_say_what_to_use():
    loss = keras.losses.MeanSquaredError(reduction=keras.losses.Reduction.AUTO)
    one, two = tf.constant([[1.0]]), tf.constant([[3.0]])
    assert float(loss(one, two)) == 4.0
    assert type(keras.losses.mean_squared_error(one, two)) is tf.Tensor
    assert keras.experimental.CosineDecay is keras.optimizers.schedules.CosineDecay
    layer = keras.layers.experimental.preprocessing.Rescaling(0.5)
    assert float(layer(one)[0, 0]) == 0.5
    metric = keras.metrics.Mean()
    metric.update_state(2.0)
    metric.reset_states()
    assert float(metric.result()) == 0.0
    with pytest.raises(AttributeError, match="argmax"):
        model().predict_classes(X)
    with pytest.raises(AttributeError, match=r"keras\.ops"):
        keras.backend.ctc_batch_cost  # noqa: B018


def test_variables_and_layers_are_tensorflows():
    layer = keras.layers.Dense(2)
    layer(tf.ones((1, 3)))
    assert isinstance(layer, tf.Module)
    assert all(isinstance(each, tf.Variable) for each in layer.trainable_variables)
    layer.kernel.assign(tf.fill((3, 2), 2.0))
    layer.kernel.assign_add(tf.ones((3, 2)))
    np.testing.assert_array_equal(layer.kernel.read_value().numpy(), np.full((3, 2), 3.0))
    assert model().submodules


def test_models_are_saved_to_paths_without_a_suffix(tmp_path):
    made = model()
    expected = made.predict(X, verbose=0)
    made.save(tmp_path / "directory")
    loaded = keras.models.load_model(tmp_path / "directory")
    np.testing.assert_array_equal(loaded.predict(X, verbose=0), expected)
    made.save_weights(tmp_path / "weights")
    other = model()
    other.set_weights([np.zeros((3, 2)), np.zeros(2)])
    other.load_weights(tmp_path / "weights")
    np.testing.assert_array_equal(other.predict(X, verbose=0), expected)
    with pytest.raises(ValueError, match="SavedModel"):
        keras.models.load_model(tmp_path)


def test_checkpoints_have_the_suffix_that_keras_wants(tmp_path):
    made = model()
    callback = keras.callbacks.ModelCheckpoint(tmp_path / "ckpt_{epoch}", save_weights_only=True)
    made.fit(X, X[:, :2], epochs=2, verbose=0, callbacks=[callback])
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["ckpt_1.weights.h5", "ckpt_2.weights.h5"]
    assert tf.train.latest_checkpoint(str(tmp_path / "nothing")) is None
    latest = tf.train.latest_checkpoint(str(tmp_path))
    assert latest == str(tmp_path / "ckpt_2")
    other = model()
    other.load_weights(latest)
    np.testing.assert_array_equal(other.get_weights()[0], made.get_weights()[0])


def test_extracted_files_are_where_tensorflow_has_them(tmp_path):
    source = tmp_path / "photos.zip"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("photos/one.txt", "1")
    (tmp_path / "cache").mkdir()
    found = keras.utils.get_file(
        "photos.zip", source.as_uri(), extract=True, cache_dir=str(tmp_path / "cache")
    )
    beside = tmp_path / "cache" / "datasets" / "photos" / "one.txt"
    assert beside.read_text() == "1"
    assert found == str(tmp_path / "cache" / "datasets" / "photos.zip")
    assert zipfile.is_zipfile(found)


def test_an_archive_without_a_name_gives_the_folder_it_was_extracted_to(tmp_path):
    source = tmp_path / "photos.zip"
    with zipfile.ZipFile(source, "w") as archive:
        archive.writestr("flowers/one.txt", "1")
    (tmp_path / "cache").mkdir()
    for _ in range(2):
        found = keras.utils.get_file(
            origin=source.as_uri(), extract=True, cache_dir=str(tmp_path / "cache")
        )
        assert found == str(tmp_path / "cache" / "datasets" / "photos.zip")
        assert (Path(found) / "flowers" / "one.txt").read_text() == "1"


def test_added_losses_are_those_of_a_call_in_a_function():
    class Layer(keras.layers.Layer):
        def call(self, x):
            self.add_loss(tf.reduce_sum(x))
            return x

    layer = Layer()
    layer(tf.ones((1, 3)))
    assert float(layer.losses[0]) == 3.0
    compiled = tf.function(lambda x: (layer(x), tf.add_n(layer.losses))[1])
    assert float(compiled(tf.ones((2, 3)))) == 6.0


def test_functions_of_the_old_backend():
    backend = keras.backend
    x = tf.constant([[1.0, -4.0], [2.0, 3.0]])
    assert float(backend.mean(x)) == 0.5
    assert backend.concatenate([x, x]).shape == (2, 4)
    assert backend.clip(x, None, 1.0).numpy().max() == 1.0
    np.testing.assert_array_equal(backend.argmax(x).numpy(), [0, 1])
    np.testing.assert_array_equal(backend.sqrt(x).numpy()[0], [1.0, 0.0])
    variable = backend.variable([1.0, 2.0])
    backend.set_value(variable, [3.0, 4.0])
    np.testing.assert_array_equal(backend.get_value(variable), [3.0, 4.0])
    assert backend.int_shape(keras.Input((3,))) == (None, 3)
    assert backend.dtype(x) == "float32"
    assert backend.batch_flatten(tf.zeros((2, 3, 4))).shape == (2, 12)


def test_a_dataset_creator_makes_datasets_of_tensors():
    def dataset_fn(context):
        return tf.data.Dataset.range(4).map(lambda x: tf.cast(x, tf.float32)).batch(2)

    creator = keras.utils.experimental.DatasetCreator(dataset_fn)
    made = creator.dataset_fn(tf.distribute.InputContext())
    assert [each.tolist() for each in made] == [[0.0, 1.0], [2.0, 3.0]]
    with pytest.raises(TypeError, match="function"):
        keras.utils.experimental.DatasetCreator(3)


def test_saving_refuses_what_it_cannot_do(tmp_path: Path) -> None:
    model = tf.keras.Sequential([tf.keras.layers.Input((2,)), tf.keras.layers.Dense(1)])
    with pytest.raises(NotImplementedError, match=r"Model\.export"):
        model.save(tmp_path / "m", signatures={"serving_default": len})
    with pytest.raises(ValueError, match="save_format"):
        model.save_weights(tmp_path / "w", save_format="numpy")


def test_models_take_nests_of_tensors_computed_in_different_places() -> None:
    first, second = keras.Input((3,)), keras.Input((3,))
    model = keras.Model([first, second], keras.layers.Add()([first, second]))
    read = tf.constant(np.ones((2, 3)), tf.float32)  # numpy's
    computed = tf.nn.softmax(keras.layers.Dense(3)(read))  # JAX's
    for inputs in ([read, computed], [computed, read], (computed, computed)):
        result = model(inputs)
        assert type(result) is tf.Tensor
        np.testing.assert_allclose(result, inputs[0].numpy() + inputs[1].numpy(), rtol=1e-6)
    result = model(inputs=[read, computed], training=False)
    assert type(result) is tf.Tensor and result.shape == (2, 3)


def test_layers_make_arrays_by_the_size_of_a_batch() -> None:
    # The layer of Keras's guide on variational autoencoders, as a class and as a function.
    class Sampling(tf.keras.layers.Layer):
        def call(self, inputs):
            mean, spread = inputs
            rows, columns = tf.shape(mean)[0], tf.shape(mean)[1]
            return mean + tf.exp(0.5 * spread) * tf.fill([rows, columns], 2.0)

    def padded(x):
        return tf.concat([x, tf.zeros([tf.shape(x)[0], 2])], axis=1)

    inputs = tf.keras.Input((3,))
    drawn = Sampling()([inputs, tf.keras.layers.Rescaling(2.0)(inputs)])
    wide = tf.keras.layers.Lambda(padded)(drawn)
    flat = tf.keras.layers.Lambda(lambda x: tf.reshape(x, [tf.shape(x)[0] * 5]))(wide)
    assert (drawn.shape, wide.shape, flat.shape) == ((None, 3), (None, 5), (None,))

    model = tf.keras.Model(inputs, [wide, flat])
    for size in (1, 4):
        rows = np.linspace(0, 1, size * 3, dtype=np.float32).reshape(size, 3)
        wanted = np.pad(rows + 2 * np.exp(rows), [(0, 0), (0, 2)])
        for found in (model(rows), model.predict(rows, verbose=0)):
            np.testing.assert_allclose(found[0], wanted, rtol=1e-6)
            np.testing.assert_allclose(found[1], wanted.reshape(-1), rtol=1e-6)


def test_a_layer_that_needs_a_value_for_a_shape_is_refused() -> None:
    class ByValue(tf.keras.layers.Layer):
        def call(self, x):
            return tf.zeros([tf.cast(tf.reduce_sum(x), tf.int32)])

    with pytest.raises(Exception, match="needs the value of a tensor for a shape"):
        ByValue()(tf.keras.Input((3,)))


def test_tensors_have_the_masks_of_layers() -> None:
    found = keras.layers.Embedding(3, 2, mask_zero=True)(tf.constant([[1, 2, 0]]))
    assert found._keras_mask.numpy().tolist() == [[True, True, False]]
    assert not hasattr(found + 1, "_keras_mask")
    mean = keras.layers.GlobalAveragePooling1D()
    np.testing.assert_allclose(mean(found), found[:, :2].numpy().mean(1), rtol=1e-6)
    del found._keras_mask
    assert not hasattr(found, "_keras_mask")
    np.testing.assert_allclose(mean(found), found.numpy().mean(1), rtol=1e-6)
    found._keras_mask = tf.constant([[False, False, True]])
    np.testing.assert_allclose(mean(found), found[:, 2].numpy(), rtol=1e-6)
