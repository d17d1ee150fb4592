"""Images and labels for the CNN benchmark program: synthetic, ImageNet's and CIFAR-10's."""

from drumline.cnn.inputs.cifar10 import cifar10
from drumline.cnn.inputs.cifar_batches import CifarBatchError
from drumline.cnn.inputs.imagenet import imagenet
from drumline.cnn.inputs.options import ImageInputOptions
from drumline.cnn.inputs.synthetic import Synthetic, synthetic

__all__ = ["CifarBatchError", "ImageInputOptions", "Synthetic", "cifar10", "imagenet", "synthetic"]
