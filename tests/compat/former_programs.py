"""Programs of ``tf.compat.v1``, which take TensorFlow or its look-alike and return numbers."""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(4, 3)).astype(np.float32)
OTHERS = RNG.uniform(0.1, 0.9, size=(4, 3)).astype(np.float32)
ONE_HOT = np.eye(3, dtype=np.float32)[[0, 2, 1, 1]]
NUMBERS = np.array([0, 2, 1, 1])
IMAGE = RNG.normal(size=(1, 5, 5, 2)).astype(np.float32)
FILTER = RNG.normal(size=(2, 2, 2, 3)).astype(np.float32)

OPTIMIZERS = {
    "gradient_descent": lambda v1: v1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda v1: v1.train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda v1: v1.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda v1: v1.train.AdamOptimizer(0.1),
    "adam_options": lambda v1: v1.train.AdamOptimizer(0.1, beta1=0.5, beta2=0.9, epsilon=0.1),
    "adagrad": lambda v1: v1.train.AdagradOptimizer(0.1),
    "adadelta": lambda v1: v1.train.AdadeltaOptimizer(0.1),
    "rmsprop": lambda v1: v1.train.RMSPropOptimizer(0.1),
    "rmsprop_options": lambda v1: v1.train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
    "ftrl": lambda v1: v1.train.FtrlOptimizer(
        0.1, l1_regularization_strength=0.01, l2_regularization_strength=0.02
    ),
}


def minimized(tf, make):
    """Two variables and the step after some steps of an optimizer."""
    v1 = tf.compat.v1
    x, y = tf.Variable([1.0, 2.0]), tf.Variable([[3.0], [0.5]])
    step = tf.Variable(0, dtype=tf.int64, trainable=False)
    optimizer = make(v1)
    for _ in range(4):
        optimizer.minimize(
            lambda: tf.reduce_sum(x * x) + tf.reduce_sum(tf.sin(y)), step, var_list=[x, y]
        )
    return x.numpy(), y.numpy(), step.numpy()


def decayed(tf):
    """Learning rates of schedules, and what an optimizer does with one."""
    train, found = tf.compat.v1.train, []
    for at in (0, 3, 25):
        step = tf.constant(at)
        found += [
            train.exponential_decay(0.1, step, 10, 0.5)(),
            train.exponential_decay(0.1, step, 10, 0.5, staircase=True)(),
            train.natural_exp_decay(0.1, step, 10, 0.5)(),
            train.inverse_time_decay(0.1, step, 10, 0.5)(),
            train.polynomial_decay(0.1, step, 10)(),
            train.polynomial_decay(0.1, step, 10, 0.01, power=2.0, cycle=True)(),
            train.cosine_decay(0.1, step, 10)(),
            train.piecewise_constant(step, [2, 10], [1.0, 0.5, 0.1])(),
        ]
    counted, x = tf.Variable(0, dtype=tf.int64, trainable=False), tf.Variable(1.0)
    rate = train.exponential_decay(0.1, counted, 1, 0.5)
    optimizer = train.MomentumOptimizer(rate, 0.9)
    for _ in range(3):
        optimizer.minimize(lambda: x * x, counted, [x])
    return [*found, x.read_value()]


LOSSES = {
    "absolute_difference": (OTHERS, ROWS),
    "mean_squared_error": (OTHERS, ROWS),
    "hinge_loss": (ONE_HOT, ROWS),
    "huber_loss": (OTHERS, 3 * ROWS),
    "log_loss": (ONE_HOT, OTHERS),
    "sigmoid_cross_entropy": (ONE_HOT, ROWS),
    "softmax_cross_entropy": (ONE_HOT, ROWS),
    "sparse_softmax_cross_entropy": (NUMBERS, ROWS),
    "mean_pairwise_squared_error": (OTHERS, ROWS),
}
BY_ROW = np.array([1.0, 0.0, 2.0, 0.5], np.float32)


def losses(tf, name):
    """A loss with several weights and reductions."""
    module = tf.compat.v1.losses
    function = getattr(module, name)
    labels, predictions = LOSSES[name]
    of_rows = BY_ROW if (name.startswith("s") and "softmax" in name) or "softmax" in name else None
    weights = of_rows if of_rows is not None else BY_ROW[:, None]
    found = [function(labels, predictions), function(labels, predictions, weights=weights)]
    if name == "mean_pairwise_squared_error":
        return found
    found += [
        function(labels, predictions, weights, reduction=reduction)
        for reduction in sorted(module.Reduction.all())
    ]
    found += [function(labels, predictions, 0.0)]
    if "cross_entropy" in name and not name.startswith("sparse"):
        found += [function(labels, predictions, label_smoothing=0.1)]
    return found


FUNCTIONS = {
    "reduce_sum": lambda v1: v1.reduce_sum(ROWS, reduction_indices=[0], keep_dims=True),
    "reduce_mean": lambda v1: v1.reduce_mean(ROWS, 1, True),
    "reduce_logsumexp": lambda v1: v1.reduce_logsumexp(ROWS, axis=0),
    "reduce_all": lambda v1: v1.reduce_all(ROWS > 0, keep_dims=False),
    "count_nonzero": lambda v1: v1.count_nonzero(NUMBERS, dtype=v1.int32),
    "argmax": lambda v1: v1.argmax(ROWS, dimension=1),
    "argmin": lambda v1: v1.argmin(ROWS, output_type=v1.int32),
    "arg_max": lambda v1: v1.arg_max(ROWS, 1),
    "expand_dims": lambda v1: v1.expand_dims(ROWS, dim=0),
    "squeeze": lambda v1: v1.squeeze(ROWS[None], squeeze_dims=[0]),
    "where_rows": lambda v1: v1.where([True, False, True, False], ROWS, OTHERS),
    "where": lambda v1: v1.where(ROWS > 0, ROWS, OTHERS),
    "where_indices": lambda v1: v1.where(NUMBERS > 0),
    "size": lambda v1: v1.size(ROWS, out_type=v1.int64),
    "shape": lambda v1: v1.shape(ROWS),
    "zeros_like": lambda v1: v1.zeros_like(ROWS, v1.int32, "name", True),
    "ones_like": lambda v1: v1.ones_like(tensor=ROWS),
    "gather": lambda v1: v1.gather(ROWS, [1, 0], None, "name", 1),
    "gather_nd": lambda v1: v1.gather_nd(ROWS, [[1, 0]]),
    "boolean_mask": lambda v1: v1.boolean_mask(ROWS, [True, False, True, True], "name"),
    "pad": lambda v1: v1.pad(ROWS, [[1, 0], [0, 1]], "CONSTANT", "name", 2.0),
    "transpose": lambda v1: v1.transpose(ROWS, [1, 0], "name"),
    "norm": lambda v1: v1.norm(ROWS, axis=1, keep_dims=True),
    "div": lambda v1: v1.div([7, -7], 2),
    "div_float": lambda v1: v1.div(7.0, 2.0),
    "floor_div": lambda v1: v1.floor_div([7, -7], 2),
    "scalar_mul": lambda v1: v1.scalar_mul(2.0, v1.convert_to_tensor(ROWS)),
    "constant": lambda v1: v1.constant(1.0, shape=[2, 2]),
    "to_float": lambda v1: v1.to_float(NUMBERS),
    "to_int32": lambda v1: v1.to_int32(3 * ROWS),
    "to_complex64": lambda v1: v1.to_complex64(ROWS),
    "string_to_number": lambda v1: v1.string_to_number(["1.5", "2"]),
    "substr": lambda v1: v1.substr(["hello"], 1, 3),
    "softmax": lambda v1: v1.nn.softmax(ROWS, dim=0),
    "log_softmax": lambda v1: v1.nn.log_softmax(ROWS),
    "moments": lambda v1: v1.nn.moments(ROWS, [0], keep_dims=True)[1],
    "conv2d": lambda v1: v1.nn.conv2d(IMAGE, FILTER, [1, 1, 1, 1], "SAME"),
    "conv2d_named": lambda v1: v1.nn.conv2d(
        input=IMAGE, filter=FILTER, strides=[1, 2, 2, 1], padding="VALID", use_cudnn_on_gpu=False
    ),
    "conv1d": lambda v1: v1.nn.conv1d(IMAGE[0], FILTER[0], 1, "SAME"),
    "max_pool": lambda v1: v1.nn.max_pool(IMAGE, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
    "avg_pool": lambda v1: v1.nn.avg_pool(value=IMAGE, ksize=2, strides=2, padding="VALID"),
    "dropout": lambda v1: v1.nn.dropout(ROWS, keep_prob=1.0),
    "softmax_cross_entropy": lambda v1: v1.nn.softmax_cross_entropy_with_logits(
        labels=ONE_HOT, logits=ROWS, dim=1
    ),
    "softmax_cross_entropy_v2": lambda v1: v1.nn.softmax_cross_entropy_with_logits_v2(
        ONE_HOT, ROWS
    ),
    "sparse_cross_entropy": lambda v1: v1.nn.sparse_softmax_cross_entropy_with_logits(
        labels=NUMBERS, logits=ROWS
    ),
    "in_top_k": lambda v1: v1.nn.in_top_k(ROWS, NUMBERS, 1),
    "xw_plus_b": lambda v1: v1.nn.xw_plus_b(ROWS, ROWS.T, BY_ROW),
    "relu_layer": lambda v1: v1.nn.relu_layer(ROWS, ROWS.T, BY_ROW),
    "embedding_lookup": lambda v1: v1.nn.embedding_lookup(ROWS, [2, 0]),
    "batch_gather": lambda v1: v1.gather(ROWS, [0]),
    "logging": lambda v1: v1.logging.INFO + v1.logging.WARN,
}


def template(tf):
    """A function that a template gives variables, called twice."""
    v1 = tf.compat.v1

    def net(x):
        with v1.variable_scope("inner"):
            w = v1.get_variable("w", [3, 2], initializer=v1.constant_initializer(0.5))
        b = v1.get_variable("b", initializer=tf.constant([1.0, 2.0]))
        return tf.matmul(x, w) + b

    made = v1.make_template("net", net)
    first = made(ROWS)
    (bias,) = (each for each in made.trainable_variables if len(each.shape) == 1)
    bias.assign_add([1.0, 1.0])
    return first, made(ROWS), len(made.variables), len(v1.make_template("net", net).variables)


def scopes(tf):
    """Names of scopes within others."""
    v1 = tf.compat.v1
    with v1.variable_scope("a") as outer, v1.variable_scope("b") as inner:
        names = outer.name, inner.name, inner.original_name_scope, v1.get_variable_scope().name
    fresh = v1.get_variable("w", [2]) is v1.get_variable("w", [2])
    return *names, fresh
