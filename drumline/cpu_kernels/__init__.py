"""Faster kernels and lowerings of operations that XLA compiles poorly for CPUs.

They are registered with JAX for the ``cpu`` platform alone, when JAX is imported in a process that
imports drumline; nothing changes on accelerators. `drumline.config.set_cpu_kernels` and the
environment variable ``DRUMLINE_CPU_KERNELS`` choose among

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
"""

from drumline.cpu_kernels.registry import install, installed, uninstall

__all__ = ["install", "installed", "uninstall"]
