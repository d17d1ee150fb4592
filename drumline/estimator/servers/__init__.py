"""Estimators on parameter servers: what each task of a cluster does, and how the chief trains.

In TensorFlow each of chief and workers makes a graph of its own and runs it at its own pace, over
variables that all share. Here the chief alone traces model_fn; the workers, the chief's own among
them, are sent the program, and go each at its own pace through the data of its own input_fn.
"""
