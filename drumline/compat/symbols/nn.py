"""``tf.nn``."""

from drumline.compat.symbols.table import area, same_names

_CONVOLUTIONS = (
    "convolution conv1d conv2d conv3d conv_transpose conv1d_transpose conv2d_transpose "
    "conv3d_transpose depthwise_conv2d separable_conv2d atrous_conv2d atrous_conv2d_transpose "
    "depthwise_conv2d_backprop_input depthwise_conv2d_backprop_filter pool max_pool max_pool1d "
    "max_pool2d max_pool3d avg_pool avg_pool1d avg_pool2d avg_pool3d max_pool_with_argmax "
    "dilation2d erosion2d"
)

_NOT_COMPILED = "compiled functions do not know the shape of the result, and refuse it"

AREA = (
    *same_names(
        "drumline.compat.ops.nn.ctc",
        "nn.",
        "ctc_loss ctc_greedy_decoder ctc_beam_search_decoder",
        differences={
            "ctc_loss": "of dense labels",
            "ctc_greedy_decoder": _NOT_COMPILED,
            "ctc_beam_search_decoder": _NOT_COMPILED,
        },
    ),
    *same_names(
        "drumline.compat.composite.embeddings",
        "nn.",
        "embedding_lookup_sparse safe_embedding_lookup_sparse compute_accidental_hits",
        differences={"compute_accidental_hits": _NOT_COMPILED},
    ),
    *same_names(
        "drumline.compat.ops.nn.functions",
        "nn.",
        "relu relu6 elu selu silu gelu leaky_relu softmax log_softmax crelu dropout bias_add "
        "l2_loss sparse_softmax_cross_entropy_with_logits softmax_cross_entropy_with_logits "
        "sigmoid_cross_entropy_with_logits weighted_cross_entropy_with_logits log_poisson_loss "
        "nce_loss sampled_softmax_loss moments weighted_moments sufficient_statistics "
        "normalize_moments batch_normalization batch_norm_with_global_normalization "
        "local_response_normalization embedding_lookup compute_average_loss "
        "scale_regularization_loss",
        differences={"dropout": "other random bits than TensorFlow's"},
    ),
    *same_names("drumline.compat.ops.nn.convolutions", "nn.", _CONVOLUTIONS),
    *same_names(
        "drumline.compat.ops.nn.quantization",
        "quantization.",
        "fake_quant_with_min_max_args fake_quant_with_min_max_vars "
        "fake_quant_with_min_max_vars_per_channel quantize_and_dequantize_v2",
    ),
    *area(
        "drumline.compat.ops.nn.convolutions",
        conv2d_backprop_input="compat.v1.nn.conv2d_backprop_input",
        conv2d_backprop_filter="compat.v1.nn.conv2d_backprop_filter",
    ),
    *area(
        "drumline.compat.ops.nn.functions",
        silu="nn.swish",
        softmax="math.softmax",
        log_softmax="math.log_softmax",
        local_response_normalization="nn.lrn",
        fused_batch_norm="compat.v1.nn.fused_batch_norm",
    ),
    *area(
        "drumline.compat.ops.elementwise",
        sigmoid="nn.sigmoid",
        tanh="nn.tanh",
        softplus="nn.softplus",
        softsign="nn.softsign",
    ),
    *area("drumline.compat.ops.math.reductions", top_k="nn.top_k", in_top_k="nn.in_top_k"),
)
