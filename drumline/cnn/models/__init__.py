"""The benchmark's models, built with Keras: `build`, `find`, `MODELS`, `multiply_adds`."""

from drumline.cnn.models.counting import multiply_adds as multiply_adds
from drumline.cnn.models.layers import LocalResponseNormalization as LocalResponseNormalization
from drumline.cnn.models.table import MODELS as MODELS
from drumline.cnn.models.table import NUM_CLASSES as NUM_CLASSES
from drumline.cnn.models.table import CnnModel as CnnModel
from drumline.cnn.models.table import build as build
from drumline.cnn.models.table import find as find
