"""Starting and watching training processes. Nothing here imports JAX or Keras."""
