"""Which contenders take turns, and what a process that is one of them runs."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Torch:
    """torchvision's network in PyTorch.

    Attributes:
        network: torchvision's name of it.
        dtype: in which it computes, by autocast; float32 with TensorFloat-32.
        compiled: by ``torch.compile``.
        size: of images.
    """

    network: str
    dtype: str
    compiled: bool = False
    size: int = 224


@dataclasses.dataclass(frozen=True)
class Program:
    """`drumline cnn`.

    Attributes:
        flags: but for the rows of a batch and the steps.
    """

    flags: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Group:
    """Contenders whose processes live at the same time, and train by turns.

    Attributes:
        batch: rows of a step.
        contenders: by name, in the order of their turns.
    """

    batch: int
    contenders: dict[str, Torch | Program]


def _program(model: str, *flags: str) -> Program:
    return Program((f"--model={model}", "--init_learning_rate=1e-5", *flags))


_RESNET = "resnet50_v1.5"
_BF16, _FP16 = "--use_bf16", "--use_fp16"
_AUTO_SCALE = "--fp16_enable_auto_loss_scale"

GROUPS = {
    "resnet50_bf16": Group(
        256,
        {
            "drumline": _program(_RESNET, _BF16),
            "PyTorch": Torch("resnet50", "bfloat16"),
            "PyTorch compiled": Torch("resnet50", "bfloat16", compiled=True),
        },
    ),
    "resnet50_fp16": Group(
        256,
        {
            "drumline": _program(_RESNET, _FP16, _AUTO_SCALE),
            "PyTorch": Torch("resnet50", "float16"),
        },
    ),
    "resnet50_tf32": Group(
        256,
        {
            "drumline": _program(_RESNET),
            "PyTorch": Torch("resnet50", "float32"),
            "PyTorch compiled": Torch("resnet50", "float32", compiled=True),
        },
    ),
    "alexnet_bf16": Group(
        1024, {"drumline": _program("alexnet", _BF16), "PyTorch": Torch("alexnet", "bfloat16")}
    ),
    "vgg16_bf16": Group(
        128, {"drumline": _program("vgg16", _BF16), "PyTorch": Torch("vgg16", "bfloat16")}
    ),
    "inception3_bf16": Group(
        128,
        {
            "drumline": _program("inception3", _BF16),
            "PyTorch": Torch("inception_v3", "bfloat16", size=299),
        },
    ),
    "resnet50_modes": Group(
        256,
        {
            mode + where: _program(
                _RESNET,
                _BF16,
                f"--variable_update={mode}",
                *([f"--local_parameter_device={where.strip()}"] if where else []),
            )
            for mode, where in (
                ("replicated", ""),
                ("independent", ""),
                ("parameter_server", " gpu"),
                ("parameter_server", " cpu"),
            )
        },
    ),
}
"""Groups by name. The dtype of those without a 16-bit one is float32, by TensorFloat-32."""
