"""A bias inside a sum is warned about, from either front end; nothing else is."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from autosched import te
from autosched.script import parse

REPEATED: dict[str, Callable[..., Any]] = {
    "{a} * {b} + {bias}": lambda a, b, bias: a * b + bias,
    "({a} * {b} + {bias}) * 2": lambda a, b, bias: (a * b + bias) * 2,
    "2 * ({bias} + {a} * {b})": lambda a, b, bias: 2 * (bias + a * b),
    "{a} * {b} + 1": lambda a, b, bias: a * b + 1,
    "{a} * {b} + {bias} * 3": lambda a, b, bias: a * b + bias * 3,
    "({a} + {bias}) * {bias}": lambda a, b, bias: (a + bias) * bias,
}
FINE: dict[str, Callable[..., Any]] = {
    "{a} * {b}": lambda a, b, bias: a * b,
    "{a} * {b} * {bias}": lambda a, b, bias: a * b * bias,
    "({a} + {bias}) * {b}": lambda a, b, bias: (a + bias) * b,
    "({a} - 8) * ({b} + 3)": lambda a, b, bias: (a - 8) * (b + 3),
    "{a} - {bias}": lambda a, b, bias: a - bias,
    "({a} + {bias}) // 2": lambda a, b, bias: (a + bias) // 2,
    "T.max({a} + {bias}, 0)": lambda a, b, bias: te.max(a + bias, 0),
    "{bias}": lambda a, b, bias: bias,
}


def told(make: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        make()
    return [str(w.message) for w in caught]


def defined(f: Callable[..., Any], extent: int = 16) -> object:
    A, B = te.placeholder((8, extent), "int32", name="A"), te.placeholder((extent,), "int32", name="B")
    bias = te.placeholder((8,), "int32", name="bias")
    k = te.reduce_axis((0, extent), name="k")
    C = te.compute((8,), lambda i: te.sum(f(A[i, k], B[k], bias[i]), axis=k), name="C")
    return te.create_prim_func([A, B, bias, C])


def script(value: str, kinds: str = "SR", update: str = "C[vi] + {}", extent: int = 16) -> str:
    value = value.format(a="A[vi, vk]", b="B[vk]", bias="bias[vi]")
    return f"""
@T.prim_func
def main(A: T.Buffer((8, {extent}), "int32"), B: T.Buffer(({extent},), "int32"), bias: T.Buffer((8,), "int32"),
         C: T.Buffer((8,), "int32")):
    for i, k in T.grid(8, {extent}):
        with T.sblock("C"):
            vi, vk = T.axis.remap("{kinds}", [i, k])
            with T.init():
                C[vi] = 0
            C[vi] = {update.format("(" + value + ")")}
"""


@pytest.mark.parametrize("text", REPEATED)
def test_what_every_step_adds_again_is_told(text: str) -> None:
    for messages in (told(lambda: defined(REPEATED[text])), told(lambda: parse(script(text))),
                     told(lambda: parse(script(text, update="{} + C[vi]")))):
        assert messages
        assert all("is inside the sum and does not depend on" in m and m.endswith("it is added 16 times") for m in messages)
    # A sum of one term adds it once.
    assert told(lambda: defined(REPEATED[text], extent=1)) == []
    assert told(lambda: parse(script(text, extent=1))) == []


@pytest.mark.parametrize("text", FINE)
def test_what_is_meant_is_not_told(text: str) -> None:
    assert told(lambda: defined(FINE[text])) == []
    assert told(lambda: parse(script(text))) == []


def test_sums_without_brackets_and_what_is_no_sum() -> None:
    assert len(told(lambda: parse(script("{a} * {b} + {bias}", update="C[vi] + A[vi, vk] + bias[vi]")))) == 1
    assert told(lambda: parse(script("{a} + {bias}", update="T.max(C[vi], {})"))) == []
    assert told(lambda: parse(script("{a} + {bias}", update="{}"))) == []
    plain = script("{a} + {bias}").replace("            with T.init():\n                C[vi] = 0\n", "")
    assert told(lambda: parse(plain.replace('"SR"', '"SS"'))) == []
    assert len(told(lambda: parse(plain))) == 1  # decomposed, a sum still
