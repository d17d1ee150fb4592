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

RNG_POINTS = RNG.normal(size=(1, 1, 6, 2)).astype(np.float32)


def _sparse(v1):
    return v1.SparseTensor([[0, 1], [1, 0], [1, 1]], [1.0, 2.0, 3.0], [2, 2])


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
    "bincount": lambda v1: v1.bincount(NUMBERS, None, 5),
    "confusion_matrix": lambda v1: v1.confusion_matrix(NUMBERS, NUMBERS[::-1].copy(), 3, v1.int64),
    "reverse_sequence": lambda v1: v1.reverse_sequence(ROWS, [1, 2, 3, 2], seq_dim=1, batch_dim=0),
    "space_to_batch": lambda v1: v1.space_to_batch(IMAGE[:, :4, :4], [[0, 0], [0, 0]], 2),
    "batch_to_space": lambda v1: v1.batch_to_space(
        np.concatenate([IMAGE] * 4), [[0, 0], [0, 0]], block_size=2
    ),
    "clip_by_average_norm": lambda v1: v1.clip_by_average_norm(ROWS, 0.1),
    "clip_by_average_norm_below": lambda v1: v1.clip_by_average_norm(ROWS, 9.0),
    "setdiff1d": lambda v1: v1.setdiff1d([1, 2, 3, 2, 5], [2, 3], v1.int64),
    "sparse_to_dense": lambda v1: v1.sparse_to_dense([[0, 1], [2, 0]], [3, 2], [5, 6], -1),
    "sparse_to_dense_vector": lambda v1: v1.sparse_to_dense([0, 3], [4], 1.5),
    "tuple": lambda v1: v1.tuple([v1.constant(1.0), v1.constant(2)]),
    "finite": lambda v1: v1.verify_tensor_all_finite(ROWS, msg="no"),
    "case": lambda v1: v1.case(
        [(v1.constant(False), lambda: v1.constant(1)), (v1.constant(True), lambda: v1.constant(2))],
        default=lambda: v1.constant(3),
    ),
    "conv2d_transpose": lambda v1: v1.nn.conv2d_transpose(
        value=IMAGE, filter=FILTER[..., :2], output_shape=[1, 10, 10, 2], strides=[1, 2, 2, 1]
    ),
    "convolution": lambda v1: v1.nn.convolution(IMAGE, FILTER, "VALID", [1, 1], [2, 2]),
    "crelu": lambda v1: v1.nn.crelu(ROWS, "name", 0),
    "depth_to_space": lambda v1: v1.depth_to_space(np.tile(IMAGE, 2), 2),
    "space_to_depth": lambda v1: v1.space_to_depth(IMAGE[:, :4, :4], 2),
    "depthwise_conv2d": lambda v1: v1.nn.depthwise_conv2d(
        IMAGE, FILTER, [1, 1, 1, 1], "SAME", rate=[2, 2]
    ),
    "separable_conv2d": lambda v1: v1.nn.separable_conv2d(
        IMAGE, FILTER, RNG_POINTS, [1, 1, 1, 1], "SAME", None
    ),
    "dilation2d": lambda v1: v1.nn.dilation2d(
        IMAGE, FILTER[..., 0], [1, 1, 1, 1], [1, 2, 2, 1], "SAME"
    ),
    "erosion2d": lambda v1: v1.nn.erosion2d(
        IMAGE, FILTER[..., 0], [1, 1, 1, 1], [1, 1, 1, 1], "VALID"
    ),
    "max_pool_with_argmax": lambda v1: v1.nn.max_pool_with_argmax(
        IMAGE, [1, 2, 2, 1], [1, 2, 2, 1], "VALID", Targmax=v1.int32
    ),
    "pool": lambda v1: v1.nn.pool(IMAGE, [2, 2], "MAX", "VALID"),
    "sufficient_statistics": lambda v1: v1.nn.sufficient_statistics(ROWS, [0], keep_dims=True)[:3],
    "weighted_moments": lambda v1: v1.nn.weighted_moments(ROWS, [0], OTHERS, None, True),
    "weighted_cross_entropy": lambda v1: v1.nn.weighted_cross_entropy_with_logits(
        targets=ONE_HOT, logits=ROWS, pos_weight=2.0
    ),
    "batch_norm_with_global_normalization": lambda v1: v1.nn.batch_norm_with_global_normalization(
        IMAGE, *np.float32([[0.0, 1.0], [1.0, 2.0], [0.5, 0.5], [2.0, 3.0]]), 1e-3, True
    ),
    "assert_equal": lambda v1: v1.assert_equal(1, 1, [ROWS], 2, "message") or 0,
    "assert_rank": lambda v1: v1.assert_rank(ROWS, 2, ["data"]) or 0,
    "reduce_join": lambda v1: v1.reduce_join([["a", "b"], ["c", "d"]], reduction_indices=1),
    "strings_substr": lambda v1: v1.strings.substr(["häl"], 1, 2, None, "UTF8_CHAR"),
    "strings_split": lambda v1: v1.strings.split(["a b", "c"]).values,
    "strings_split_scalar": lambda v1: v1.strings.split("a,b", ",", 1).indices,
    "strings_split_ragged": lambda v1: v1.strings.split(
        source=["a b", "c"], result_type="RaggedTensor"
    ).row_lengths(),
    "decode_csv": lambda v1: v1.decode_csv(["1,x", "2,"], [[0], ["y"]], ","),
    "decode_raw": lambda v1: v1.decode_raw(bytes=[b"ab"], out_type=v1.uint8),
    "crop_and_resize": lambda v1: v1.image.crop_and_resize(
        IMAGE, [[0.1, 0.0, 1.0, 0.8]], box_ind=[0], crop_size=[3, 3]
    ),
    "extract_image_patches": lambda v1: v1.extract_image_patches(
        IMAGE, ksizes=[1, 2, 2, 1], strides=[1, 2, 2, 1], rates=[1, 1, 1, 1], padding="VALID"
    ),
    **{
        f"resize_{name}_{corners}_{size}": (
            lambda v1, name=name, corners=corners, size=size: v1.image.resize_images(
                np.concatenate([IMAGE, 2 * IMAGE]),
                size,
                getattr(v1.image.ResizeMethod, name),
                corners,
            )
        )
        for name in ("BILINEAR", "NEAREST_NEIGHBOR", "BICUBIC")
        for corners in (False, True)
        for size in ((3, 7), (9, 2))
    },
    "resize_area": lambda v1: v1.image.resize_area(IMAGE, [2, 3]),
    "resize_same": lambda v1: v1.image.resize_images(np.ones((5, 5, 2), np.uint8), [5, 5]),
    "resize_one": lambda v1: v1.image.resize(
        np.arange(20, dtype=np.uint8).reshape(5, 4, 1), [10, 10], preserve_aspect_ratio=True
    ),
    "resize_half_pixels": lambda v1: v1.image.resize_bilinear(
        IMAGE, [8, 3], half_pixel_centers=True
    ),
    "resize_nearest_half_pixels": lambda v1: v1.image.resize_nearest_neighbor(
        IMAGE, [8, 3], half_pixel_centers=True
    ),
    "sparse_reduce_sum": lambda v1: v1.sparse_reduce_sum(_sparse(v1), reduction_axes=[0]),
    "sparse_concat": lambda v1: v1.sparse_concat(1, sp_inputs=[_sparse(v1), _sparse(v1)]).indices,
    "sparse_add": lambda v1: v1.sparse_tensor_to_dense(
        v1.sparse_add(_sparse(v1), _sparse(v1), thresh=2.5)
    ),
    "sparse_segment_sum": lambda v1: v1.sparse_segment_sum(ROWS, [0, 2], [0, 0], None, 3),
    "output_types": lambda v1: [
        each.as_numpy_dtype(0)
        for each in v1.data.get_output_types(v1.data.Dataset.from_tensors((1, 2.0)))
    ],
    "output_shapes": lambda v1: [
        len(each) for each in v1.data.Dataset.from_tensors((ROWS, 2.0)).output_shapes
    ],
    "one_shot": lambda v1: [
        v1.data.make_one_shot_iterator(v1.data.Dataset.range(3)).get_next(),
        v1.data.Dataset.range(3, 5).make_one_shot_iterator().get_next(),
    ],
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
