"""Tensors, dtypes, shapes, specs, errors."""

from drumline.compat.symbols.table import area, same_names

_DTYPES = (
    "float16 half float32 float64 double bfloat16 int8 int16 int32 int64 uint8 uint16 uint32 "
    "uint64 complex64 complex128 string variant resource DType as_dtype"
)
_ERRORS = (
    "OpError CancelledError UnknownError InvalidArgumentError DeadlineExceededError NotFoundError "
    "AlreadyExistsError PermissionDeniedError ResourceExhaustedError FailedPreconditionError "
    "AbortedError UnimplementedError InternalError UnavailableError "
    "UnauthenticatedError"
)
_CODES = (
    "OK CANCELLED UNKNOWN INVALID_ARGUMENT DEADLINE_EXCEEDED NOT_FOUND ALREADY_EXISTS "
    "PERMISSION_DENIED RESOURCE_EXHAUSTED FAILED_PRECONDITION ABORTED OUT_OF_RANGE UNIMPLEMENTED "
    "INTERNAL UNAVAILABLE DATA_LOSS UNAUTHENTICATED"
)

AREA = (
    *same_names("drumline.compat.values.convert", "", "register_tensor_conversion_function"),
    *same_names("drumline.compat.values.dtypes", "", _DTYPES),
    *same_names("drumline.compat.values.dtypes", "dtypes.", _DTYPES),
    *area("drumline.compat.values.dtypes", bool_="bool dtypes.bool"),
    *area(
        "drumline.compat.values.tensor",
        Tensor="Tensor",
        differences={
            "Tensor": "isinstance is true of JAX's arrays, too; names and graphs are absent"
        },
    ),
    *area(
        "drumline.compat.values.shape",
        TensorShape="TensorShape",
        Dimension="compat.v1.Dimension",
    ),
    *area(
        "drumline.compat.values.specs",
        TypeSpec="TypeSpec",
        ArraySpec="TensorSpec",
        RaggedSpec="RaggedTensorSpec",
    ),
    *same_names("drumline.compat.values.errors", "errors.", f"{_ERRORS} {_CODES}"),
    *same_names(
        "drumline.compat.values.errors",
        "compat.v1.errors.",
        "error_code_from_exception_type exception_type_from_error_code",
    ),
    *area(
        "drumline.compat.values.errors",
        TensorDataLossError="errors.DataLossError",
        EndOfSequenceError="errors.OutOfRangeError",
    ),
)
