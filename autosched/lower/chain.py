"""The value of an elementwise site as a chain of ALU operations on its destination."""

from __future__ import annotations

from autosched.errors import LoweringError
from autosched.lower.classify import COMMUTATIVE, Imm, Leaf, Node, Op, leaves
from autosched.lower.compute import Step
from autosched.lower.elements import Elements
from autosched.lower.normalise import IMM_MAX, IMM_MIN, extract
from autosched.lower.regions import disjoint, reads_ahead
from autosched.lower.tree import Access, Site, Tree
from sim import isa
from sim.config import multiplies, shifts_by_tensors

CODES = {"add": isa.ALU_ADD, "min": isa.ALU_MIN, "max": isa.ALU_MAX, "shr": isa.ALU_SHR, "mul": isa.ALU_MUL}
RawStep = tuple[str, int | Access]


def unroll_value(value: Node, write: Access) -> tuple[Access | int, list[RawStep]]:
    """Head (a load or a constant) and the operations that follow, innermost first.

    Args:
        value: every operation has at least one side that is a load or a constant.
        write: the destination: an operand already there is preferred as head.
    """

    def here(node: Node) -> bool:
        return isinstance(node, Leaf) and node.access.buffer is write.buffer and node.access.same_place(write)

    steps: list[RawStep] = []
    while isinstance(value, Op):
        a, b = value.a, value.b
        if value.op in COMMUTATIVE and (isinstance(b, Op) or (isinstance(a, Leaf) and here(b))):
            a, b = b, a
        if isinstance(b, Imm):
            steps.append((value.op, b.value))
        else:
            assert isinstance(b, Leaf)
            steps.append((value.op, b.access))
        value = a
    steps.reverse()
    return (value.access if isinstance(value, Leaf) else value.value), steps


def protect_operands(tree: Tree, semantics: str) -> None:
    """Keeps operands that the chain would overwrite before it reads them.

    Such an operand is copied, or what is combined with it is worked out aside: under ``chisel`` the first operation of that moves
    as well, where it has a constant, and no copy is needed.

    Args:
        tree: the program.
        semantics: ``portable`` has instances of one instruction in no order.

    Raises:
        LoweringError: kind ``alu``: an operand in the destination's own storage at another place.
    """
    for site in tree.index():
        if site.kind != "alu":
            continue
        assert site.value is not None
        head, steps = unroll_value(site.value, site.write)
        in_place = isinstance(head, Access) and head.buffer is site.write.buffer and head.same_place(site.write)
        again = [x for _, x in steps if isinstance(x, Access) and x.buffer is site.write.buffer and x.same_place(site.write)]
        moves = semantics == "chisel" and in_place and len(again) == 1 and not isinstance(steps[0][1], Access)
        for k, (op, operand) in enumerate(steps):
            if not isinstance(operand, Access) or operand.buffer is not site.write.buffer:
                continue
            if operand.same_place(site.write):
                if in_place and k == 0:
                    continue
                if any(loop not in site.write.loops() for loop in site.inner):
                    raise LoweringError("alu", f"block {site.name} uses its running value more than once per step")
                ahead = _combined(site.value, operand) if moves and op in COMMUTATIVE else None
                kept = Leaf(operand) if ahead is None else ahead
                site.value = _replaced(site.value, kept, extract(tree, site, kept, 100 + k))
            elif not disjoint(site, operand) and not (
                    in_place and k == 0 and semantics != "portable" and reads_ahead(site, operand)):
                raise LoweringError(
                    "alu", f"block {site.name} reads {operand.buffer.name} at another place than it writes; "
                    "an instruction works on all elements at once, so compute into another buffer",
                )
        if isinstance(head, Access) and head.buffer is site.write.buffer and not in_place and not disjoint(site, head):
            raise LoweringError("alu", f"block {site.name} moves elements inside {head.buffer.name}; compute into another buffer")
    for site in tree.index():
        if site.kind == "alu":
            site.reads = [leaf.access for leaf in leaves(site.value)]


def _combined(node: Node, operand: Access) -> Node | None:
    """What an operand of a chain is combined with: the other side of the operation that takes it."""
    if not isinstance(node, Op):
        return None
    for side, other in ((node.a, node.b), (node.b, node.a)):
        if isinstance(side, Leaf) and side.access is operand:
            return other
    return _combined(node.a, operand) or _combined(node.b, operand)


def _replaced(node: Node, old: Node, new: Leaf) -> Node:
    if node is old or (isinstance(node, Leaf) and isinstance(old, Leaf) and node.access is old.access):
        return new
    return Op(node.op, _replaced(node.a, old, new), _replaced(node.b, old, new)) if isinstance(node, Op) else node


def steps_of(site: Site, elems: Elements, semantics: str) -> list[Step]:
    """The instructions of a site's chain.

    Args:
        site: the site.
        elems: its accesses in elements.
        semantics: ``chisel``, ``fsim`` or ``portable``; decides how far one instruction may shift and whether MUL exists.

    Raises:
        LoweringError: kind ``alu``: an operation that the target does not have.
    """
    assert site.value is not None
    most = 15 if semantics == "portable" else 31
    head, raw = unroll_value(site.value, site.write)
    steps: list[Step] = []
    if isinstance(head, int):
        steps = _constant(head, most)
    elif not (head.buffer is site.write.buffer and head.same_place(site.write)):
        # The RTL reads the operand of an immediate form at the source's index, so that the first operation moves as well; for
        # all others, and with them, move through 0 + x.
        place = elems.reads[id(head)]
        if semantics == "chisel":
            first, raw = _opening(raw, most)
            steps = [Step(first[0], first[1], place, moves=True)]
        else:
            steps = [Step(-1), Step(isa.ALU_ADD, 0, place)]
    for op, operand in raw:
        if isinstance(operand, Access):
            if op == "shr" and not shifts_by_tensors(semantics):
                raise LoweringError("alu", f"block {site.name} shifts by a tensor; implementations disagree on its range")
            if op == "mul":
                _refuse_mul(site, semantics, "two tensors element by element", "the GEMM does, of int8 elements")
            steps.append(Step(CODES[op], 0, elems.reads[id(operand)]))
        elif op == "shr":
            steps += _shifts(operand, most)
        elif op == "sext8":
            steps += _shifts(-operand, most) + _shifts(operand, most)
        else:
            if op == "mul":
                _refuse_mul(site, semantics, f"by {operand}", "multiply_by_doubling writes shifts and additions")
            assert IMM_MIN <= operand <= IMM_MAX
            steps.append(Step(CODES[op], operand))
    return steps


def _opening(raw: list[RawStep], most: int) -> tuple[tuple[int, int], list[RawStep]]:
    """(operation, constant) of the instruction that moves the head into place, and what is left to do."""
    if not raw:
        return (isa.ALU_SHR, 0), raw
    op, amount = raw[0]
    if isinstance(amount, Access):
        return (isa.ALU_SHR, 0), raw
    if op == "shr":
        piece = max(-most, min(most, amount))
        return (isa.ALU_SHR, piece), ([("shr", amount - piece)] if amount != piece else []) + raw[1:]
    if op == "sext8":
        return (isa.ALU_SHR, -amount), [("shr", amount), *raw[1:]]
    if op == "mul":
        return (isa.ALU_SHR, 0), raw
    return (CODES[op], amount), raw[1:]


def _refuse_mul(site: Site, semantics: str, what: str, instead: str) -> None:
    if not multiplies(semantics):
        raise LoweringError("alu", f"block {site.name} multiplies {what}; only the functional simulator has MUL: {instead}")


def _shifts(amount: int, most: int) -> list[Step]:
    """A shift right by ``amount`` (left where negative) in legal pieces."""
    steps = []
    while amount:
        piece = max(-most, min(most, amount))
        steps.append(Step(isa.ALU_SHR, piece))
        amount -= piece
    return steps


def _constant(value: int, most: int) -> list[Step]:
    """The destination set to a constant."""
    steps = [Step(-1)]
    if IMM_MIN <= value <= IMM_MAX:
        return steps + ([Step(isa.ALU_ADD, value)] if value else [])
    low = (value + (1 << 15)) % (1 << 16) - (1 << 15)
    high = ((value - low) >> 16) % (1 << 16)
    high = high - (1 << 16) if high >= 1 << 15 else high
    steps += [Step(isa.ALU_ADD, high), *_shifts(-16, most)]
    return steps + ([Step(isa.ALU_ADD, low)] if low else [])
