"""Changes that damage an ONNX model somewhere: what a file may hold that no checker looks at."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import ModelProto, helper, numpy_helper

NUMBERS = (-1, 0, 1, 2, 3, 5, 1000, 2**31, 2**62)
OPERATORS = ("Sigmoid", "Clip", "Relu", "Add", "MaxPool", "Concat", "Flatten", "Identity", "Pad", "BatchNormalization", "LSTM",
             "If")
VALUES: tuple[Callable[[Any], Any], ...] = (
    lambda v: v * 0, lambda v: -v, lambda v: v.reshape(-1), lambda v: v[..., None], lambda v: v.astype(np.float32) + 0.3,
    lambda v: v.astype(np.int64), lambda v: v.astype(np.uint8), lambda v: v[:0] if v.ndim else v, lambda v: v.T,
    lambda v: np.full_like(v, np.nan, dtype=np.float32), lambda v: np.repeat(v.reshape(-1), 2),
)


def damaged(model: ModelProto, seed: int) -> ModelProto:
    """A copy of a model with one to three random changes.

    Args:
        model: it is not changed.
        seed: what is drawn.
    """
    rng, made = random.Random(seed), copy.deepcopy(model)
    for _ in range(rng.choice([1, 1, 2, 3])):
        rng.choice(CHANGES)(made, rng)
    return made


def _names(model: ModelProto) -> list[str]:
    return [t for n in model.graph.node for t in (*n.input, *n.output) if t]


def _attribute(model: ModelProto, rng: random.Random) -> None:
    node = rng.choice(model.graph.node)
    if not node.attribute:
        return
    a = rng.choice(node.attribute)
    if a.ints and rng.random() < 0.8:
        a.ints[rng.randrange(len(a.ints))] = rng.choice(NUMBERS)
    elif a.type == a.INT and rng.random() < 0.8:
        a.i = rng.choice(NUMBERS)
    else:
        node.attribute.remove(a)


def _input(model: ModelProto, rng: random.Random) -> None:
    node = rng.choice(model.graph.node)
    at = rng.randrange(len(node.input) + 1)
    if at == len(node.input):
        node.input.append(rng.choice(["", *_names(model)]))
    elif rng.random() < 0.5:
        node.input[at] = rng.choice(_names(model))
    else:
        del node.input[at]


def _node(model: ModelProto, rng: random.Random) -> None:
    node = rng.choice(model.graph.node)
    what = rng.randrange(4)
    if what == 0:
        model.graph.node.remove(node)
    elif what == 1:
        model.graph.node.append(copy.deepcopy(node))
    elif what == 2:
        node.op_type = rng.choice([n.op_type for n in model.graph.node] + list(OPERATORS))
    else:
        node.output[0] = rng.choice(_names(model))


def _constant(model: ModelProto, rng: random.Random) -> None:
    constant = rng.choice(model.graph.initializer)
    if rng.random() < 0.1:
        model.graph.initializer.remove(constant)
        return
    with np.errstate(all="ignore"):
        value = np.ascontiguousarray(rng.choice(VALUES)(numpy_helper.to_array(constant)))
    constant.CopyFrom(numpy_helper.from_array(value, constant.name))


def _interface(model: ModelProto, rng: random.Random) -> None:
    kind = model.graph.input[0].type.tensor_type
    what = rng.randrange(4)
    if what == 0 and kind.shape.dim:
        rng.choice(kind.shape.dim).dim_value = rng.choice([0, 1, 2, 4, 7, 100, 2**33])
    elif what == 1:
        kind.elem_type = rng.choice([1, 2, 3, 6, 7, 9, 10, 11, 16])
    elif what == 2:
        model.opset_import[0].version = rng.choice([1, 7, 10, 11, 13, 18, 21])
    else:
        model.graph.output.append(helper.make_tensor_value_info(rng.choice(_names(model)), rng.choice([1, 2, 3, 6]), None))


CHANGES = (_attribute, _input, _input, _node, _constant, _constant, _interface)
