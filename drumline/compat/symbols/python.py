"""What runs Python in between: ``tf.print``, ``tf.py_function``."""

from drumline.compat.symbols.table import area

_SHAPES = (
    "a tf.function or a dataset's function that calls it runs as Python, since the shape of the "
    "result is not known; compiled steps of strategies and of Keras refuse it"
)

AREA = area(
    "drumline.compat.ops.python",
    print_values="print",
    py_function="py_function",
    numpy_function="numpy_function",
    differences={
        "print_values": "a dataset's function that prints runs as Python, and prints for the "
        "first element when the dataset is made, too; on several devices compiled functions print "
        "in no order",
        "py_function": _SHAPES,
        "numpy_function": _SHAPES,
    },
)
