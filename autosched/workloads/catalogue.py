"""Workloads that have names: the tutorials of the old stack and the layers of networks.

Shapes of ResNet-18 after K. He et al., "Deep Residual Learning for Image Recognition" (2015), batch 1, 224 x 224: the
ten convolutions left after the first, which has three channels and runs on the host.
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

NETWORKS: dict[str, tuple[tuple[str, int], ...]] = {
    "resnet18": tuple((f"resnet18.{layer}", shape[-1]) for layer, shape in _RESNET18.items()),
}

for _layer, (_size, _ci, _co, _k, _pad, _stride, _) in _RESNET18.items():
    ALIASES[f"resnet18.{_layer}"] = f"conv2d:h={_size},w={_size},ci={_ci},co={_co},k={_k},stride={_stride},pad={_pad}"
