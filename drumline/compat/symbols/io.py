"""``tf.io``, ``tf.strings``, ``tf.image``, ``tf.audio``."""

from drumline.compat.symbols.table import area, same_names

_FILES = "drumline.compat.io.files"
_IMAGES = "drumline.compat.io.images"
_CODECS = (
    "decode_and_crop_jpeg decode_bmp decode_gif decode_image decode_jpeg decode_png encode_jpeg "
    "encode_png extract_jpeg_shape"
)
_PATHS = "copy exists glob isdir join listdir makedirs mkdir remove rename rmtree walk"
_RANDOM = (
    "random_brightness random_contrast random_crop random_flip_left_right random_flip_up_down "
    "random_hue random_jpeg_quality random_saturation sample_distorted_bounding_box "
    "stateless_random_brightness stateless_random_contrast stateless_random_crop "
    "stateless_random_flip_left_right stateless_random_flip_up_down stateless_random_hue "
    "stateless_random_jpeg_quality stateless_random_saturation "
    "stateless_sample_distorted_bounding_box"
)
_LOCAL = "paths are local: URLs are refused"

AREA = (
    *same_names(
        "drumline.compat.io.text",
        "strings.",
        "as_string bytes_split join length lower ngrams reduce_join regex_full_match "
        "regex_replace split strip substr to_hash_bucket_fast to_hash_bucket_strong to_number "
        "unicode_decode unicode_decode_with_offsets unicode_encode unicode_split "
        "unicode_split_with_offsets unicode_transcode unsorted_segment_join upper",
    ),
    *same_names(
        "drumline.io",
        "io.",
        "FixedLenFeature FixedLenSequenceFeature RaggedFeature TFRecordOptions TFRecordWriter "
        "VarLenFeature",
    ),
    *same_names(
        _FILES,
        "io.",
        "decode_base64 decode_csv decode_json_example decode_raw encode_base64 matching_files "
        "parse_example parse_sequence_example parse_single_example parse_single_sequence_example "
        "parse_tensor read_file serialize_tensor write_file",
        differences={
            "matching_files": _LOCAL,
            "parse_example": "a VarLenFeature is a RaggedTensor, which tf.sparse.to_dense takes",
            "parse_single_example": "a VarLenFeature that a map returns is a vector of its values",
            "write_file": _LOCAL,
        },
    ),
    *area(
        _FILES,
        LocalFile="io.gfile.GFile",
        differences={"LocalFile": _LOCAL},
    ),
    *same_names(_FILES, "io.gfile.", _PATHS, differences=dict.fromkeys(_PATHS.split(), _LOCAL)),
    *same_names(_IMAGES, "io.", _CODECS),
    *same_names(
        _IMAGES,
        "image.",
        _CODECS + " adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_jpeg_quality "
        "adjust_saturation central_crop convert_image_dtype crop_to_bounding_box flip_left_right "
        "flip_up_down grayscale_to_rgb hsv_to_rgb pad_to_bounding_box per_image_standardization "
        "resize resize_with_crop_or_pad resize_with_pad rgb_to_grayscale rgb_to_hsv rot90 "
        "sobel_edges total_variation transpose " + _RANDOM,
        differences=dict.fromkeys(_RANDOM.split(), "other random bits than TensorFlow's"),
    ),
    *same_names("drumline.image", "image.", "ResizeMethod"),
    *same_names(
        "drumline.compat.io.quality",
        "image.",
        "extract_patches image_gradients psnr rgb_to_yiq rgb_to_yuv ssim ssim_multiscale "
        "yiq_to_rgb yuv_to_rgb",
    ),
    *same_names(
        "drumline.compat.io.boxes",
        "image.",
        "combined_non_max_suppression crop_and_resize draw_bounding_boxes non_max_suppression "
        "non_max_suppression_overlaps non_max_suppression_padded non_max_suppression_with_scores",
        differences=dict.fromkeys(
            (
                "non_max_suppression",
                "non_max_suppression_overlaps",
                "non_max_suppression_with_scores",
            ),
            "compiled functions, which do not know how many boxes are kept, refuse it: use "
            "non_max_suppression_padded there",
        ),
    ),
    *area(_IMAGES, decode_wav="audio.decode_wav"),
)
