"""``tf.experimental.numpy``: numpy's functions of tensors, on numpy and `jax.numpy`.

`base.py` has conversion and promotion; `make.py`, `arrays.py`, `math.py`, `reductions.py` and
`random.py` the functions; `behavior.py` gives tensors numpy's methods and operators.
"""
