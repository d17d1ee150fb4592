"""``tf.compat.v1``: functions with former arguments, variables, layers, losses, training."""

from drumline.compat.symbols.table import area, same_names

_V1 = "drumline.compat.v1."
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
_OPTIMIZERS = (
    "AdadeltaOptimizer AdagradOptimizer AdamOptimizer FtrlOptimizer GradientDescentOptimizer "
    "MomentumOptimizer RMSPropOptimizer"
)
_SCHEDULES = (
    "cosine_decay exponential_decay inverse_time_decay natural_exp_decay piecewise_constant "
    "polynomial_decay"
)
_FUNCTIONS = (
    "arg_max arg_min argmax argmin assign assign_add assign_sub batch_gather boolean_mask constant "
    "convert_to_tensor count_nonzero div expand_dims floor_div gather gather_nd norm ones_like pad "
    "reduce_all reduce_any reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod "
    "reduce_sum scalar_mul shape size squeeze string_to_number substr to_bfloat16 to_complex128 "
    "to_complex64 to_double to_float to_int32 to_int64 transpose where zeros_like"
)
_NN = (
    "avg_pool conv1d conv2d conv3d dropout embedding_lookup in_top_k log_softmax max_pool moments "
    "relu_layer sigmoid_cross_entropy_with_logits softmax softmax_cross_entropy_with_logits "
    "softmax_cross_entropy_with_logits_v2 sparse_softmax_cross_entropy_with_logits xw_plus_b"
)
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
    *same_names(_V1 + "functions", "compat.v1.", _FUNCTIONS),
    *same_names(_V1 + "functions", "compat.v1.", " ".join(_CALLS), needs=_CALLS),
    *area(
        _V1 + "functions",
        {name: f"compat.v1.nn.{name}" for name in _NN.split()},
        length="compat.v1.strings.length",
        differences={"dropout": _BITS, "embedding_lookup": "of one tensor, not of several parts"},
    ),
    *same_names(
        _V1 + "functions",
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
