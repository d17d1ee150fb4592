"""What the models' parameters and multiply-adds are, by others' counts.

``ORIGINAL`` was counted in the graphs that tf_cnn_benchmarks itself builds for training
(https://github.com/tensorflow/benchmarks, master, run with TensorFlow 2.12 and tf_slim 1.1): the
elements of its trainable variables, and the products of its convolutions and matrix products for
one image. Classes are 1001 and 11, as its data sets have.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Original:
    """What a model of the original has; ``quick`` ones are counted in each run of the tests."""

    dataset: str
    name: str
    trainable: int
    averages: int
    multiply_adds: int
    quick: bool = False


ORIGINAL = (
    Original("imagenet", "trivial", 4_263_877, 0, 4_258_779, quick=True),
    Original("imagenet", "lenet", 2_173_353, 0, 14_034_944, quick=True),
    Original("imagenet", "alexnet", 61_842_345, 0, 838_792_896, quick=True),
    Original("imagenet", "vgg11", 132_867_433, 0, 7_609_094_144, quick=True),
    Original("imagenet", "vgg16", 138_361_641, 0, 15_470_268_416, quick=True),
    Original("imagenet", "vgg19", 143_671_337, 0, 19_632_066_560, quick=True),
    Original("imagenet", "overfeat", 145_924_969, 0, 2_801_408_000, quick=True),
    Original("imagenet", "googlenet", 6_999_577, 0, 1_582_672_896, quick=True),
    Original("imagenet", "inception3", 23_819_401, 34_432, 5_713_218_144, quick=True),
    Original("imagenet", "inception4", 42_649_769, 63_168, 12_253_976_160),
    Original("imagenet", "resnet50", 25_559_081, 53_120, 3_857_975_296, quick=True),
    Original("imagenet", "resnet50_v1.5", 25_559_081, 53_120, 4_089_186_304, quick=True),
    Original("imagenet", "resnet50_v2", 25_536_361, 45_568, 3_857_975_296, quick=True),
    Original("imagenet", "resnet101", 44_551_209, 105_344, 7_570_196_480),
    Original("imagenet", "resnet101_v1.5", 44_551_209, 105_344, 7_801_407_488),
    Original("imagenet", "resnet101_v2", 44_511_081, 97_792, 7_570_196_480),
    Original("imagenet", "resnet152", 60_194_857, 151_424, 11_282_417_664),
    Original("imagenet", "resnet152_v1.5", 60_194_857, 151_424, 11_513_628_672),
    Original("imagenet", "resnet152_v2", 60_139_369, 143_872, 11_282_417_664),
    Original("imagenet", "mobilenet", 4_509_155, 34_112, 301_777_553, quick=True),
    Original("imagenet", "nasnet", 5_291_035, 36_738, 563_639_872, quick=True),
    Original("imagenet", "nasnetlarge", 88_757_183, 196_668, 23_783_418_690),
    Original("cifar10", "trivial", 56_332, 0, 52_224, quick=True),
    Original("cifar10", "alexnet", 1_756_619, 0, 32_778_304, quick=True),
    Original("cifar10", "resnet20", 269_787, 1_376, 40_551_104, quick=True),
    Original("cifar10", "resnet20_v2", 269_467, 1_408, 40_551_104, quick=True),
    Original("cifar10", "resnet32", 464_219, 2_272, 68_862_656),
    Original("cifar10", "resnet32_v2", 463_675, 2_304, 68_862_656),
    Original("cifar10", "resnet44", 658_651, 3_168, 97_174_208),
    Original("cifar10", "resnet44_v2", 657_883, 3_200, 97_174_208),
    Original("cifar10", "resnet56", 853_083, 4_064, 125_485_760),
    Original("cifar10", "resnet56_v2", 852_091, 4_096, 125_485_760),
    Original("cifar10", "resnet110", 1_728_027, 8_096, 252_887_744),
    Original("cifar10", "resnet110_v2", 1_726_027, 8_128, 252_887_744),
    Original("cifar10", "densenet40_k12", 357_491, 7_280, 151_555_896, quick=True),
    Original("cifar10", "densenet100_k12", 2_217_411, 42_240, 959_893_896),
    Original("cifar10", "densenet100_k24", 8_659_995, 83_424, 3_724_206_864),
    Original("cifar10", "nasnet", 3_347_307, 37_248, 544_334_080),
)

TORCHVISION = {
    "vgg11": (132_863_336, 7.609),
    "vgg16": (138_357_544, 15.47),
    "vgg19": (143_667_240, 19.632),
    "resnet50_v1.5": (25_557_032, 4.089),
    "resnet101_v1.5": (44_549_160, 7.801),
    "resnet152_v1.5": (60_192_808, 11.514),
}
"""``num_params`` and ``_ops`` (10**9 multiply-adds) in torchvision 0.29's weights, 1000 classes."""

PAPERS = {
    # Millions of parameters, millions of multiply-adds (None: not said), and where.
    "vgg16": (138, None, "arXiv:1409.1556, table 2"),
    "vgg19": (144, None, "arXiv:1409.1556, table 2"),
    "overfeat": (145, 2810, "arXiv:1312.6229, table 4"),
    "resnet50": (None, 3800, "arXiv:1512.03385, table 1"),
    "resnet101": (None, 7600, "arXiv:1512.03385, table 1"),
    "resnet152": (None, 11300, "arXiv:1512.03385, table 1"),
    "nasnet": (5.3, 564, "arXiv:1707.07012, table 2"),
    "nasnetlarge": (88.9, 23800, "arXiv:1707.07012, table 2"),
}
