"""Strings, files, examples and images of ``tf.compat.v1``."""

from __future__ import annotations

from typing import Any

import numpy as np

from drumline.compat.symbols import table
from drumline.compat.v1.functions.former import KEPT_DIMENSIONS, former

string_to_number = former(
    "string_to_number",
    "strings.to_number",
    "string_tensor out_type name input",
    {"string_tensor": "input"},
)
substr = former("substr", "strings.substr", "input pos len name unit", {})
length = former("length", "strings.length", "input name unit", {})
_PATHS = {
    "Exists": ("exists", "filename", {"filename": "path"}),
    "Glob": ("glob", "filename", {"filename": "pattern"}),
    "IsDirectory": ("isdir", "dirname", {"dirname": "path"}),
    "ListDirectory": ("listdir", "dirname", {"dirname": "path"}),
    "MakeDirs": ("makedirs", "dirname", {"dirname": "path"}),
    "MkDir": ("mkdir", "dirname", {"dirname": "path"}),
    "Remove": ("remove", "filename", {"filename": "path"}),
    "DeleteRecursively": ("rmtree", "dirname", {"dirname": "path"}),
    "Rename": ("rename", "oldname newname overwrite", {"oldname": "src", "newname": "dst"}),
    "Copy": ("copy", "oldpath newpath overwrite", {"oldpath": "src", "newpath": "dst"}),
}
(
    Exists,
    Glob,
    IsDirectory,
    ListDirectory,
    MakeDirs,
    MkDir,
    Remove,
    DeleteRecursively,
    Rename,
    Copy,
) = (
    former(name, f"io.gfile.{target}", parameters, renamed)
    for name, (target, parameters, renamed) in _PATHS.items()
)
decode_csv = former(
    "decode_csv",
    "io.decode_csv",
    "records record_defaults field_delim use_quote_delim name na_value select_cols",
    {},
)
decode_raw = former(
    "decode_raw",
    "io.decode_raw",
    "input_bytes out_type little_endian name bytes",
    {"bytes": "input_bytes"},
)
parse_example, parse_single_example = (
    former(kind, f"io.{kind}", "serialized features name example_names", {})
    for kind in ("parse_example", "parse_single_example")
)
crop_and_resize = former(
    "crop_and_resize",
    "image.crop_and_resize",
    "image boxes box_ind crop_size method extrapolation_value name box_indices",
    {"box_ind": "box_indices"},
)
sample_distorted_bounding_box = former(
    "sample_distorted_bounding_box",
    "image.sample_distorted_bounding_box",
    "image_size bounding_boxes seed seed2 min_object_covered aspect_ratio_range area_range "
    "max_attempts use_image_if_no_bounding_boxes name",
    {},
    "seed2 name",
)
extract_image_patches = former(
    "extract_image_patches",
    "image.extract_patches",
    "images ksizes strides rates padding name sizes",
    {"ksizes": "sizes"},
)
reduce_join = former(
    "reduce_join",
    "strings.reduce_join",
    "inputs axis keep_dims separator name reduction_indices keepdims",
    KEPT_DIMENSIONS,
)


def split(
    input: Any = None,
    sep: Any = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: Any = None,
) -> Any:
    """Strings cut at a separator.

    Args:
        input: strings, ``(n, ...)``; a scalar counts as a vector of one.
        sep: the separator; by default white space.
        maxsplit: how often a string is cut at most.
        result_type: ``"SparseTensor"`` or ``"RaggedTensor"``.
        source: another name of ``input``.
        name: no effect.

    Raises:
        ValueError: another ``result_type``.
    """
    if result_type not in ("SparseTensor", "RaggedTensor"):
        raise ValueError("result_type must be 'RaggedTensor' or 'SparseTensor'.")
    target, given = table.find("strings.split"), input if source is None else source
    assert target is not None
    if getattr(given, "shape", None) is None:
        given = np.asarray(given, object) if isinstance(given, list) else [given]
    elif not len(given.shape):
        given = given[None]
    found = target.load()(given, sep, maxsplit)
    return found if result_type == "RaggedTensor" else found.to_sparse()
