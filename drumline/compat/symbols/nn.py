"""``tf.nn``."""

from drumline.compat.symbols.table import area, same_names

AREA = (
    *same_names(
        "drumline.compat.ops.nn",
        "nn.",
        "relu relu6 elu selu silu gelu leaky_relu softmax log_softmax dropout bias_add l2_loss "
        "sparse_softmax_cross_entropy_with_logits softmax_cross_entropy_with_logits "
        "sigmoid_cross_entropy_with_logits moments conv1d conv2d conv3d max_pool1d max_pool2d "
        "max_pool3d avg_pool1d avg_pool2d avg_pool3d embedding_lookup compute_average_loss "
        "scale_regularization_loss",
        differences={
            "dropout": "other random bits than TensorFlow's",
            "embedding_lookup": "max_norm= is refused",
            "conv1d": "explicit paddings are refused: pad with tf.pad",
            "conv2d": "explicit paddings are refused: pad with tf.pad",
            "conv3d": "explicit paddings are refused: pad with tf.pad",
        },
    ),
    *area(
        "drumline.compat.ops.nn",
        silu="nn.swish",
        softmax="math.softmax",
        log_softmax="math.log_softmax",
        max_pool2d="nn.max_pool",
        avg_pool2d="nn.avg_pool",
    ),
    *area(
        "drumline.compat.ops.elementwise",
        sigmoid="nn.sigmoid",
        tanh="nn.tanh",
        softplus="nn.softplus",
        softsign="nn.softsign",
    ),
    *area("drumline.compat.ops.reductions", top_k="nn.top_k", in_top_k="nn.in_top_k"),
)
