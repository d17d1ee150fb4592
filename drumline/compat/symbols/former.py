"""``tf.compat.v1``: functions with former arguments, variables, layers, losses, training."""

from dataclasses import replace

from drumline.compat.symbols import data, distribute, runtime, saved_model, train, training
from drumline.compat.symbols.table import Entry, area, same_names

_V1 = "drumline.compat.v1."
_FUNCTIONS = "drumline.compat.v1.functions."
_LAYERS = (
    "dense conv1d conv2d conv3d conv2d_transpose conv3d_transpose separable_conv1d "
    "separable_conv2d max_pooling1d max_pooling2d max_pooling3d average_pooling1d "
    "average_pooling2d average_pooling3d flatten dropout batch_normalization"
)
_LAYER_CLASSES = (
    "AveragePooling1D AveragePooling2D AveragePooling3D BatchNormalization Conv1D Conv2D "
    "Conv2DTranspose Conv3D Conv3DTranspose Dense Dropout Flatten Layer MaxPooling1D MaxPooling2D "
    "MaxPooling3D SeparableConv1D SeparableConv2D InputSpec"
)
_SHARED = (
    "calls share their layer in a template of make_template and in scopes that reuse; "
    "TensorFlow 2.21 has none without tf_keras"
)
_LOSSES = (
    "absolute_difference compute_weighted_loss cosine_distance hinge_loss huber_loss log_loss "
    "mean_pairwise_squared_error mean_squared_error sigmoid_cross_entropy softmax_cross_entropy "
    "sparse_softmax_cross_entropy"
)
_METRICS = (
    "accuracy auc false_negatives false_negatives_at_thresholds false_positives "
    "false_positives_at_thresholds mean mean_absolute_error mean_cosine_distance mean_iou "
    "mean_per_class_accuracy mean_relative_error mean_squared_error percentage_below precision "
    "precision_at_thresholds recall recall_at_k recall_at_thresholds root_mean_squared_error "
    "true_negatives true_negatives_at_thresholds true_positives true_positives_at_thresholds"
)
_OPTIMIZERS = (
    "AdadeltaOptimizer AdagradOptimizer AdamOptimizer FtrlOptimizer GradientDescentOptimizer "
    "MomentumOptimizer RMSPropOptimizer"
)
_SCHEDULES = (
    "cosine_decay exponential_decay inverse_time_decay natural_exp_decay piecewise_constant "
    "polynomial_decay"
)
_ARRAYS = (
    "arg_max arg_min argmax argmin assign assign_add assign_sub batch_gather boolean_mask "
    "clip_by_average_norm constant convert_to_tensor count_nonzero div expand_dims floor_div "
    "gather gather_nd multinomial norm ones_like pad reduce_all reduce_any reduce_logsumexp "
    "reduce_max reduce_mean reduce_min reduce_prod reduce_sum reverse_sequence scalar_mul "
    "scatter_add scatter_div scatter_max scatter_min scatter_mul scatter_nd_add scatter_nd_sub "
    "scatter_nd_update scatter_sub scatter_update setdiff1d shape size sparse_to_dense squeeze "
    "to_bfloat16 to_complex128 to_complex64 to_double to_float to_int32 to_int64 transpose "
    "verify_tensor_all_finite where zeros_like"
)
_NN = (
    "avg_pool batch_norm_with_global_normalization conv1d conv2d conv2d_transpose conv3d "
    "conv3d_transpose convolution crelu depth_to_space depthwise_conv2d dilation2d dropout "
    "embedding_lookup embedding_lookup_sparse erosion2d in_top_k log_softmax max_pool "
    "max_pool_with_argmax moments nce_loss pool relu_layer safe_embedding_lookup_sparse "
    "sampled_softmax_loss separable_conv2d sigmoid_cross_entropy_with_logits softmax "
    "softmax_cross_entropy_with_logits softmax_cross_entropy_with_logits_v2 space_to_depth "
    "sparse_softmax_cross_entropy_with_logits sufficient_statistics "
    "weighted_cross_entropy_with_logits weighted_moments xw_plus_b"
)
_ASSERTS = (
    "assert_equal assert_greater assert_greater_equal assert_integer assert_less "
    "assert_less_equal assert_near assert_negative assert_non_negative assert_non_positive "
    "assert_none_equal assert_positive assert_rank assert_rank_at_least assert_rank_in "
    "assert_scalar assert_shapes assert_type"
)
_IMAGES = (
    "draw_bounding_boxes resize resize_area resize_bicubic resize_bilinear resize_nearest_neighbor"
)
_COLLECTIONS = (
    "GraphKeys add_to_collection add_to_collections all_variables get_collection "
    "get_collection_ref global_variables gradients local_variables model_variables "
    "moving_average_variables trainable_variables"
)
_LOSSES_OF_GRAPH = "add_loss get_losses get_regularization_loss get_regularization_losses"
_OF_MODEL = "in an Estimator's model_fn only: there are no graphs"
_CALLS = {
    "cond": "cond",
    "while_loop": "while_loop",
    "map_fn": "map_fn",
    "foldl": "foldl",
    "foldr": "foldr",
    "scan": "scan",
    "py_func": "numpy_function",
    "set_random_seed": "random.set_seed",
}
_PATHS = "Copy DeleteRecursively Exists Glob IsDirectory ListDirectory MakeDirs MkDir Remove Rename"
_INITIALIZERS = (
    "constant_initializer glorot_normal_initializer glorot_uniform_initializer ones_initializer "
    "orthogonal_initializer random_normal_initializer random_uniform_initializer "
    "truncated_normal_initializer variance_scaling_initializer zeros_initializer"
)
_CALLS = {
    "cond": "cond",
    "while_loop": "while_loop",
    "map_fn": "map_fn",
    "foldl": "foldl",
    "foldr": "foldr",
    "scan": "scan",
    "py_func": "numpy_function",
    "set_random_seed": "random.set_seed",
}
_BITS = "random numbers are others than TensorFlow's"
_LOCAL = "paths are local: URLs are refused"


def _as_in_2(area_of: tuple[Entry, ...], names: str, difference: str = "") -> tuple[Entry, ...]:
    """Declare names for what TensorFlow 2 has, whose objects in TensorFlow are others."""
    found = {entry.name: entry for entry in area_of}
    return tuple(
        replace(
            found[name],
            name=f"compat.v1.{name}",
            difference=difference or found[name].difference,
        )
        for name in names.split()
    )


AREA = (
    *area(
        "drumline.compat.v1.variables",
        global_variables_initializer="compat.v1.global_variables_initializer "
        "compat.v1.initialize_all_variables",
        local_variables_initializer="compat.v1.local_variables_initializer "
        "compat.v1.initialize_local_variables",
        variables_initializer="compat.v1.variables_initializer compat.v1.initialize_variables",
        tables_initializer="compat.v1.tables_initializer compat.v1.initialize_all_tables",
    ),
    *same_names(_FUNCTIONS + "arrays", "compat.v1.", _ARRAYS),
    *same_names(_FUNCTIONS + "flow", "compat.v1.", " ".join(_CALLS), needs=_CALLS),
    *area(
        _FUNCTIONS + "arrays",
        bincount="compat.v1.math.bincount",
        confusion_matrix="compat.v1.math.confusion_matrix",
        poisson="compat.v1.random.poisson",
        space_to_batch="compat.v1.space_to_batch",
        batch_to_space="compat.v1.batch_to_space",
        tuple_="compat.v1.tuple",
        differences={"poisson": _BITS, "multinomial": _BITS},
    ),
    *area(
        _FUNCTIONS + "flow",
        case="compat.v1.case",
        device="compat.v1.device",
        print_="compat.v1.Print",
        to_graph="compat.v1.autograph.to_graph",
        to_code="compat.v1.autograph.to_code",
    ),
    *same_names(_FUNCTIONS + "asserts", "compat.v1.debugging.", _ASSERTS),
    *same_names(_FUNCTIONS + "images", "compat.v1.image.", _IMAGES),
    *area(_FUNCTIONS + "images", FormerResizeMethod="compat.v1.image.ResizeMethod"),
    *area(
        _FUNCTIONS + "host",
        string_to_number="compat.v1.string_to_number",
        substr="compat.v1.substr compat.v1.strings.substr",
        length="compat.v1.strings.length",
        split="compat.v1.strings.split",
        reduce_join="compat.v1.strings.reduce_join",
        decode_csv="compat.v1.io.decode_csv",
        decode_raw="compat.v1.io.decode_raw",
        parse_example="compat.v1.io.parse_example",
        parse_single_example="compat.v1.io.parse_single_example",
        crop_and_resize="compat.v1.image.crop_and_resize",
        sample_distorted_bounding_box="compat.v1.image.sample_distorted_bounding_box",
        extract_image_patches="compat.v1.extract_image_patches",
        differences={"sample_distorted_bounding_box": _BITS},
    ),
    *same_names(
        _FUNCTIONS + "sparse",
        "compat.v1.sparse.",
        "add concat reduce_max reduce_sum segment_mean segment_sqrt_n segment_sum split",
    ),
    *same_names(
        _V1 + "collections",
        "compat.v1.",
        _COLLECTIONS,
        differences={name: _OF_MODEL for name in _COLLECTIONS.split() if name != "GraphKeys"},
    ),
    *same_names(
        _V1 + "collections",
        "compat.v1.losses.",
        _LOSSES_OF_GRAPH + " get_total_loss",
        differences=dict.fromkeys([*_LOSSES_OF_GRAPH.split(), "get_total_loss"], _OF_MODEL),
    ),
    *area(_V1 + "data", FormerDataset="compat.v1.data.Dataset"),
    *same_names(
        _V1 + "data",
        "compat.v1.data.",
        "get_output_classes get_output_shapes get_output_types make_initializable_iterator "
        "make_one_shot_iterator",
        differences={"make_initializable_iterator": "in an Estimator's input_fn only"},
    ),
    *_as_in_2(
        data.AREA,
        "data.FixedLengthRecordDataset data.TFRecordDataset data.TextLineDataset data.Iterator "
        "data.experimental.Counter data.experimental.CsvDataset data.experimental.RandomDataset "
        "data.experimental.choose_from_datasets data.experimental.make_csv_dataset "
        "data.experimental.sample_from_datasets",
    ),
    *_as_in_2(
        distribute.AREA,
        "distribute.MirroredStrategy distribute.OneDeviceStrategy distribute.ReplicaContext "
        "distribute.Strategy distribute.StrategyExtended "
        "distribute.experimental.CentralStorageStrategy "
        "distribute.experimental.MultiWorkerMirroredStrategy "
        "distribute.experimental.ParameterServerStrategy",
    ),
    *_as_in_2(training.AREA, "VariableAggregation variable_creator_scope"),
    *_as_in_2(runtime.AREA, "executing_eagerly"),
    *_as_in_2(train.AREA, "train.Checkpoint"),
    *_as_in_2(saved_model.AREA, "saved_model.contains_saved_model"),
    *area(
        _FUNCTIONS + "nn",
        {name: f"compat.v1.nn.{name}" for name in _NN.split()},
        differences={"dropout": _BITS, "embedding_lookup": "of one tensor, not of several parts"},
    ),
    *same_names(
        _FUNCTIONS + "host",
        "compat.v1.gfile.",
        _PATHS,
        differences=dict.fromkeys(_PATHS.split(), _LOCAL),
    ),
    *area(
        _V1 + "variables",
        FormerVariable="compat.v1.Variable",
        AUTO_REUSE="compat.v1.AUTO_REUSE",
        VariableScope="compat.v1.VariableScope",
        variable_scope="compat.v1.variable_scope",
        get_variable_scope="compat.v1.get_variable_scope",
        get_variable="compat.v1.get_variable",
        make_template="compat.v1.make_template",
        get_global_step="compat.v1.train.get_global_step",
        create_global_step="compat.v1.train.create_global_step",
        get_or_create_global_step="compat.v1.train.get_or_create_global_step",
        differences={
            "FormerVariable": "in no collection; variables of strings are refused",
            "variable_scope": "no regularizer, partitioner, custom getter or constraint",
            "get_variable": "scopes with reuse=True or AUTO_REUSE share variables by name, as in "
            "graphs; no regularizer, partitioner, custom getter or constraint; other random bits",
            "make_template": "no custom getter",
        },
    ),
    *same_names(
        _V1 + "layers",
        "compat.v1.layers.",
        _LAYERS,
        differences=dict.fromkeys(_LAYERS.split(), _SHARED),
    ),
    *area("keras.layers", {name: f"compat.v1.layers.{name}" for name in _LAYER_CLASSES.split()}),
    *same_names(_V1 + "losses", "compat.v1.losses.", _LOSSES),
    *same_names(
        _V1 + "metrics",
        "compat.v1.metrics.",
        _METRICS,
        differences=dict.fromkeys(_METRICS.split(), "metrics of Keras, in a model_fn alone"),
    ),
    *same_names(
        _V1 + "summaries",
        "compat.v1.summary.",
        "histogram scalar",
        differences=dict.fromkeys(
            ("histogram", "scalar"), "in the files of the Estimator; there is nothing to merge"
        ),
    ),
    *area(_V1 + "losses", WeightedReduction="compat.v1.losses.Reduction"),
    *area(
        _V1 + "optimizers",
        {name: f"compat.v1.train.{name}" for name in (_OPTIMIZERS + " " + _SCHEDULES).split()},
        FormerOptimizer="compat.v1.train.Optimizer",
        differences={
            **dict.fromkeys(_OPTIMIZERS.split(), "slots are variables of Keras's optimizers"),
            "FormerOptimizer": "the class of the optimizers here; a new one is a Keras optimizer",
        },
    ),
    *same_names(
        _V1 + "initializers",
        "compat.v1.",
        _INITIALIZERS,
        differences={name: _BITS for name in _INITIALIZERS.split() if "random" in name},
    ),
    *same_names(
        _V1 + "initializers",
        "compat.v1.initializers.",
        "he_normal he_uniform identity lecun_normal lecun_uniform",
        differences=dict.fromkeys(
            ["he_normal", "he_uniform", "lecun_normal", "lecun_uniform"], _BITS
        ),
    ),
)
