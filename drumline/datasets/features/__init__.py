"""What an example of a dataset has, and how it is stored: ``tfds.features``."""

from drumline.datasets.features.connector import (
    Documentation,
    FeatureConnector,
    FeatureError,
)
from drumline.datasets.features.containers import DatasetFeature as Dataset
from drumline.datasets.features.containers import (
    FeaturesDict,
)
from drumline.datasets.features.containers import SequenceFeature as Sequence
from drumline.datasets.features.containers import TranslationFeature as Translation
from drumline.datasets.features.containers import (
    VariableTranslation as TranslationVariableLanguages,
)
from drumline.datasets.features.containers import VideoFeature as Video
from drumline.datasets.features.media import AudioFeature as Audio
from drumline.datasets.features.media import ImageFeature as Image
from drumline.datasets.features.media import LabeledImage
from drumline.datasets.features.tensors import (
    BBox,
    BBoxFeature,
    ClassLabel,
)
from drumline.datasets.features.tensors import ScalarFeature as Scalar
from drumline.datasets.features.tensors import TensorFeature as Tensor
from drumline.datasets.features.tensors import TextFeature as Text

__all__ = [
    "Audio",
    "BBox",
    "BBoxFeature",
    "ClassLabel",
    "Dataset",
    "Documentation",
    "FeatureConnector",
    "FeatureError",
    "FeaturesDict",
    "Image",
    "LabeledImage",
    "Scalar",
    "Sequence",
    "Tensor",
    "Text",
    "Translation",
    "TranslationVariableLanguages",
    "Video",
]
