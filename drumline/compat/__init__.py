"""Look-alikes of other libraries' interfaces: `drumline.compat.tf` for TensorFlow 2's."""
