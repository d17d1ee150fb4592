"""Arguments of each operation of ``tf.raw_ops`` that is there, for a comparison with TensorFlow."""

import io

import numpy as np

F = np.array([[0.5, -1.25, 2.0], [3.5, 0.25, -0.75]], np.float32)
G = np.array([[1.5, 2.0, -0.5], [0.25, -3.0, 4.0]], np.float32)
P = np.abs(F) + 0.25
UNIT = np.array([0.1, -0.5, 0.9], np.float32)
INTS = np.array([[7, -3, 2], [5, 4, -9]], np.int32)
COUNTS = np.array([[1, 3, 1], [0, 2, 2]], np.int32)
BOOLS = np.array([[True, False, True], [False, False, True]])
COMPLEX = (F + 1j * G).astype(np.complex64)
SQUARE = (np.array([[4, 1, 0], [1, 3, 1], [0, 1, 5]], np.float32) + np.eye(3, dtype=np.float32))[
    None
]
IMAGE = (np.arange(2 * 4 * 6 * 3, dtype=np.float32).reshape(2, 4, 6, 3) % 17) / 17
VOLUME = (np.arange(2 * 4 * 4 * 4 * 2, dtype=np.float32).reshape(2, 4, 4, 4, 2) % 13) / 13
TEXTS = np.array([b" Ab ", b"c1", b"0.5"], object)
IDS = np.array([0, 0, 1], np.int32)
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
SEED = np.array([1, 2], np.int32)
SPARSE = (
    np.array([[0, 0], [0, 2], [1, 1]], np.int64),
    np.array([1.0, 2.0, 3.0], np.float32),
    np.array([2, 3], np.int64),
)

# For arguments of these names, where an operation has no row of its own below.
BY_NAME = {
    **dict.fromkeys(["x", "input", "t", "features", "logits", "tensor", "value", "params"], F),
    **dict.fromkeys(["y", "gradients", "dy", "outputs"], G),
    **dict.fromkeys(["images"], IMAGE),
    "axis": [1],
    "keep_dims": True,
    "data": ROWS,
    "segment_ids": IDS,
    "num_segments": 4,
    "matrix": SQUARE,
    "rhs": np.ones((1, 3, 2), np.float32),
    "contents": b"",
    "message": "not finite",
}
POSITIVE = (
    "Log Log1p Sqrt Rsqrt Lgamma Digamma BesselK0 BesselK0e BesselK1 BesselK1e BesselY0 BesselY1 "
)
POSITIVE += "Expint Spence RsqrtGrad SqrtGrad"
OF_UNIT = "Acos Asin Atanh Erfinv"
OF_INTEGERS = "BitwiseAnd BitwiseOr BitwiseXor FloorDiv FloorMod TruncateDiv TruncateMod Mod Div"
OF_MATRICES = (
    "Cholesky MatrixDeterminant LogMatrixDeterminant MatrixInverse MatrixExponential "
    "MatrixSquareRoot MatrixDiagPart MatrixBandPart Lu Qr SelfAdjointEigV2 Svd"
)
OF_COMPLEX = "Angle Conj Imag Real FFT IFFT FFT2D IFFT2D"
SCATTERED = {
    "tensor": ROWS,
    "indices": np.array([[1], [0]], np.int32),
    "updates": np.array([[9, 8], [-7, 6]], np.float32),
}
FILTER = (np.arange(2 * 2 * 3 * 2, dtype=np.float32).reshape(2, 2, 3, 2) % 7) / 7
CONVOLVED = {"strides": [1, 1, 1, 1], "padding": "SAME"}
POOLED = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
POOLED_3D = {
    "input": VOLUME,
    "ksize": [1, 2, 2, 2, 1],
    "strides": [1, 1, 1, 1, 1],
    "padding": "SAME",
}
NORMALIZED = {
    "x": IMAGE,
    "scale": np.array([1, 2, 0.5], np.float32),
    "offset": np.array([0, 1, -1], np.float32),
    "mean": np.array([0.1, 0.2, 0.3], np.float32),
    "variance": np.array([1.1, 1.2, 1.3], np.float32),
    "is_training": False,
}

BOXES = np.array(
    [[0, 0, 1, 1], [0.1, 0, 0.9, 1], [0.6, 0.7, 0.2, 0.1], [0, 0, 0.2, 0.3]], np.float32
)
SUPPRESSED = {
    "boxes": BOXES,
    "scores": np.array([0.9, 0.75, 0.6, 0.3], np.float32),
    "max_output_size": 3,
    "iou_threshold": 0.5,
    "score_threshold": 0.1,
}


def _png():
    from PIL import Image

    held = io.BytesIO()
    Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(held, "png")
    return held.getvalue()


def _encoded(kind):
    from PIL import Image

    held = io.BytesIO()
    Image.fromarray(np.full((4, 4, 3), 200, np.uint8)).save(held, kind)
    return held.getvalue()


OWN = {
    **{name: {"x": P, "y": P, "dy": G} for name in POSITIVE.split()},
    **{name: {"x": UNIT} for name in OF_UNIT.split()},
    **{name: {"x": INTS, "y": np.abs(INTS) + 1} for name in OF_INTEGERS.split()},
    **{name: {"input": SQUARE} for name in OF_MATRICES.split()},
    **{name: {"input": COMPLEX} for name in OF_COMPLEX.split()},
    "Acosh": {"x": P + 1},
    "AddN": {"inputs": [F, G, F]},
    "AdjustContrastv2": {"contrast_factor": np.float32(1.5)},
    "AdjustHue": {"delta": np.float32(0.25)},
    "AdjustSaturation": {"scale": np.float32(0.5)},
    "All": {"input": BOOLS},
    "Any": {"input": BOOLS},
    "ApproximateEqual": {"x": F, "y": F + np.float32(1e-6)},
    "ArgMax": {"dimension": 1},
    "ArgMin": {"dimension": 0, "output_type": "int32"},
    "AsString": {"input": INTS},
    "Assert": {"condition": True, "data": [F]},
    "AvgPool": dict(value=IMAGE, **POOLED),
    "AvgPool3D": POOLED_3D,
    "BandedTriangularSolve": {
        "matrix": np.array([[2, 3, 4], [1, 2, 3]], np.float32),
        "rhs": np.ones((3, 1), np.float32),
    },
    "BatchMatMul": {"x": SQUARE, "y": SQUARE, "adj_x": True},
    "BatchMatMulV2": {"x": SQUARE, "y": SQUARE, "adj_y": True},
    "BatchMatMulV3": {"x": SQUARE, "y": SQUARE, "Tout": "float32"},
    "BatchToSpace": {
        "input": VOLUME.reshape(8, 4, 4, 2),
        "crops": np.array([[1, 0], [0, 1]], np.int32),
        "block_size": 2,
    },
    "BatchToSpaceND": {
        "input": VOLUME.reshape(8, 4, 4, 2),
        "crops": np.array([[1, 0]], np.int32),
        "block_shape": [4],
    },
    "Betainc": {"a": P, "b": P[:, ::-1].copy(), "x": np.full((2, 3), 0.25, np.float32)},
    "BiasAdd": {"value": IMAGE, "bias": NORMALIZED["scale"]},
    "BiasAddGrad": {"out_backprop": IMAGE},
    "BiasAddV1": {"value": IMAGE, "bias": NORMALIZED["scale"]},
    "Bitcast": {"input": F, "type": "int32"},
    "BroadcastArgs": {"s0": np.array([2, 1], np.int32), "s1": np.array([3], np.int32)},
    "BroadcastTo": {"input": F, "shape": [4, 2, 3]},
    "Bucketize": {"input": INTS, "boundaries": [0.0, 2.0, 5.0]},
    "Cast": {"x": F, "DstT": "int32"},
    "CheckNumerics": {"tensor": F},
    "CheckNumericsV2": {"tensor": F},
    "ClipByValue": {"t": F, "clip_value_min": np.float32(-1), "clip_value_max": np.float32(1)},
    "Complex": {"real": F, "imag": G},
    "ComplexAbs": {"x": COMPLEX},
    "Concat": {"concat_dim": 1, "values": [F, G]},
    "ConcatV2": {"axis": 0, "values": [F, G]},
    "ConjugateTranspose": {"x": COMPLEX, "perm": [1, 0]},
    "Const": None,
    # TensorFlow has no kernels for these.
    "AccumulateNV2": None,
    "BatchNormWithGlobalNormalization": None,
    "MatrixExponential": None,
    "TopK": None,
    "Conv2D": dict(input=IMAGE, filter=FILTER, **CONVOLVED),
    "Conv2DBackpropFilter": dict(
        input=IMAGE, filter_sizes=[2, 2, 3, 2], out_backprop=IMAGE[..., :2].copy(), **CONVOLVED
    ),
    "Conv2DBackpropInput": dict(
        input_sizes=[2, 4, 6, 3], filter=FILTER, out_backprop=IMAGE[..., :2].copy(), **CONVOLVED
    ),
    "Conv3D": {
        "input": VOLUME,
        "filter": np.ones((2, 1, 2, 2, 1), np.float32),
        "strides": [1, 1, 1, 1, 1],
        "padding": "VALID",
    },
    "Cross": {"a": F, "b": G},
    "CropAndResize": {
        "image": IMAGE,
        "boxes": BOXES[:2],
        "box_ind": [1, 0],
        "crop_size": [3, 2],
        "extrapolation_value": 0.5,
    },
    "DrawBoundingBoxes": {"boxes": BOXES.reshape(2, 2, 4)},
    "DrawBoundingBoxesV2": {"boxes": BOXES.reshape(2, 2, 4), "colors": np.ones((1, 3), np.float32)},
    "ExtractImagePatches": {
        "ksizes": [1, 2, 3, 1],
        "strides": [1, 1, 2, 1],
        "rates": [1, 2, 1, 1],
        "padding": "VALID",
    },
    **{f"NonMaxSuppression{version}": SUPPRESSED for version in ("", "V2", "V3")},
    "NonMaxSuppressionWithOverlaps": {
        "overlaps": np.eye(4, dtype=np.float32) + np.float32(0.4),
        "scores": SUPPRESSED["scores"],
        "max_output_size": 2,
        "overlap_threshold": 0.5,
        "score_threshold": 0.1,
    },
    "CombinedNonMaxSuppression": {
        "boxes": BOXES.reshape(1, 4, 1, 4),
        "scores": SUPPRESSED["scores"].reshape(1, 4, 1),
        "max_output_size_per_class": 2,
        "max_total_size": 3,
        "iou_threshold": 0.5,
        "score_threshold": 0.1,
    },
    "ComputeAccidentalHits": {
        "true_classes": np.array([[1, 2], [3, 7]], np.int64),
        "sampled_candidates": np.array([3, 1], np.int64),
        "num_true": 2,
    },
    "Cumprod": {"axis": 1, "exclusive": True},
    "Cumsum": {"axis": 1, "reverse": True},
    "CumulativeLogsumexp": {"axis": 1},
    "DecodeAndCropJpeg": lambda: {"contents": _encoded("jpeg"), "crop_window": [0, 0, 2, 2]},
    "DecodeBase64": {"input": b"YWI"},
    "DecodeBmp": lambda: {"contents": _encoded("bmp")},
    "DecodeCSV": {"records": np.array([b"1,2.5", b"3,4"], object), "record_defaults": [[0], [0.0]]},
    "DecodeGif": lambda: {"contents": _encoded("gif")},
    "DecodeImage": lambda: {"contents": _png()},
    "DecodeJpeg": lambda: {"contents": _encoded("jpeg")},
    "DecodePng": lambda: {"contents": _png()},
    "DecodeRaw": {"bytes": b"\x01\x00\x02\x00", "out_type": "int16"},
    "DenseBincount": {
        "input": COUNTS,
        "size": np.int32(3),
        "weights": np.zeros([0], np.float32),
        "binary_output": False,
    },
    "DepthToSpace": {"input": VOLUME.reshape(2, 4, 8, 4), "block_size": 2},
    "DepthwiseConv2dNative": dict(input=IMAGE, filter=FILTER, **CONVOLVED),
    "DepthwiseConv2dNativeBackpropFilter": dict(
        input=IMAGE, filter_sizes=[2, 2, 3, 1], out_backprop=IMAGE, **CONVOLVED
    ),
    "DepthwiseConv2dNativeBackpropInput": dict(
        input_sizes=[2, 4, 6, 3], filter=FILTER[..., :1].copy(), out_backprop=IMAGE, **CONVOLVED
    ),
    "Diag": {"diagonal": F},
    "DiagPart": {"input": np.arange(36, dtype=np.float32).reshape(2, 3, 2, 3)},
    "Dilation2D": {
        "input": IMAGE,
        "filter": FILTER[..., 0].copy(),
        "strides": [1, 1, 1, 1],
        "rates": [1, 2, 1, 1],
        "padding": "SAME",
    },
    "DynamicPartition": {"partitions": IDS, "num_partitions": 2},
    "DynamicStitch": {
        "indices": [np.array([2, 0], np.int32), np.array([1], np.int32)],
        "data": [F, F[:1]],
    },
    "EditDistance": {
        "hypothesis_indices": SPARSE[0],
        "hypothesis_values": np.array([1, 2, 3]),
        "hypothesis_shape": SPARSE[2],
        "truth_indices": SPARSE[0],
        "truth_values": np.array([1, 5, 3]),
        "truth_shape": SPARSE[2],
    },
    "Eig": {"input": SQUARE, "Tout": "complex64"},
    "Einsum": {"inputs": [F, G], "equation": "ij,kj->ik"},
    "Empty": None,
    "EncodeBase64": {"input": b"ab"},
    "EncodePng": None,
    "EnsureShape": {"shape": [2, 3]},
    "ExpandDims": {"axis": 1},
    "ExtractJpegShape": lambda: {"contents": _encoded("jpeg")},
    "ExtractVolumePatches": {
        "input": VOLUME,
        "ksizes": [1, 2, 2, 2, 1],
        "strides": [1, 1, 2, 1, 1],
        "padding": "VALID",
    },
    "FFT3D": {"input": COMPLEX[None]},
    "Fill": {"dims": [2, 3], "value": 1.5},
    "FusedBatchNorm": NORMALIZED,
    "FusedBatchNormV2": NORMALIZED,
    "FusedBatchNormV3": {
        **NORMALIZED,
        "is_training": True,
        "mean": np.zeros([0], np.float32),
        "variance": np.zeros([0], np.float32),
    },
    "Gather": {"indices": [1, 0]},
    "GatherNd": {"indices": [[1, 2], [0, 0]]},
    "GatherV2": {"indices": [2, 0], "axis": 1},
    "HSVToRGB": {"images": IMAGE},
    "HistogramFixedWidth": {"values": F, "value_range": np.array([-1, 3], np.float32), "nbins": 4},
    "IFFT3D": {"input": COMPLEX[None]},
    "IRFFT": {"input": COMPLEX, "fft_length": [4]},
    "IRFFT2D": {"input": COMPLEX, "fft_length": [2, 4]},
    "IRFFT3D": {"input": COMPLEX[None], "fft_length": [1, 2, 4]},
    "IdentityN": {"input": [F, INTS]},
    "Igamma": {"a": P, "x": P[:, ::-1].copy()},
    "Igammac": {"a": P, "x": P[:, ::-1].copy()},
    "InTopK": {"predictions": F, "targets": np.array([2, 1], np.int32), "k": 1},
    "InTopKV2": {"predictions": F, "targets": np.array([2, 1], np.int32), "k": 2},
    "Invert": {"x": INTS},
    "InvertPermutation": {"x": np.array([2, 0, 1], np.int32)},
    "LRN": {"input": IMAGE, "depth_radius": 1, "bias": 1.5},
    "LeftShift": {"x": INTS, "y": np.full((2, 3), 2, np.int32)},
    "RightShift": {"x": INTS, "y": np.full((2, 3), 1, np.int32)},
    "LinSpace": {"start": 0.0, "stop": 1.0, "num": 5},
    "LogicalAnd": {"x": BOOLS, "y": ~BOOLS},
    "LogicalNot": {"x": BOOLS},
    "LogicalOr": {"x": BOOLS, "y": ~BOOLS},
    "LowerBound": {"sorted_inputs": np.sort(F), "values": G},
    "UpperBound": {"sorted_inputs": np.sort(F), "values": G, "out_type": "int64"},
    "MatMul": {"a": F, "b": G, "transpose_b": True},
    "MatchingFiles": {"pattern": "/no/such/*"},
    "MatrixBandPart": {"input": SQUARE, "num_lower": 0, "num_upper": 1},
    "MatrixDiag": {"diagonal": F},
    "MatrixDiagPartV2": {"input": IMAGE, "k": [-1, 1], "padding_value": np.float32(9)},
    "MatrixDiagPartV3": {"input": IMAGE, "k": [-1, 1], "padding_value": np.float32(9)},
    "MatrixDiagV2": {
        "diagonal": F,
        "k": [1],
        "num_rows": -1,
        "num_cols": -1,
        "padding_value": np.float32(0),
    },
    "MatrixDiagV3": {
        "diagonal": F,
        "k": [-2],
        "num_rows": -1,
        "num_cols": -1,
        "padding_value": np.float32(1),
    },
    "MatrixLogarithm": {"input": SQUARE.astype(np.complex64)},
    "MatrixSetDiag": {"input": SQUARE, "diagonal": F[:1]},
    "MatrixSetDiagV2": {"input": SQUARE, "diagonal": F[:1, :2].copy(), "k": [1]},
    "MatrixSetDiagV3": {"input": SQUARE, "diagonal": F[:1, :2].copy(), "k": [-1]},
    "MatrixSolveLs": {"l2_regularizer": np.float64(0.5)},
    "MaxPool": dict(input=IMAGE, **POOLED),
    "MaxPool3D": POOLED_3D,
    "MaxPoolV2": dict(input=IMAGE, **POOLED),
    "MaxPoolWithArgmax": dict(input=IMAGE, **POOLED),
    "MirrorPad": {"paddings": [[1, 0], [0, 2]], "mode": "REFLECT"},
    "Multinomial": None,
    "Ndtri": {"x": np.array([0.1, 0.5, 0.75], np.float32)},
    "NextAfter": {"x1": F, "x2": G},
    "NthElement": {"n": 1, "reverse": True},
    "OneHot": {
        "indices": np.array([0, 2, 5]),
        "depth": 3,
        "on_value": np.float32(5),
        "off_value": np.float32(-1),
    },
    "Pack": {"values": [F, G], "axis": 1},
    "Pad": {"paddings": [[1, 0], [0, 2]]},
    "PadV2": {"paddings": [[1, 0], [0, 2]], "constant_values": np.float32(7)},
    "ParallelConcat": None,
    "ParallelDynamicStitch": {
        "indices": [np.array([2, 0], np.int32), np.array([1], np.int32)],
        "data": [F, F[:1]],
    },
    "ParseTensor": None,
    "Polygamma": {"a": np.full((2, 3), 2, np.float32), "x": P},
    "Pow": {"x": P, "y": G},
    "RFFT": {"input": F, "fft_length": [3]},
    "RFFT2D": {"input": F, "fft_length": [2, 3]},
    "RFFT3D": {"input": F[None], "fft_length": [1, 2, 3]},
    "RGBToHSV": {"images": IMAGE},
    **dict.fromkeys(
        [
            *("RandomGamma", "RandomPoissonV2", "RandomShuffle", "RandomStandardNormal"),
            *("RandomUniform", "RandomUniformInt", "StatelessMultinomial", "TruncatedNormal"),
            *("StatelessRandomNormal", "StatelessRandomUniform", "StatelessRandomUniformInt"),
            *("StatelessTruncatedNormal", "Timestamp", "NoOp"),
        ]
    ),
    "Range": {"start": 1, "limit": 9, "delta": 3},
    "ReadFile": None,
    "ReduceJoin": {"inputs": TEXTS, "reduction_indices": [0], "separator": "-"},
    "RegexFullMatch": {"input": TEXTS, "pattern": "c."},
    "RegexReplace": {"input": TEXTS, "pattern": "[a-c]", "rewrite": "X"},
    "Reshape": {"shape": [3, -1]},
    "Reverse": {"dims": np.array([True, False])},
    "ReverseV2": {"axis": [1]},
    "ReverseSequence": {"seq_lengths": [2, 3], "seq_dim": 1},
    "Roll": {"shift": [1], "axis": [1]},
    "ScatterNd": {"indices": [[2], [0]], "updates": F, "shape": [4, 3]},
    "ScatterNdNonAliasingAdd": {
        "input": ROWS,
        "indices": SCATTERED["indices"],
        "updates": SCATTERED["updates"],
    },
    **{f"TensorScatter{kind}": SCATTERED for kind in ("Add", "Max", "Min", "Sub", "Update")},
    "Select": {"condition": np.array([True, False]), "x": F, "y": G},
    "SelectV2": {"condition": BOOLS, "t": F, "e": G},
    "SerializeTensor": {"tensor": F},
    "ShapeN": {"input": [F, IMAGE]},
    "Slice": {"begin": [0, 1], "size": [2, -1]},
    "SobolSample": {"dim": 2, "num_results": 4, "skip": 1},
    "SoftmaxCrossEntropyWithLogits": {"features": F, "labels": np.eye(3, dtype=np.float32)[:2]},
    "SparseSoftmaxCrossEntropyWithLogits": {"features": F, "labels": np.array([2, 0])},
    "SpaceToBatch": {"input": IMAGE, "paddings": np.zeros((2, 2), np.int32), "block_size": 2},
    "SpaceToBatchND": {
        "input": IMAGE,
        "paddings": np.array([[1, 1]], np.int32),
        "block_shape": [3],
    },
    "SpaceToDepth": {"input": IMAGE, "block_size": 2},
    "SparseMatMul": {"a": F, "b": G, "transpose_b": True},
    **{
        f"SparseReduce{kind}": {
            "input_indices": SPARSE[0],
            "input_values": SPARSE[1],
            "input_shape": SPARSE[2],
            "reduction_axes": [1],
        }
        for kind in ("Max", "Sum")
    },
    "SparseReorder": {
        "input_indices": SPARSE[0][::-1].copy(),
        "input_values": SPARSE[1],
        "input_shape": SPARSE[2],
    },
    "SparseTensorDenseMatMul": {
        "a_indices": SPARSE[0],
        "a_values": SPARSE[1],
        "a_shape": SPARSE[2],
        "b": F.T.copy(),
    },
    "SparseToDense": {
        "sparse_indices": SPARSE[0],
        "output_shape": SPARSE[2],
        "sparse_values": SPARSE[1],
        "default_value": np.float32(-1),
    },
    "Split": {"axis": 1, "value": F, "num_split": 3},
    "SplitV": {"axis": 1, "value": F, "size_splits": [1, 2], "num_split": 2},
    "Squeeze": {"input": SQUARE},
    "StaticRegexFullMatch": {"input": TEXTS, "pattern": "c."},
    "StaticRegexReplace": {
        "input": TEXTS,
        "pattern": "[a-c]",
        "rewrite": "X",
        "replace_global": False,
    },
    "StridedSlice": {"begin": [0, 2], "end": [2, 0], "strides": [1, -1], "begin_mask": 2},
    "StringJoin": {"inputs": [TEXTS, TEXTS], "separator": "+"},
    **{f"String{kind}": {"input": TEXTS} for kind in ("Length", "Lower", "Strip", "Upper")},
    "StringToHashBucketFast": {"input": TEXTS, "num_buckets": 100},
    "StringToHashBucketStrong": {"input": TEXTS, "num_buckets": 100, "key": [3, 4]},
    "StringToNumber": {"string_tensor": TEXTS[2:]},
    "Substr": {"input": TEXTS, "pos": np.int32(1), "len": np.int32(1)},
    "Tile": {"multiples": [1, 2]},
    "TopKV2": {"k": 2},
    "Transpose": {"perm": [1, 0]},
    "TridiagonalMatMul": {
        "superdiag": F[:1],
        "maindiag": P[:1],
        "subdiag": G[:1],
        "rhs": np.ones((3, 2), np.float32),
    },
    "TridiagonalSolve": {
        "diagonals": np.array([[1, 1, 0], [4, 5, 6], [0, 2, 1]], np.float32),
        "rhs": np.ones((3, 1), np.float32),
    },
    "UnicodeTranscode": {"input": TEXTS, "input_encoding": "UTF-8", "output_encoding": "UTF-16-BE"},
    "Unique": {"x": np.array([3, 1, 3, 2], np.int32)},
    "UniqueWithCounts": {"x": np.array([3, 1, 3, 2], np.int32), "out_idx": "int64"},
    "Unpack": {"value": F, "num": 3, "axis": 1},
    "UnravelIndex": {"indices": [1, 5], "dims": [2, 3]},
    "Where": {"condition": BOOLS},
    "WriteFile": None,
    "Xdivy": {"x": F, "y": P},
    "Xlog1py": {"x": F, "y": P},
    "Xlogy": {"x": F, "y": P},
    "Zeta": {"x": P + 1, "q": P},
}
"""None: what TensorFlow gives cannot be compared, or is not by the arguments alone."""


def arguments_of(name, signature):
    """The arguments for an operation; None if it is not compared."""
    own = OWN.get(name, {})
    if own is None:
        return None
    own = own() if callable(own) else own
    found = {}
    for each in signature.parameters.values():
        if each.name in own:
            found[each.name] = own[each.name]
        elif each.default is each.empty or (each.name == "keep_dims" and not own):
            found[each.name] = BY_NAME[each.name]
    return found
