"""``tf.random``."""

from drumline.compat.symbols.table import area, same_names

_RANDOM = "drumline.compat.ops.random.sampling"
_BITS = "other random bits than TensorFlow's"
_DRAWS = (
    "uniform normal truncated_normal gamma poisson categorical shuffle split fold_in "
    "stateless_uniform stateless_normal stateless_truncated_normal stateless_gamma "
    "stateless_poisson stateless_categorical"
)

AREA = (
    *same_names(
        _RANDOM,
        "random.",
        f"{_DRAWS} get_global_generator set_global_generator",
        differences=dict.fromkeys(_DRAWS.split(), _BITS),
    ),
    *area(
        _RANDOM,
        uniform_candidate_sampler="random.uniform_candidate_sampler",
        log_uniform_candidate_sampler="random.log_uniform_candidate_sampler",
        fixed_unigram_candidate_sampler="random.fixed_unigram_candidate_sampler "
        "nn.fixed_unigram_candidate_sampler",
        all_candidate_sampler="random.all_candidate_sampler nn.all_candidate_sampler",
        differences={
            f"{kind}_candidate_sampler": f"{_BITS}; expected counts of unique classes are those of "
            "the number of draws that is expected, not of the number made"
            for kind in ("uniform", "log_uniform", "fixed_unigram")
        },
    ),
    *area(
        _RANDOM,
        set_seed="random.set_seed",
        stateless_shuffle="random.experimental.stateless_shuffle",
        RandomGenerator="random.Generator",
        differences={
            "set_seed": f"{_BITS}; draws of compiled functions, of datasets and others begin "
            "again each for itself; Python's ``random`` is seeded, too",
            "stateless_shuffle": _BITS,
            "RandomGenerator": f"{_BITS}; one algorithm, whatever ``alg``; the state is "
            "uint32 (2,)",
        },
    ),
)
