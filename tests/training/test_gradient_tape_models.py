"""GradientTape with Keras variables: models, optimizers, and what variables may do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from keras import layers

from drumline.training.tape import GradientTape

pytestmark = pytest.mark.thorough

RNG = np.random.default_rng(5)
X = jnp.array([0.5, -1.0, 2.0])


def close(found: Any, wanted: Any, rtol: float = 2e-5) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=2e-6), found, wanted)


def dense() -> tuple[keras.Model, Any]:
    model = keras.Sequential([layers.Dense(5, activation="gelu"), layers.Dense(2)])
    return model, RNG.normal(size=(4, 3)).astype("float32")


def convolutional() -> tuple[keras.Model, Any]:
    model = keras.Sequential(
        [
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(3, activation="softmax"),
        ]
    )
    return model, RNG.normal(size=(4, 8, 8, 2)).astype("float32")


def dropout() -> tuple[keras.Model, Any]:
    model = keras.Sequential([layers.Dense(8), layers.Dropout(0.4, seed=3), layers.Dense(2)])
    return model, RNG.normal(size=(4, 3)).astype("float32")


def recurrent() -> tuple[keras.Model, Any]:
    model = keras.Sequential(
        [layers.Embedding(10, 4), layers.LSTM(3, return_sequences=True), layers.GRU(2)]
    )
    return model, RNG.integers(0, 10, (3, 5))


def attention() -> tuple[keras.Model, Any]:
    inputs = keras.Input((4, 6))
    hidden = layers.LayerNormalization()(inputs)
    hidden = layers.MultiHeadAttention(2, 3)(hidden, hidden) + inputs
    return keras.Model(inputs, layers.GlobalAveragePooling1D()(hidden)), RNG.normal(
        size=(2, 4, 6)
    ).astype("float32")


MODELS = [dense, convolutional, dropout, recurrent, attention]


def built(make: Callable[[], tuple[keras.Model, Any]]) -> tuple[keras.Model, Any]:
    keras.utils.set_random_seed(1)
    model, inputs = make()
    model(inputs)
    return model, inputs


def loss_of(outputs: jax.Array) -> jax.Array:
    return jnp.mean((outputs - 0.3) ** 2) + jnp.sum(jnp.sin(outputs)) * 0.01


def state_of(model: keras.Model) -> tuple[list[Any], list[Any]]:
    trainable = [variable.value for variable in model.trainable_variables]
    return trainable, [variable.value for variable in model.non_trainable_variables]


def reference(model: keras.Model, inputs: Any) -> tuple[Any, Any, Any]:
    """Loss, new non-trainable values and gradients by ``jax.grad``, leaving the model alone."""

    def loss(trainable: Any, non_trainable: Any) -> Any:
        outputs, state = model.stateless_call(trainable, non_trainable, inputs, training=True)
        return loss_of(outputs), state

    (value, state), gradients = jax.jit(jax.value_and_grad(loss, has_aux=True))(*state_of(model))
    return value, state, gradients


def tape_step(model: keras.Model, inputs: Any) -> tuple[Any, Any]:
    with GradientTape() as tape:
        loss = loss_of(model(inputs, training=True))
    return loss, tape.gradient(loss, model.trainable_variables)


def compiled_tape_step(model: keras.Model, inputs: Any) -> tuple[Any, Any, Any]:
    variables = model.trainable_variables + model.non_trainable_variables

    def step(values: Sequence[Any]) -> tuple[Any, Any, Any]:
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping) as scope:
            loss, gradients = tape_step(model, inputs)
        state = [scope.get_current_value(v) for v in model.non_trainable_variables]
        return loss, state, gradients

    trainable, non_trainable = state_of(model)
    return jax.jit(step)(trainable + non_trainable)


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_model_in_a_compiled_step(make: Callable[[], tuple[keras.Model, Any]]) -> None:
    model, inputs = built(make)
    close(compiled_tape_step(model, inputs), reference(model, inputs))


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_model_eagerly(make: Callable[[], tuple[keras.Model, Any]]) -> None:
    model, inputs = built(make)
    value, state, gradients = reference(model, inputs)
    close(tape_step(model, inputs), (value, gradients))
    close([variable.value for variable in model.non_trainable_variables], state)


def test_model_in_shard_map() -> None:
    model, inputs = built(convolutional)
    variables = model.trainable_variables + model.non_trainable_variables
    mesh = Mesh(np.array(jax.devices()[:2]), ("replica",))

    def step(values: Any, inputs: Any) -> Any:
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            _, gradients = tape_step(model, inputs)
        return [jax.lax.pmean(gradient, "replica") for gradient in gradients]

    found = jax.jit(
        jax.shard_map(
            step,
            mesh=mesh,
            in_specs=(PartitionSpec(), PartitionSpec("replica")),
            out_specs=PartitionSpec(),
            check_vma=False,
        )
    )([variable.value for variable in variables], inputs)
    halves = [reference(model, half)[2] for half in np.split(inputs, 2)]
    close(found, jax.tree.map(lambda a, b: (a + b) / 2, *halves))


def test_variables_created_in_the_block() -> None:
    keras.utils.set_random_seed(1)
    model, inputs = dense()
    with GradientTape() as tape:
        loss = loss_of(model(inputs, training=True))
    close(
        tape.gradient(loss, model.trainable_variables),
        reference(model, inputs)[2],
    )
    assert set(map(id, tape.watched_variables())) == set(map(id, model.trainable_variables))


def test_training_in_mixed_precision() -> None:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [layers.Dense(4, dtype="mixed_bfloat16"), layers.Dense(2, dtype="mixed_bfloat16")]
    )
    inputs = np.ones((2, 3), "float32")
    model(inputs)
    _, gradients = tape_step(model, inputs)
    assert {gradient.dtype for gradient in gradients} == {jnp.dtype("float32")}
    close(gradients, reference(model, inputs)[2], rtol=1e-2)


def test_the_gradient_of_a_variable_sums_over_its_reads() -> None:
    variable = keras.Variable(X)
    with GradientTape() as tape:
        first = jnp.sum(variable.value**2)
        variable.assign(variable.value * 10)
        second = jnp.sum(variable.value**3)
        both = first + second
    close(tape.gradient(both, variable), 2 * X + 3 * (10 * X) ** 2)


def test_variables_that_hold_the_same_array_are_told_apart() -> None:
    one, two, three = (keras.Variable(X * 0) for _ in range(3))
    shared = X * 1.0
    two._value = one._value = shared
    three._value = X
    with GradientTape(persistent=True) as tape:
        tape.watch(X)
        y = one.value**2 * two.value * shared * X * three.value
    close(tape.gradient(y, [one, two, three, X]), [2 * X**5, X**5, X**5, X**5])
    assert tape.gradient(y, shared) is None


def test_a_value_read_before_the_block_is_constant() -> None:
    variable = keras.Variable(X)

    def fn(value: jax.Array) -> Any:
        with keras.StatelessScope(state_mapping=[(variable, value)]):
            old = variable.value
            with GradientTape() as outer:
                middle = variable.value
                with GradientTape() as inner:
                    y = variable.value * middle * old
                inner_gradient = inner.gradient(y, variable)
            return inner_gradient, outer.gradient(y, variable)

    for found in (fn(X), jax.jit(fn)(X)):
        close(found, (X**2, 2 * X**2))


def test_variables_that_a_tape_does_not_watch() -> None:
    frozen, trained = keras.Variable(X, trainable=False), keras.Variable(X)
    counter = keras.Variable(3, dtype="int32")
    with GradientTape(persistent=True) as tape:
        y = frozen.value * trained.value * counter.value
    found = tape.gradient(y, [frozen, trained])
    assert found[0] is None
    close(found[1], 3 * X)
    assert tape.watched_variables() == (trained,)

    with GradientTape(watch_accessed_variables=False, persistent=True) as tape:
        unseen = trained.value * 2
        tape.watch(frozen)
        y = frozen.value * trained.value
    assert tape.gradient(unseen, trained) is None
    assert tape.gradient(y, trained) is None
    close(tape.gradient(y, frozen), X)
    close(tape.gradient(y, trained, unconnected_gradients="zero"), jnp.zeros(3))


def test_a_variable_used_as_an_array() -> None:
    variable = keras.Variable(X)

    def fn() -> Any:
        with GradientTape() as tape:
            y = keras.ops.sum(keras.ops.sin(variable) * (variable + 1)) + variable @ variable
        return tape.gradient(y, variable)

    wanted = jnp.cos(X) * (X + 1) + jnp.sin(X) + 2 * X
    close(fn(), wanted)
    close(jax.jit(fn)(), wanted)


def test_a_variable_read_in_compiled_functions_and_loops() -> None:
    variable = keras.Variable(X)

    @jax.jit
    def inner(x: jax.Array) -> jax.Array:
        return x * variable.value

    def fn(value: jax.Array) -> Any:
        with keras.StatelessScope(state_mapping=[(variable, value)]):
            found = []
            for _ in range(2):
                with GradientTape() as tape:
                    state, _ = jax.lax.scan(
                        lambda s, t: (inner(s) * t + variable.value, None), X, jnp.arange(3.0)
                    )
                    state = jax.checkpoint(lambda s: jnp.sin(s * variable.value))(state)
                found.append(tape.gradient(state, variable))
            return found

    def plain(v: jax.Array) -> jax.Array:
        state = X
        for t in range(3):
            state = state * v * t + v
        return jnp.sum(jnp.sin(state * v))

    wanted = jax.grad(plain)
    close(fn(X), [wanted(X)] * 2)
    compiled = jax.jit(fn)
    close(compiled(X), [wanted(X)] * 2)
    close(compiled(X + 1), [wanted(X + 1)] * 2, rtol=1e-4)


def test_a_tape_in_the_body_of_a_loop_over_variables_outside_of_it() -> None:
    variable = keras.Variable(X)

    def fn(value: jax.Array) -> Any:
        with keras.StatelessScope(state_mapping=[(variable, value)]):

            def body(total: jax.Array, scale: jax.Array) -> Any:
                with GradientTape() as tape:
                    y = jnp.sum(variable.value**3 * scale)
                return total + tape.gradient(y, variable), None

            looped = jax.lax.scan(body, X * 0, jnp.arange(3.0))[0]
            chosen = jax.lax.cond(value[0] > 0, lambda: body(X * 0, 1.0)[0], lambda: X)
            return looped, chosen, jax.vmap(lambda s: body(X * 0, s)[0])(jnp.arange(2.0))

    wanted = (9 * X**2, 3 * X**2, jnp.stack([X * 0, 3 * X**2]))
    close(jax.jit(fn)(X), wanted)
    close(fn(X), wanted)


def test_a_variable_spread_over_devices() -> None:
    mesh = Mesh(np.array(jax.devices()[:2]), ("replica",))
    variable = keras.Variable(jnp.arange(4.0))
    sharding = NamedSharding(mesh, PartitionSpec("replica"))
    variable._value = jax.device_put(variable._value, sharding)
    with GradientTape() as tape:
        y = jnp.sum(variable.value**2)
        assert variable.value.sharding == sharding
    close(tape.gradient(y, variable), 2 * jnp.arange(4.0))


def test_a_variable_captured_by_a_custom_rule_is_refused() -> None:
    variable = keras.Variable(X)

    @jax.custom_vjp
    def scaled(x: jax.Array) -> jax.Array:
        return x * variable.value

    scaled.defvjp(
        lambda x: (x * variable.value, None), lambda _, ct: (ct * jnp.asarray(variable.value),)
    )

    def fn() -> Any:
        with GradientTape():
            return scaled(X)

    for each in (fn, jax.jit(fn)):
        with pytest.raises(NotImplementedError, match="its .value"):
            each()


def test_second_derivatives_by_variables() -> None:
    variable = keras.Variable(X)

    def fn(value: jax.Array) -> Any:
        with keras.StatelessScope(state_mapping=[(variable, value)]):
            with GradientTape() as outer:
                with GradientTape() as inner:
                    y = jnp.sum(jnp.sin(variable.value) * variable.value)
                first = inner.gradient(y, variable)
            return first, outer.gradient(first, variable), outer_jacobian()

    def outer_jacobian() -> Any:
        with GradientTape() as outer:
            with GradientTape() as inner:
                y = jnp.sum(variable.value**3)
            first = inner.gradient(y, variable)
        return outer.jacobian(first, variable)

    wanted = (
        jnp.sin(X) + X * jnp.cos(X),
        2 * jnp.cos(X) - X * jnp.sin(X),
        jnp.diag(6 * X),
    )
    close(fn(X), wanted)
    close(jax.jit(fn)(X), wanted)


def test_a_gradient_penalty() -> None:
    model, inputs = built(dense)
    inputs = jnp.asarray(inputs)
    variables = model.trainable_variables

    def by_tapes(values: Any) -> Any:
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            with GradientTape() as tape:
                with GradientTape() as inner:
                    inner.watch(inputs)
                    outputs = model(inputs)
                slopes = inner.gradient(outputs, inputs)
                loss = jnp.mean((jnp.sqrt(jnp.sum(slopes**2, axis=1)) - 1) ** 2)
            return tape.gradient(loss, variables)

    def loss(values: Any) -> Any:
        def outputs(inputs: Any) -> Any:
            return jnp.sum(model.stateless_call(values, [], inputs)[0])

        slopes = jax.grad(outputs)(inputs)
        return jnp.mean((jnp.sqrt(jnp.sum(slopes**2, axis=1)) - 1) ** 2)

    values = [variable.value for variable in variables]
    wanted = jax.grad(loss)(values)
    for found in (by_tapes(values), jax.jit(by_tapes)(values)):
        assert found[3] is None  # the last bias moves no slope
        close(found[:3], wanted[:3])


def test_two_tapes_and_two_optimizers() -> None:
    noise = RNG.normal(size=(6, 2)).astype("float32")
    real = RNG.normal(size=(6, 3)).astype("float32")
    entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    def pair() -> tuple[keras.Model, keras.Model]:
        keras.utils.set_random_seed(4)
        generator = keras.Sequential([layers.Dense(4, activation="relu"), layers.Dense(3)])
        critic = keras.Sequential([layers.Dense(4, activation="relu"), layers.Dense(1)])
        generator.build((None, 2))
        critic.build((None, 3))
        return generator, critic

    def losses(generator: Any, critic: Any) -> tuple[Any, Any]:
        fake = generator(noise)
        real_logits, fake_logits = critic(real), critic(fake)
        ones = jnp.ones_like(real_logits)
        wins = entropy(ones, fake_logits)
        return wins, entropy(ones, real_logits) + entropy(ones * 0, fake_logits)

    generator, critic = pair()
    optimizers = keras.optimizers.Adam(0.1), keras.optimizers.Adam(0.1)
    for _ in range(3):
        with GradientTape() as generator_tape, GradientTape() as critic_tape:
            generator_loss, critic_loss = losses(generator, critic)
        for tape, loss, model, optimizer in (
            (generator_tape, generator_loss, generator, optimizers[0]),
            (critic_tape, critic_loss, critic, optimizers[1]),
        ):
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply(gradients, model.trainable_variables)

    other_generator, other_critic = pair()
    sizes = [len(model.trainable_variables) for model in (other_generator, other_critic)]

    def stateless(first: Any, second: Any, which: int) -> Any:
        return losses(
            lambda x: other_generator.stateless_call(first, [], x)[0],
            lambda x: other_critic.stateless_call(second, [], x)[0],
        )[which]

    optimizers = keras.optimizers.Adam(0.1), keras.optimizers.Adam(0.1)
    for _ in range(3):
        values = [v.value for m in (other_generator, other_critic) for v in m.trainable_variables]
        first, second = values[: sizes[0]], values[sizes[0] :]
        gradients = [jax.grad(stateless, which)(first, second, which) for which in (0, 1)]
        for model, optimizer, gradient in zip(
            (other_generator, other_critic), optimizers, gradients, strict=True
        ):
            optimizer.apply(gradient, model.trainable_variables)
    for model, other in ((generator, other_generator), (critic, other_critic)):
        close(
            [variable.value for variable in model.trainable_variables],
            [variable.value for variable in other.trainable_variables],
            rtol=1e-4,
        )


def test_sources_in_the_containers_of_keras() -> None:
    class Pair(layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.parts = [layers.Dense(2), layers.Dense(2)]
            self.weights_by_name = {"scale": self.add_weight(shape=(2,), initializer="ones")}

        def call(self, x: Any) -> Any:
            return self.parts[1](self.parts[0](x)) * self.weights_by_name["scale"]

    layer = Pair()
    layer(np.ones((1, 3), "float32"))
    with GradientTape() as tape:
        y = jnp.sum(layer(np.ones((1, 3), "float32")))
    found = tape.gradient(y, [layer.weights_by_name, layer.parts[1]._trainable_variables])
    assert found[0]["scale"].shape == (2,)
    assert [each.shape for each in found[1]] == [(2, 2), (2,)]


def test_inner_jax_gradients_of_a_stateless_call() -> None:
    model, inputs = built(dense)
    values = [variable.value for variable in model.trainable_variables]

    def loss(values: Any) -> Any:
        return loss_of(model.stateless_call(values, [], inputs)[0])

    def norm(values: Any) -> Any:
        return sum(jnp.sum(each**2) for each in jax.grad(loss)(values))

    def fn() -> Any:
        with GradientTape() as tape:
            read = [variable.value for variable in model.trainable_variables]
            y = norm(read)
        return tape.gradient(y, model.trainable_variables)

    wanted = jax.grad(norm)(values)
    close(fn(), wanted)
    close(jax.jit(fn)(), wanted)


def test_reading_a_variable_without_a_tape_gives_the_array_it_holds() -> None:
    variable = keras.Variable(X)
    assert variable.value is variable._value
    with GradientTape() as tape:
        assert variable.value is variable.value
        read = variable.value
        with tape.stop_recording():
            assert variable.value is variable._value
    assert read is not variable._value
    assert read.unsafe_buffer_pointer() == variable._value.unsafe_buffer_pointer()
