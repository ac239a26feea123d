"""Random graphs of elementwise stages: what shares storage, what is copied, and what lives on must not change any byte."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosched.ir.stmt import PrimFunc
from autosched.script import parse

TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim")
Choose = Callable[[Sequence[Any]], Any]


def expression(choose: Choose, operands: Sequence[str], depth: int) -> str:
    """A random expression; ``operands`` are loads."""
    if depth == 0 or choose([True, False, False]):
        return choose(operands)
    a = expression(choose, operands, depth - 1)
    kind = choose(["add", "max", "min", "imm", "imm", "shr", "shl", "wide", "narrow"])
    match kind:
        case "imm":
            return f"{choose(['T.max', 'T.min'])}({a}, {choose([-7, 0, 100, 32767])})"
        case "shr":
            return f"T.shift_right({a}, {choose([1, 8, 17])})"
        case "shl":
            return f"T.shift_left({a}, {choose([1, 9, 16])})"
        case "wide":
            return f"{a} + {choose([-5, 40000, -100000, 65536])}"
        case "narrow":
            return f'T.cast(T.cast({a}, "int8"), "int32")'
    b = expression(choose, operands, depth - 1)
    return f"{a} + {b}" if kind == "add" else f"T.{kind}({a}, {b})"


def graph(choose: Choose) -> PrimFunc:
    """Stages over (6, 3) elements, tile by tile, each reading loaded tensors and earlier stages; two results are stored."""
    rows = choose([1, 2, 3, 6])
    stages = choose([1, 2, 3, 4])
    head = '''
from tvm.script import tir as T
@T.prim_func
def main(
    a: T.Buffer((6, 3, 16), "int32"), b: T.Buffer((3, 16), "int32"),
    out: T.Buffer((6, 3, 16), "int8"), more: T.Buffer((6, 3, 16), "int8"),
):
'''
    buffers = ["x", "y", *[f"s{k}" for k in range(stages)]]
    for name in buffers:
        shape = "(3, 16)" if name == "y" else "(6, 3, 16)"
        head += f'    {name} = T.alloc_buffer({shape}, "int32", scope="local.acc_buffer")\n'

    def block(name: str, body: str, deep: bool = True) -> str:
        pad = "        " if deep else "    "
        row = f"t * {rows} + i" if deep else "i"
        return (
            f"{pad}for i, j, l in T.grid({rows if deep else 6}, 3, 16):\n{pad}    with T.block(\"{name}\"):\n"
            f"{pad}        vi = T.axis.spatial(6, {row})\n{pad}        vj, vl = T.axis.remap(\"SS\", [j, l])\n"
            f"{pad}        {body}\n"
        )

    small = (
        '    for j, l in T.grid(3, 16):\n        with T.block("load_y"):\n            vj, vl = T.axis.remap("SS", [j, l])\n'
        "            y[vj, vl] = b[vj, vl]\n"
    )
    inside = choose([True, False])
    text = head + small
    body = block("load_x", "x[vi, vj, vl] = a[vi, vj, vl]", inside)
    if inside:
        text += f"    for t in range({6 // rows}):\n"
    text += body
    loads = ["x[vi, vj, vl]", "y[vj, vl]"]
    for k in range(stages):
        text += block(f"s{k}", f"s{k}[vi, vj, vl] = {expression(choose, loads, 3)}", inside)
        loads.append(f"s{k}[vi, vj, vl]")
    other = choose(["x", *[f"s{k}" for k in range(stages)]])
    stores = [
        block("store", f's{stages - 1}[vi, vj, vl], "int8")'.replace("s", "out[vi, vj, vl] = T.cast(s", 1), inside),
        block("store_more", f'more[vi, vj, vl] = T.cast({other}[vi, vj, vl], "int8")', inside),
    ]
    return parse(text + "".join(stores if choose([True, False]) else stores[::-1]))


def agrees(data: st.DataObject, vta_schedules: ModuleType) -> None:
    def choose(options: Sequence[Any]) -> Any:
        return data.draw(st.sampled_from(list(options)))

    vta_schedules.verify(graph(choose), choose(TARGETS))


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_graphs(vta_schedules: ModuleType, data: st.DataObject) -> None:
    agrees(data, vta_schedules)


@pytest.mark.slow
@settings(max_examples=1500, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_many_graphs(vta_schedules: ModuleType, data: st.DataObject) -> None:
    agrees(data, vta_schedules)
