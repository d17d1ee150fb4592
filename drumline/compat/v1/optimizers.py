"""``tf.compat.v1.train``'s optimizers and schedules of learning rates, with Keras's optimizers."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np
from keras import ops

from drumline.compat.ops.arrays import zeros
from drumline.compat.training.tape import TensorTape
from drumline.compat.training.variable import TensorVariable
from drumline.compat.values.boundary import unwrap
from drumline.compat.values.computing import compute
from drumline.compat.values.convert import convert
from drumline.compat.values.tensor import Tensor
from drumline.estimator.graph import GraphOp, ModelCall, ModelGraph, running
from drumline.estimator.premade.optimizers import SparseFtrl


class FormerMomentum(keras.optimizers.SGD):
    """Momentum as in TensorFlow 1: the learning rate is not a part of what is accumulated."""

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        rate = ops.cast(learning_rate, variable.dtype)
        slope = ops.cast(gradient, variable.dtype)
        sums = self.momentums[self._get_variable_index(variable)]
        total = ops.add(ops.multiply(sums, self.momentum), slope)
        self.assign(sums, total)
        step = ops.add(slope, ops.multiply(total, self.momentum)) if self.nesterov else total
        self.assign_sub(variable, ops.multiply(rate, step))


class FormerRMSProp(keras.optimizers.RMSprop):
    """RMSProp as in TensorFlow 1: mean squares begin at 1, and momentum holds the learning rate."""

    def build(self, variables: Any) -> None:
        super().build(variables)
        for mean in self._velocities:
            mean.assign(ops.ones(mean.shape, mean.dtype))

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        rate = ops.cast(learning_rate, variable.dtype)
        slope = ops.cast(gradient, variable.dtype)
        at = self._get_variable_index(variable)
        squares = self._velocities[at]
        self.assign(squares, self.rho * squares + (1 - self.rho) * ops.square(slope))
        spread = squares + self.epsilon
        if self.centered:
            mean = self._average_gradients[at]
            self.assign(mean, self.rho * mean + (1 - self.rho) * slope)
            spread = spread - ops.square(mean)
        step = rate * slope / ops.sqrt(spread)
        if self.momentum > 0:
            sums = self._momentums[at]
            self.assign(sums, self.momentum * sums + step)
            step = sums
        self.assign_sub(variable, step)


class FormerOptimizer:
    """An optimizer, as ``tf.compat.v1.train.Optimizer``.

    Args:
        name: for messages.
        rate: the learning rate: a number, a tensor, or a function that gives one.
        make: makes Keras's optimizer of a learning rate.
    """

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2

    def __init__(self, name: str, rate: Any, make: Callable[[float], Any]):
        self._name = name
        self._rate, self._make = rate, make
        call = running()
        if call is None:
            self._optimizer = make(float(np.asarray(self._rate_now())))
        elif call.graph.on_servers:
            self._optimizer = self._on_servers(call.graph, make)
        else:
            # The rate may be computed of the step, and is set at each update.
            self._optimizer = make(0.0)

    def _on_servers(self, graph: ModelGraph, make: Callable[[float], Any]) -> Any:
        """The optimizer as parameter servers know it, with a rate that is known outside of steps.

        Raises:
            NotImplementedError: the rate is computed in the step.
        """
        if callable(self._rate):
            optimizer = graph.optimizer_of(make(0.0))
            if all(known is not optimizer for known, _ in graph.rates):
                graph.rates.append((optimizer, self._rate))
            return optimizer
        try:
            return graph.optimizer_of(make(float(np.asarray(unwrap(self._rate)))))
        except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
            raise NotImplementedError(
                f"{type(self).__name__}(learning_rate={self._rate!r}): parameter servers update "
                "variables when a step has ended, and do not know what it has computed. Give a "
                "number, a function of the global step, or what tf.compat.v1.train's "
                "exponential_decay and the like return."
            ) from None

    def fresh(self) -> FormerOptimizer:
        """One like it that has no variables yet, for another model_fn, or another call of it."""
        made = copy.copy(self)
        FormerOptimizer.__init__(made, self._name, self._rate, self._make)
        return made

    def _rate_now(self) -> Any:
        return unwrap(self._rate() if callable(self._rate) else self._rate)

    def get_name(self) -> str:
        """Its name."""
        return self._name

    def variables(self) -> list[Any]:
        """What it keeps of its own, but the learning rate."""
        return [each for each in self._optimizer.variables if each.name != "learning_rate"]

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """Gradients of a loss.

        Args:
            loss: a function without arguments that gives the loss; in an Estimator's model_fn,
                the loss.
            var_list: the variables; by default the trainable ones that the function reads.
            grad_loss: the gradient for the loss itself.
            gate_gradients: and ``aggregation_method``, ``colocate_gradients_with_ops``: no effect.

        Returns:
            A gradient, or None, and the variable, for each variable.

        Raises:
            RuntimeError: the loss is no function.
        """
        call = running()
        if call is not None:
            return self._of_model(call, loss, var_list, grad_loss)
        if not callable(loss):
            raise RuntimeError(
                "`loss` passed to Optimizer.compute_gradients should be a function when eager "
                "execution is enabled: pass a function that computes the loss, or use "
                "tf.GradientTape and apply_gradients."
            )
        with TensorTape() as tape:
            value = loss()
        found = tape.watched_variables() if var_list is None else var_list
        chosen = list(found) if isinstance(found, (list, tuple)) else [found]
        gradients = tape.gradient(value, chosen, output_gradients=grad_loss)
        return list(zip(gradients, chosen, strict=True))

    def _of_model(
        self, call: ModelCall, loss: Any, var_list: Any, grad_loss: Any
    ) -> list[tuple[Any, Any]]:
        """Gradients of what a model_fn has computed, each replica's part of them."""
        value = loss() if callable(loss) else loss
        found = call.tape.watched_variables() if var_list is None else var_list
        chosen = list(found) if isinstance(found, (list, tuple)) else [found]
        if call.building or not call.training:
            return [(zeros(tuple(each.shape), each.dtype), each) for each in chosen]
        # Replicas' gradients are added: of a mean each has its share, of a sum its part.
        if call.replicas > 1 and not call.sums_loss:
            value = value / call.replicas
        with call.tape.stop_recording():
            gradients = call.tape.gradient(value, chosen, output_gradients=grad_loss)
        return list(zip(gradients, chosen, strict=True))

    def apply_gradients(
        self, grads_and_vars: Any, global_step: TensorVariable | None = None, name: Any = None
    ) -> GraphOp | None:
        """Update variables; in a model_fn, if it is called for training.

        Args:
            grads_and_vars: pairs of a gradient and a variable; those without a gradient stay.
            global_step: a variable to which 1 is added.

        Raises:
            ValueError: there is no gradient at all.
        """
        call = running()
        done = None if call is None else GraphOp(self._name)
        if call is not None and not call.training:
            return done
        pairs = [(unwrap(slope), variable) for slope, variable in grads_and_vars]
        if not any(slope is not None for slope, _ in pairs):
            raise ValueError("No gradients provided for any variable.")
        if not self._optimizer.built:
            self._optimizer.build([variable for _, variable in pairs])
        if call is not None and call.building:
            return done
        if callable(self._rate) if call is None else not call.graph.on_servers:
            self._optimizer.learning_rate = self._rate_now()
        self._optimizer.apply_gradients([pair for pair in pairs if pair[0] is not None])
        if global_step is not None:
            global_step.assign_add(1)
        return done

    def minimize(
        self,
        loss: Any,
        global_step: TensorVariable | None = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: Any = None,
        grad_loss: Any = None,
    ) -> GraphOp | None:
        """Compute the gradients of a loss and update the variables; see `compute_gradients`."""
        pairs = self.compute_gradients(loss, var_list, grad_loss=grad_loss)
        return self.apply_gradients(pairs, global_step)


FormerOptimizer.__name__ = FormerOptimizer.__qualname__ = "Optimizer"


class GradientDescentOptimizer(FormerOptimizer):
    """Gradient descent."""

    def __init__(
        self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"
    ):
        super().__init__(name, learning_rate, keras.optimizers.SGD)


class MomentumOptimizer(FormerOptimizer):
    """Gradient descent with momentum."""

    def __init__(
        self,
        learning_rate: Any,
        momentum: float,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ):
        def make(rate: float) -> Any:
            return FormerMomentum(rate, momentum, nesterov=use_nesterov)

        super().__init__(name, learning_rate, make)


class AdamOptimizer(FormerOptimizer):
    """Adam."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ):
        def make(rate: float) -> Any:
            return keras.optimizers.Adam(rate, beta1, beta2, epsilon)

        super().__init__(name, learning_rate, make)


class AdagradOptimizer(FormerOptimizer):
    """Adagrad."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ):
        def make(rate: float) -> Any:
            return keras.optimizers.Adagrad(rate, initial_accumulator_value, epsilon=0.0)

        super().__init__(name, learning_rate, make)


class AdadeltaOptimizer(FormerOptimizer):
    """Adadelta."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ):
        super().__init__(
            name, learning_rate, lambda rate: keras.optimizers.Adadelta(rate, rho, epsilon)
        )


class RMSPropOptimizer(FormerOptimizer):
    """RMSProp."""

    def __init__(
        self,
        learning_rate: Any,
        decay: float = 0.9,
        momentum: float = 0.0,
        epsilon: float = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ):
        def make(rate: float) -> Any:
            return FormerRMSProp(rate, decay, momentum, epsilon, centered)

        super().__init__(name, learning_rate, make)


class FtrlOptimizer(FormerOptimizer):
    """FTRL."""

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: Any = None,
        linear_name: Any = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ):
        def make(rate: float) -> Any:
            return SparseFtrl(
                rate,
                learning_rate_power,
                initial_accumulator_value,
                l1_regularization_strength,
                l2_regularization_strength,
                l2_shrinkage_regularization_strength,
                beta or 0.0,
            )

        super().__init__(name, learning_rate, make)


# Schedules: functions of no arguments, which optimizers call at each step.


def _as_int32(step: Any) -> Any:
    return step.clip(None, np.iinfo(np.int32).max).astype(np.int32)


def _scheduled(schedule: Any, step: Any) -> Callable[[], Tensor]:
    def rate() -> Tensor:
        value = convert(step() if callable(step) else step)
        if value.dtype.kind == "i":  # as Keras has them; beyond 32 bits schedules are at their ends
            value = compute(_as_int32, value)
        return Tensor(schedule(value))

    return rate


def exponential_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: Any = None,
) -> Callable[[], Tensor]:
    """A learning rate that is multiplied by a rate every so many steps.

    Returns:
        A function of no arguments, as in TensorFlow 2: the learning rate at the global step.
    """
    kind = keras.optimizers.schedules.ExponentialDecay
    return _scheduled(kind(learning_rate, decay_steps, decay_rate, staircase), global_step)


def natural_exp_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: Any = None,
) -> Callable[[], Tensor]:
    """As `exponential_decay`, by a power of e."""
    base = float(np.exp(-decay_rate))
    return exponential_decay(learning_rate, global_step, decay_steps, base, staircase)


def inverse_time_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    decay_rate: float,
    staircase: bool = False,
    name: Any = None,
) -> Callable[[], Tensor]:
    """A learning rate that is divided by one plus a multiple of the time."""
    kind = keras.optimizers.schedules.InverseTimeDecay
    return _scheduled(kind(learning_rate, decay_steps, decay_rate, staircase), global_step)


def polynomial_decay(
    learning_rate: float,
    global_step: Any,
    decay_steps: int,
    end_learning_rate: float = 0.0001,
    power: float = 1.0,
    cycle: bool = False,
    name: Any = None,
) -> Callable[[], Tensor]:
    """A learning rate that falls to another one as a power of the time."""
    kind = keras.optimizers.schedules.PolynomialDecay
    schedule = kind(learning_rate, decay_steps, end_learning_rate, power, cycle)
    return _scheduled(schedule, global_step)


def cosine_decay(
    learning_rate: float, global_step: Any, decay_steps: int, alpha: float = 0.0, name: Any = None
) -> Callable[[], Tensor]:
    """A learning rate that falls as half a wave."""
    kind = keras.optimizers.schedules.CosineDecay
    return _scheduled(kind(learning_rate, decay_steps, alpha), global_step)


def piecewise_constant(
    x: Any, boundaries: list[Any], values: list[Any], name: Any = None
) -> Callable[[], Tensor]:
    """One of several learning rates, by the step."""
    kind = keras.optimizers.schedules.PiecewiseConstantDecay
    return _scheduled(kind(boundaries, values), x)
