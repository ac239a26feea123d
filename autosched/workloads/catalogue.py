"""Workloads that have names: the tutorials of the old stack and the layers of networks.

Shapes of ResNet-18 after K. He et al., "Deep Residual Learning for Image Recognition" (2015), batch 1, 224 x 224: the ten
convolutions left after the first, which has three channels and runs on the host. Grouped layers of MobileNet and transposed ones
of DCGAN as the old stack's benchmarks had them.
"""

from __future__ import annotations

# Name -> full spelling; the tutorials of the old stack, whose operators have no bias.
ALIASES: dict[str, str] = {
    "t1": "add:m=1,n=1024",
    "t2": "dense:m=1,k=256,n=256,bias=0,tail=cast",
    "t3": "dense:m=1,k=1024,n=1024",
    "t4": "conv2d:h=14,w=14,ci=256,co=256,k=3,pad=1,bias=0",
}

# Layer: height = width, input channels, output channels, kernel, padding, stride, times in the network.
_RESNET18 = {
    "c2": (56, 64, 64, 3, 1, 1, 4),
    "c3": (56, 64, 128, 3, 1, 2, 1),
    "c4": (56, 64, 128, 1, 0, 2, 1),
    "c5": (28, 128, 128, 3, 1, 1, 3),
    "c6": (28, 128, 256, 3, 1, 2, 1),
    "c7": (28, 128, 256, 1, 0, 2, 1),
    "c8": (14, 256, 256, 3, 1, 1, 3),
    "c9": (14, 256, 512, 3, 1, 2, 1),
    "c10": (14, 256, 512, 1, 0, 2, 1),
    "c11": (7, 512, 512, 3, 1, 1, 3),
}

# Layer: height = width, channels in and out, stride; groups of 16 channels in the place of depthwise convolutions.
_MOBILENET = {
    "d1": (112, 32, 1),
    "d2": (112, 64, 2),
    "d3": (56, 128, 1),
    "d4": (56, 128, 2),
    "d5": (28, 256, 1),
    "d6": (28, 256, 2),
    "d7": (14, 512, 1),
    "d8": (14, 512, 2),
    "d9": (7, 1024, 1),
}
# Layer: height = width, input channels, output channels.
_DCGAN = {"ct1": (4, 1024, 512), "ct2": (8, 512, 256), "ct3": (16, 256, 128)}
# ResNet-34 has the layers of ResNet-18, more often.
_RESNET34 = {"c2": 6, "c3": 1, "c4": 1, "c5": 7, "c6": 1, "c7": 1, "c8": 11, "c9": 1, "c10": 1, "c11": 5}

NETWORKS: dict[str, tuple[tuple[str, int], ...]] = {
    "resnet18": tuple((f"resnet18.{layer}", shape[-1]) for layer, shape in _RESNET18.items()),
    "resnet34": tuple((f"resnet18.{layer}", times) for layer, times in _RESNET34.items()),
    "mobilenet": tuple((f"mobilenet.{layer}", 1) for layer in _MOBILENET),
    "dcgan": tuple((f"dcgan.{layer}", 1) for layer in _DCGAN),
}

for _layer, (_size, _ci, _co, _k, _pad, _stride, _) in _RESNET18.items():
    ALIASES[f"resnet18.{_layer}"] = f"conv2d:h={_size},w={_size},ci={_ci},co={_co},k={_k},stride={_stride},pad={_pad}"
# The first layer, on three channels, which networks leave to the host.
ALIASES["resnet18.c1"] = "conv2d:h=224,w=224,ci=3,co=64,k=7,stride=2,pad=3"

# What stands between its convolutions, on tensors of their own: a maximum after the first, additions of shortcuts, the mean.
ALIASES["resnet18.max_pool"] = "max_pool2d:h=112,w=112,c=64,k=3,stride=2,pad=1"
ALIASES["resnet18.mean"] = "avg_pool2d:h=7,w=7,c=512,k=7"
for _stage, _size in enumerate((56, 28, 14, 7), 1):
    ALIASES[f"resnet18.add{_stage}"] = f"residual:h={_size},w={_size},c={3584 // _size}"

for _layer, (_size, _c, _stride) in _MOBILENET.items():
    ALIASES[f"mobilenet.{_layer}"] = f"conv2d:h={_size},w={_size},ci={_c},co={_c},k=3,stride={_stride},pad=1,groups={_c // 16}"
for _layer, (_size, _ci, _co) in _DCGAN.items():
    ALIASES[f"dcgan.{_layer}"] = f"conv2d_transpose:h={_size},w={_size},ci={_ci},co={_co},k=4,stride=2,pad=1"
