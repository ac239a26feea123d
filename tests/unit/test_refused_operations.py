"""Operations on integers that no form of a program has: each is refused for what it is, and its twin has schedules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from refusals import refused
from spaces import computes

from autosched import te
from autosched.errors import SpaceError
from autosched.ir.expr import Expr
from autosched.ir.stmt import PrimFunc
from space import Space
from space.lowerable import require_lowerable
from space.products import why_no_type


def each(value: Callable[[Expr], Expr], dtype: str = "int8") -> PrimFunc:
    x = te.placeholder((4, 16), dtype, name="x")
    return te.create_prim_func([x, te.compute((4, 16), lambda i, j: value(x[i, j]), name="z")])


def wide(value: Expr) -> Expr:
    return value.astype("int32")


FLOAT = "block 'z' computes in float32; the machine computes integers: write a factor such as 0.3 as \\* 77 >> 8, in int32"
REFUSED: dict[str, tuple[Callable[[Expr], Expr], str, str]] = {
    "a factor": (lambda v: (v.astype("float32") * 0.5).astype("int8"), "type", FLOAT),
    "a factor, then int32": (lambda v: (v.astype("float32") * 0.5).astype("int32").astype("int8"), "type", FLOAT),
    "a factor of int32": (lambda v: (wide(v) * 0.25).astype("int8"), "type", FLOAT),
    "there and back": (lambda v: v.astype("float32").astype("int8"), "type", FLOAT),
    "a maximum": (lambda v: te.max(v, 3.5).astype("int8"), "type", FLOAT),
    "a result of them": (lambda v: v.astype("float32") * 0.5, "type", FLOAT),
    "a conversion alone": (lambda v: v.astype("float32"), "result", "z is a result and float32; .* cast what block 'z' writes"),
    "below 0": (lambda v: v >> -1, "machine", "block z shifts by -1; 0 to 31 have a meaning"),
    "to the left": (lambda v: v << -1, "machine", "block z shifts by -1; 0 to 31 have a meaning"),
    "above 31": (lambda v: (wide(v) >> 32).astype("int8"), "machine", "block z shifts by 32; 0 to 31 have a meaning"),
    "uint8": (lambda v: v.astype("uint8"), "result", "converts int8 to uint8; .*: convert to int32 before, "
              r'\.astype\("int32"\)\.astype\("uint8"\)'),
    "int16": (lambda v: te.max(v, 0).astype("int16"), "result", "converts int8 to int16; .*: convert to int32 before"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_the_machine_has_in_no_form_is_what_is_said(what: str) -> None:
    value, code, words = REFUSED[what]
    with pytest.raises(SpaceError, match=words) as caught:
        require_lowerable(Space(each(value), "vta-de10"))
    assert caught.value.code == code, caught.value.code


@pytest.mark.parametrize("value", [
    lambda v: (wide(v) * 77 >> 8).astype("int8"), lambda v: v >> 1, lambda v: (wide(v) >> 31).astype("int8"),
    lambda v: wide(v).astype("uint8"), lambda v: te.max(wide(v), 0).astype("int16"), wide,
], ids=["factor", "shift", "31", "uint8", "int16", "int32"])
def test_what_is_written_instead_computes_its_bytes(value: Callable[[Expr], Expr]) -> None:
    computes(each(value), "vta-de10")


@pytest.mark.parametrize("value", [lambda v: wide(v).astype("uint8"), wide, lambda v: v], ids=["of int32", "to int32", "int8"])
def test_what_the_machine_converts_is_in_no_way(value: Callable[[Expr], Expr]) -> None:
    assert why_no_type(each(value)) is None
    assert why_no_type(each(lambda v: value(v).astype("int16").astype("uint16"))) is not None


def test_a_float_tensor_is_refused_for_its_type() -> None:
    with refused(SpaceError, "result") as caught:
        Space(each(lambda v: v * 2.0, "float32"), "vta-de10")
    assert "z is a result and float32" in str(caught.value)


def test_a_user_reads_it_in_a_line(here, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from autosched import te\n\n\ndef halved():\n    x = te.placeholder((4, 16), 'int8', name='x')\n"
                    "    z = te.compute((4, 16), lambda i, j: (x[i, j].astype('float32') * 0.5).astype('int8'), name='z')\n"
                    "    return te.create_prim_func([x, z])\n")
    done = here("tune", f"{file}:halved", "--log", tmp_path / "log")
    assert done.returncode == 2 and "computes in float32" in done.stderr and "reads x as int8" not in done.stderr
