"""What a sum reads of one tensor, with what guards it, as a stage of its own."""

from __future__ import annotations

from autosched.ir.expr import BinOp, BufferLoad, Call, Cast, Expr, IntImm, Select, Var, bits, int_value, logical_not
from autosched.ir.functor import Substitute, expr_children, free_vars, substitute, walk_expr
from autosched.ir.patterns import choice_of, loads_in, update_of
from autosched.ir.print_expr import expr_text
from autosched.ir.region import with_access
from autosched.ir.simplify import Analyzer, linear_form
from autosched.ir.stmt import Block, Buffer, BufferStore, IterVar, Range, Stmt
from autosched.schedule.kit.names import fresh_name
from autosched.schedule.kit.nests import own_nest
from autosched.schedule.kit.refusal import Refusal


def operand_stage(block: Block, part: Expr, names: set[str], buffers: set[str]) -> tuple[Block, Stmt, Buffer, Expr]:
    """A stage that computes a part of what a block stores, once for each element that the part reads.

    Args:
        block: sums up, or stores one value.
        part: of its value; reads one element of one tensor at affine indices, and depends on the iterators through these only.
        names: of blocks, taken.
        buffers: names of buffers, taken.

    Returns:
        The stage, its loops, its tensor, and what stands for the part in the block.

    Raises:
        Refusal: the part reads several elements, or depends on something else.
    """
    convert, inner = _converted(part)
    loads = loads_in(inner)
    assert isinstance(block.body, BufferStore)
    others = [x for x in loads if x.buffer is not block.body.buffer]
    if len(others) != 1 or len(loads) != 1:
        raise Refusal(f"{expr_text(part)} in block {block.name} reads {len(others)} elements of other tensors; a stage of its "
                      "own needs one", [block.ident], "name the part that reads one tensor", code="form")
    load = loads[0]
    known = Analyzer({iv.var: iv.dom for iv in block.iter_vars})
    own = [iv.var for iv in block.iter_vars]
    places: list[tuple[Var, int, int]] = []
    inverse: dict[Var, Expr] = {}
    read: dict[int, Expr] = {}  # where the stage reads, and the block reads what it makes, other than further on
    at_own: dict[int, Expr] = {}
    for d, whole in enumerate(load.indices):
        form, index = linear_form(whole, own), whole
        alone = _digit(block, whole, load.indices[:d] + load.indices[d + 1 :]) if form is None else None
        if form is None and alone is None and isinstance(whole, BinOp) and whole.op == "//" and int_value(whole.b) is not None:
            # One element for every value of what is divided, as if each stood so often: its condition says which are meant.
            form, index = linear_form(whole.a, own), whole.a
        low, high = known.int_bounds(index)
        if alone is not None:
            # One element for every value of the iterator, some of them the same.
            var = Var(f"v_i{d}", index.dtype)
            places.append((var, 0, int_value(alone.dom.extent) or 1))
            inverse[alone.var] = var
            read[d], at_own[d] = substitute(index, {alone.var: var}), alone.var
            continue
        if low is None or high is None or form is None:
            raise Refusal(f"index {expr_text(whole)} of {load.buffer.name} in block {block.name} is not affine in its iterators",
                          [block.ident], code="index")
        var = Var(f"v_i{d}", index.dtype)
        places.append((var, low, high - low + 1))
        if index is not whole and isinstance(whole, BinOp):
            read[d], at_own[d] = BinOp("//", var + low, whole.b, whole.dtype), known.simplify(index - low)
        pivot = next((v for v, c in form[0].items() if c == 1 and v not in inverse), None)
        if pivot is not None:
            # The iterator as the index and the other iterators give it.
            inverse[pivot] = var + low - (index - pivot)
    at = {var: Range(IntImm(0, var.dtype), IntImm(n, var.dtype)) for var, _, n in places}
    known = Analyzer({**{iv.var: iv.dom for iv in block.iter_vars}, **at})
    if block.init is None:
        # A stage reads a sum where it stores, also along what has one index.
        known = Analyzer({var: dom for var, dom in at.items() if int_value(dom.extent) != 1})
    guarded = _Moved(load, BufferLoad(load.buffer, tuple([
        read.get(d, var + low) for d, (var, low, _) in enumerate(places)]), load.dtype), inverse)
    value = known.simplify(guarded.visit_expr(inner))
    strange = [v for v in free_vars(value) if v not in at]
    if strange:
        chosen, update = choice_of(inner), update_of(block.body) if isinstance(block.body, BufferStore) else None
        zeros = chosen is not None and 0 in map(int_value, chosen[1:]) and update is not None and update[0] == "+"
        instead = ", or multiply what is read by a choice of 1 or 0" if zeros else ""
        raise Refusal(f"{expr_text(part)} in block {block.name} depends on {strange[0].name} in another way than "
                      f"{load.buffer.name} is read: compute it in a block before the sum{instead}", [block.ident], code="form")
    name = fresh_name(f"{block.name}_{load.buffer.name}", names)
    shape = tuple([IntImm(n) for _, _, n in places])
    buffer = Buffer(fresh_name(f"{load.buffer.name}_part", buffers), shape, inner.dtype)
    iter_vars = tuple([IterVar(var, at[var], "spatial") for var, _, _ in places])
    made = with_access(Block(name, iter_vars, (), (), BufferStore(buffer, tuple([var for var, _, _ in places]), value)))
    shifted = [known.simplify(i - low) for i, (_, low, _) in zip(load.indices, places)]
    indices = tuple([at_own.get(d, i) for d, i in enumerate(shifted)])
    stands: Expr = BufferLoad(buffer, indices, inner.dtype)
    return made, own_nest(made, "i"), buffer, stands if convert is None else Cast(convert, stands)


def place_stage(block: Block, value: Expr, name: str, tensor: str) -> tuple[Block, BufferLoad]:
    """A stage that makes a value once for each combination of the iterators that it depends on; its element.

    Args:
        block: whose iterators they are.
        value: loads nothing, or what is there for all iterators.
        name: of the stage.
        tensor: that it stores.

    Raises:
        Refusal: it has no value everywhere, and a condition around it may say where.
    """
    if not _defined(value, Analyzer({iv.var: iv.dom for iv in block.iter_vars})):
        raise Refusal(f"{expr_text(value)} in block {block.name} is not known to have a value for all of its iterators: it "
                      "divides by what may be 0, or shifts by less than 0 or more than there are bits", [block.ident],
                      "name the whole choice as the part", code="form")
    used = [iv for iv in block.iter_vars if iv.var in set(free_vars(value))]
    fresh = {iv.var: Var(iv.var.name, iv.var.dtype) for iv in used}
    shift = {iv.var: max(-(int_value(iv.dom.min) or 0), 0) for iv in used}  # what starts below 0 is stored from 0 on
    shape = tuple([IntImm(shift[iv.var] + (int_value(iv.dom.min) or 0) + (int_value(iv.dom.extent) or 1)) for iv in used])
    buffer = Buffer(tensor, shape, value.dtype)
    iters = tuple([IterVar(fresh[iv.var], iv.dom, "spatial") for iv in used])
    body = BufferStore(buffer, tuple([fresh[v] + n if n else fresh[v] for v, n in shift.items()]), substitute(value, fresh))
    read = tuple([v + n if n else v for v, n in shift.items()])
    return with_access(Block(name, iters, (), (), body)), BufferLoad(buffer, read, value.dtype)


def reads_within(block: Block, *values: Expr) -> bool:
    """Whether what some values read is there wherever a block runs, chosen or not.

    Args:
        block: that computes them.
        values: any expressions.
    """
    known = Analyzer({iv.var: iv.dom for iv in block.iter_vars})
    for load in (e for value in values for e in walk_expr(value) if isinstance(e, BufferLoad)):
        for index, size in zip(load.indices, load.buffer.shape):
            low, high = known.int_bounds(index)
            most = int_value(size)
            if low is None or high is None or most is None or low < 0 or high >= most:
                return False
    return True


def _defined(value: Expr, known: Analyzer) -> bool:
    """Whether a value is known to divide by no 0, and to shift by no more bits than there are."""
    choice = choice_of(value)
    if choice is not None:
        with known.with_constraint(choice[0]):
            yes = _defined(choice[1], known)
        with known.with_constraint(logical_not(choice[0])):
            no = _defined(choice[2], known)
        return yes and no and _defined(choice[0], known)
    if isinstance(value, BinOp) and value.op in ("//", "%", "/", "truncdiv", "truncmod"):
        least, most = known.int_bounds(value.b)
        if (least is None or least <= 0) and (most is None or most >= 0):
            return False
    if isinstance(value, Call) and value.op in ("shift_left", "shift_right"):
        least, most = known.int_bounds(value.args[1])
        if least is None or most is None or least < 0 or most > bits(value.dtype):
            return False
    return all(_defined(e, known) for e in expr_children(value))


def _digit(block: Block, index: Expr, others: tuple[Expr, ...]) -> IterVar | None:
    """The spatial iterator from 0 of which alone an index is a digit, or a group, if nothing else moves with it."""
    used = set(free_vars(index))
    around = {v for i in others for v in free_vars(i)}
    return next((iv for iv in block.iter_vars if used == {iv.var} and iv.var not in around and iv.kind == "spatial"
                 and int_value(iv.dom.min) == 0 and int_value(iv.dom.extent) is not None), None)


def _converted(part: Expr) -> tuple[str | None, Expr]:
    """(what the whole part is converted to, the part without): a guarded conversion is the conversion of what is guarded."""
    if isinstance(part, Cast):
        return part.dtype, part.value
    choice = choice_of(part)
    if choice is None:
        return None, part
    condition, yes, no = choice
    constant = int_value(no)
    if not (isinstance(yes, Cast) and constant is not None and yes.value.dtype == "int8" and -128 <= constant <= 127):
        return None, part
    other = IntImm(constant, "int8")
    if isinstance(part, Select):
        return part.dtype, Select(condition, yes.value, other, "int8")
    return part.dtype, Call("if_then_else", (condition, yes.value, other), "int8")


class _Moved(Substitute):
    """Puts another load in place of one, and the iterators elsewhere in terms of its indices."""

    def __init__(self, load: BufferLoad, other: BufferLoad, inverse: dict[Var, Expr]) -> None:
        super().__init__(inverse)
        self.load, self.other = load, other

    def visit_expr(self, expr: Expr) -> Expr:
        return self.other if expr is self.load else super().visit_expr(expr)
