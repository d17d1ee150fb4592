"""Options of Keras's lookup layers."""

from __future__ import annotations


def require_supported(layer: str, output_mode: str, num_oov_indices: int) -> None:
    """Refuse what only Keras's own layer can do.

    Raises:
        NotImplementedError: for other modes than ``"int"``, and several numbers for unknown ones.
    """
    if output_mode != "int":
        raise NotImplementedError(
            f"{layer}: output_mode={output_mode!r} is not supported, use 'int' and "
            "jax.nn.one_hot on the numbers."
        )
    if num_oov_indices not in (0, 1):
        raise NotImplementedError(
            f"{layer}: num_oov_indices={num_oov_indices} is not supported, use 0 or 1."
        )
