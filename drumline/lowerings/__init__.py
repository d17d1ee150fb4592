"""Faster lowerings of operations that XLA compiles poorly for CPUs.

``install()`` registers them with JAX for the ``cpu`` platform alone; nothing changes on
accelerators. Importing drumline calls it. The environment variable ``DRUMLINE_CPU_LOWERINGS``,
read by ``install()``, chooses:

- unset, or ``1``: all of them;
- ``0``: none;
- a comma-separated list of names: those alone, e.g. ``max_pool_gradient,pointwise_convolution``.

Anything else raises ``ValueError``. The names are

- ``max_pool_gradient``: the gradient of max and min pooling, bit for bit as XLA computes it;
- ``pointwise_convolution``: 1x1 convolutions, their input and their weight gradients, as matrix
  products;
- ``direct_convolution``: convolutions of larger kernels and their gradients, by kernels of
  drumline's own for processors with AVX2 or AVX-512;
- ``weight_gradient``: weight gradients of larger kernels, as matrix products over blocks of the
  batch that fit the caches;
- ``few_channels``: forward convolutions of few channels as one matrix product;
- ``pooled_convolution``: convolution, bias, relu and pooling without overlap in one kernel, and
  their gradients;
- ``eigen_convolution``: the other convolutions by Eigen instead of YNNPACK, where jaxlib would
  take the latter.

Programs that JAX compiled before a call of ``install()`` or ``uninstall()`` keep what they were
compiled with, until ``jax.clear_caches()``.
"""

from drumline.lowerings.registry import install, installed, uninstall
from drumline.lowerings.selection import VARIABLE

__all__ = ["VARIABLE", "install", "installed", "uninstall"]
