"""Nodes that fill their slots directly are the dataclasses that they would be otherwise."""

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields

import pytest

from autosched.ir.expr import IntImm, Var
from autosched.ir.quick import quick
from autosched.ir.stmt import Block, For, SeqStmt


@dataclass(frozen=True, slots=True)
class Plain:
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=lambda: [3])
    d: tuple[int, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError(f"{self.a} is below 0")


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    a: int
    b: str = "b"
    c: list[int] = field(default_factory=lambda: [3])
    d: tuple[int, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError(f"{self.a} is below 0")


GIVEN = [((1,), {}), ((1, "x"), {}), ((1,), {"d": (2,)}), ((), {"a": 1, "c": []}), ((1, "x", [1], (1,)), {})]


@pytest.mark.parametrize(("args", "named"), GIVEN)
def test_a_quick_node_is_its_dataclass(args: tuple[object, ...], named: dict[str, object]) -> None:
    plain, node = Plain(*args, **named), Quick(*args, **named)  # type: ignore[arg-type]
    assert [getattr(node, f.name) for f in fields(node)] == [getattr(plain, f.name) for f in fields(plain)]
    assert repr(node) == repr(plain).replace("Plain", "Quick")
    assert node == Quick(*args, **named) == pickle.loads(pickle.dumps(node)) == copy.deepcopy(node)  # type: ignore[arg-type]
    assert node != plain
    with pytest.raises(FrozenInstanceError):
        node.a = 2  # type: ignore[misc]


def test_defaults_are_made_anew() -> None:
    assert Quick(1).c == [3] and Quick(1).c is not Quick(1).c
    assert Quick(1, d=(5,)) == Quick(1)


@pytest.mark.parametrize(("args", "error"), [((), TypeError), ((1, "b", [], (), 5), TypeError), ((-1,), ValueError)])
def test_what_a_dataclass_refuses_is_refused(args: tuple[object, ...], error: type[Exception]) -> None:
    for cls in (Plain, Quick):
        with pytest.raises(error):
            cls(*args)  # type: ignore[call-arg, arg-type]


def test_other_classes_are_not_taken() -> None:
    with pytest.raises(TypeError, match="Loose is no dataclass of slots"):
        @quick
        @dataclass(frozen=True)
        class Loose:
            a: int

    with pytest.raises(TypeError, match="Named is no dataclass of slots"):
        @quick
        @dataclass(frozen=True, slots=True, kw_only=True)
        class Named:
            a: int

    with pytest.raises(TypeError, match="Own is no dataclass of slots"):
        @quick
        @dataclass(frozen=True, slots=True)
        class Own:
            a: int = field(init=False, default=1)


def test_the_nodes_of_programs_keep_their_defaults() -> None:
    one, two = (Block("b", (), (), (), SeqStmt(())) for _ in range(2))
    assert one.ident is not two.ident and one.annotations is not two.annotations and one == two
    loop = For(Var("i"), IntImm(0), IntImm(4), "serial", SeqStmt(()))
    assert loop.thread is None and loop.annotations == {} and IntImm(3).dtype == "int32"
