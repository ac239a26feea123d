"""The program of a layer: blocks in packed layout whose extents, strides and tail come from a ``Spec``.

Activations are ``[rows, channels, height, width, batch lanes, channel lanes]`` (a matrix has height and width 1), weights tiles
of ``[.., output lanes, input lanes]``, a bias ``[1, channels, 1, 1, batch lanes, lanes]`` of int32 at the scale of the sums. Sums
of int8 tensors and means go through the GEMM as well: their weights are identity tiles, scaled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from autosched.ir.expr import Expr, IntImm, all_of, binary, cast, if_then_else, maximum, minimum
from autosched.ir.stmt import Buffer, PrimFunc, Stmt, make_root, seq
from autosched.networks.graph import Array, Graph, Layer, Leak, Pool, Residual, spanned
from autosched.networks.ranges import least, reach
from autosched.networks.tiles import image_of, per_channel, weight_tiles
from autosched.networks.transposed import Direction, directions
from autosched.networks.transposed import sums as classes
from autosched.workloads import Workload
from autosched.workloads.inputs import SHIFTS
from autosched.workloads.layout import whole
from autosched.workloads.stage import reduction, stage, tensor

TENSOR_SHIFT = -1
USUAL_SHIFT = 8


@dataclass(frozen=True)
class Spec:
    """What decides the program of a layer.

    Args:
        kind: ``conv``, ``deconv`` (transposed), ``depthwise`` (each block of channels from its own alone), ``dense``, ``add``,
            ``average``, ``max`` (which has no bias and no shift; padding counts as 0) or ``resize`` (the same
            pixels again, ``stride`` times down and across).
        n: batch.
        ci: input channels of one group (a dense layer's are the lanes that its input has in memory).
        h: input height.
        w: input width.
        co: output channels of one group.
        oh: output height.
        ow: output width.
        kernel: of the window.
        stride: of the window.
        pads: zeros around the image: top, left, bottom, right; of a deconv, what is cut off its full result in front, then 0.
        groups: of channels, each whole blocks.
        operands: tensors that an ``add`` adds.
        bias: ``none``, ``one`` for all channels, ``channel``, or ``place``, one for each element of an image.
        bias_bits: a bias is within ``+-2**bias_bits``.
        shift: to the right, or ``TENSOR_SHIFT`` for one per channel.
        low: least result.
        high: greatest result.
        residual: conv: the sum that its result goes into, or None.
        dilation: of the window of a conv or depthwise: from one element to the next, down and across.
        pool: conv: what its result goes into, or None; ``oh`` and ``ow`` are in front of it.
        leak: what is done below zero, or None.
    """

    kind: str
    n: int
    ci: int
    h: int
    w: int
    co: int
    oh: int
    ow: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    operands: int = 1
    bias: str = "channel"
    bias_bits: int = 16
    shift: int = USUAL_SHIFT
    low: int = -128
    high: int = 127
    residual: Residual | None = None
    dilation: tuple[int, int] = (1, 1)
    pool: Pool | None = None
    leak: Leak | None = None

    def structure(self) -> Spec:
        """The spec whose schedules serve this one: other immediates of the same instructions cost the same cycles."""
        if self.kind in ("max", "resize") or self.residual is not None:
            return self  # which clips a residual sum needs, and where its rounding comes in, is a matter of its immediates
        # What is added below zero depends on the shift, and may be more than an immediate holds.
        usual = self.shift > 0 and self.leak is None
        return replace(self, shift=USUAL_SHIFT if usual else self.shift, low=0, high=127, bias_bits=16)

    @property
    def directions(self) -> tuple[Direction, Direction]:
        """Rows and columns of a transposed convolution."""
        made = directions((self.h, self.w), (self.oh, self.ow), self.kernel, self.stride, self.pads[:2])
        assert not isinstance(made, str)
        return made

    @property
    def zeros(self) -> tuple[int, int, int, int]:
        """Zeros around the image that the program reads: top, left, bottom, right."""
        if self.kind != "deconv":
            return self.pads
        down, across = self.directions
        return down.before, across.before, down.after, across.after

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the program's products, identity tiles not counted."""
        if self.kind in ("add", "average", "max", "resize"):
            return 0
        if self.kind == "deconv":
            down, across = self.directions
            return self.n * self.co * self.oh * self.ow * self.ci * down.taps * across.taps
        return self.n * self.groups * self.co * self.oh * self.ow * self.ci * self.kernel[0] * self.kernel[1]


@dataclass(frozen=True, eq=False)
class Call:
    """A layer as a program with its constants.

    Args:
        spec: the program's.
        constants: packed arrays by parameter name: ``weight``, ``bias``, ``shift``.
    """

    spec: Spec
    constants: dict[str, Array]


def spec_of(graph: Graph, layer: Layer, source: tuple[int, ...], block: int) -> Spec:
    """The spec of a layer.

    Args:
        graph: its network.
        layer: a layer with sums.
        source: shape of the first input as it lies in memory (an image that a dense layer reads flat is an image).
        block: channel lanes.
    """
    done = layer.requant
    out = image_of(graph.tensors[layer.output].shape)
    n, c, h, w = image_of(source)
    if layer.pool is not None:
        out = (*out[:2], *made_of(layer, h, w))
    if layer.kind == "resize":
        return Spec("resize", n, c, h, w, c, out[2], out[3], stride=layer.stride, bias="none", shift=0)
    if layer.kind == "max":
        return Spec("max", n, c, h, w, c, out[2], out[3], layer.kernel, layer.stride, layer.pads, bias="none", shift=0)
    assert done is not None
    bits = 16
    while (1 << bits) < int(np.abs(done.bias).max(initial=0)):
        bits += 4
    bits = min(bits, 31)
    assert int(reach(layer).max()) < 1 << 31
    shift = int(done.shift[0]) if len(done.shift) == 1 else TENSOR_SHIFT
    many = len(done.bias) > 1 or layer.weight is not None
    bias = "none" if not done.bias.any() else "place" if done.bias.ndim > 1 else "channel" if many else "one"
    # Promised is the sign alone: any other bound would give programs of one structure different forms.
    add = layer.residual
    add = None if add is None else replace(add, least=0 if least(graph.layers, layer.inputs[-1]) >= 0 else -128)
    common = Spec(
        layer.kind, n, c, h, w, c, out[2], out[3], layer.kernel, layer.stride, layer.pads, bias=bias, bias_bits=bits,
        shift=shift, low=done.low, high=done.high, residual=add, dilation=layer.dilation, pool=layer.pool,
        leak=done.leak,
    )
    if layer.kind == "deconv":
        return replace(common, co=out[1], pads=(*layer.pads[:2], 0, 0))
    if layer.kind in ("add", "average"):
        return replace(common, operands=len(layer.inputs))
    if layer.kind == "dense":
        lanes = whole(c, block) * h * w
        return replace(common, ci=lanes, co=out[1], h=1, w=1, oh=1, ow=1)
    assert layer.weight is not None
    cig, cog = layer.weight.shape[1], layer.weight.shape[0] // layer.group
    each = groups_together(layer.group, cig, cog, block)
    if each > 1 and cig == cog and block % cig == 0:
        return replace(common, kind="depthwise")
    return replace(common, ci=cig * each, co=cog * each, groups=layer.group // each)


def groups_together(groups: int, ci: int, co: int, block: int) -> int:
    """How many groups of channels are one of a program's: the fewest that are whole blocks, or all of them.

    Args:
        groups: of a layer.
        ci: input channels of each.
        co: output channels of each.
        block: channel lanes.
    """
    return next((n for n in range(1, groups) if not (groups % n or n * ci % block or n * co % block)), groups)


def made_of(layer: Layer, h: int, w: int) -> tuple[int, int]:
    """Height and width of what a convolution makes of an image of ``h`` x ``w``, in front of a pool."""
    ends = (n + before + after - span for n, before, after, span in zip((h, w), layer.pads[:2], layer.pads[2:], layer.span))
    down, across = (rest // step + 1 for rest, step in zip(ends, layer.stride))
    return down, across


def call_of(graph: Graph, layer: Layer, source: tuple[int, ...], batch: int, block: int) -> Call:
    """A layer as a program with its constants, packed; arguments as for ``spec_of``."""
    spec = spec_of(graph, layer, source, block)
    done = layer.requant
    if done is None:
        return Call(spec, {})
    constants: dict[str, Array] = {"weight": weight_tiles(layer, spec, source, block)}
    if spec.bias != "none":
        constants["bias"] = per_channel(done.bias, spec, batch, block)
    if spec.shift == TENSOR_SHIFT:
        constants["shift"] = per_channel(done.shift, spec, batch, block)
    return Call(spec, constants)


def workload_of(spec: Spec, name: str, batch: int, block: int) -> Workload:
    """The program of a spec as a workload, with a reference in NumPy.

    Args:
        spec: the spec.
        name: how to call it.
        batch: batch lanes.
        block: channel lanes.
    """
    return Workload(name, program(spec, batch, block), partial(compute, spec, block), spec.macs, name)


def program(spec: Spec, batch: int, block: int) -> PrimFunc:
    """The program of a spec: parameters data, weight, bias, shift (where there are such) and out."""
    rows, oc, ic = -(-spec.n // batch), -(-spec.co // block), -(-spec.ci // block)
    b = _Builder(spec, batch, block)
    lanes = [("nb", batch), ("cb", block)]
    image = [("n", rows), ("co", oc), ("y", spec.oh), ("x", spec.ow), *lanes]
    groups = [("g", spec.groups)] if spec.groups > 1 else []
    axes = [image[0], *groups, *image[1:]]
    if spec.kind in ("deconv", "resize"):
        (_, sy), (_, sx) = ("y", spec.stride[0]), ("x", spec.stride[1])
        axes = [*image[:2], ("y", spec.oh // sy), ("r", sy), ("x", spec.ow // sx), ("s", sx), *lanes]
    shape = [e for _, e in axes]
    ky, kx = ("ky", spec.kernel[0]), ("kx", spec.kernel[1])
    ib = ("ib", block)
    data_shape = [rows, *[e for _, e in groups], ic, spec.h, spec.w, batch, block]
    if spec.kind == "add":
        data_shape = [spec.operands, *data_shape]
    data = tensor("data", data_shape, "int8")
    if spec.kind == "resize":
        out = tensor("out", shape, "int8")
        again = stage(out, axes, lambda n, co, y, r, x, s, *at: data[(n, co, y, x, *at)])
        return PrimFunc((data, out), make_root(again, ()), value_ranges=(None, None))
    source = b.padded(data)
    (sy, sx), (dy, dx) = spec.stride, spec.dilation
    if spec.kind == "max":
        return b.largest(data, source, axes, [ky, kx])
    tile = [block, block]
    if spec.kind in ("conv", "dense"):
        weight = tensor("weight", [*[e for _, e in groups], oc, ic, *spec.kernel, *tile], "int8")
        k = len(groups)

        def at(*v: Expr) -> Expr:
            n, g, (co, y, x, nb, cb, ci, r, s, i) = v[0], v[1 : 1 + k], v[1 + k :]
            return _product(source[(n, *g, ci, y * sy + r * dy, x * sx + s * dx, nb, i)], weight[(*g, co, ci, r, s, cb, i)])

        reduces = [("ci", ic), ky, kx, ib]
    elif spec.kind == "deconv":
        down, across = spec.directions
        weight = tensor("weight", [oc, ic, down.taps, sy, across.taps, sx, *tile], "int8")

        def at(*v: Expr) -> Expr:
            n, co, y, r, x, s, nb, cb, ci, t, u, i = v
            row = y + r * down.step if down.step else y
            column = x + s * across.step if across.step else x
            sample = source[n, ci, row + t + down.first, column + u + across.first, nb, i]
            return _product(sample, weight[co, ci, t, r, u, s, cb, i])

        reduces = [("ci", ic), ("ky", down.taps), ("kx", across.taps), ib]
    elif spec.kind == "depthwise":
        weight = tensor("weight", [oc, *spec.kernel, *tile], "int8")

        def at(*v: Expr) -> Expr:
            n, co, y, x, nb, cb, r, s, i = v
            return _product(source[n, co, y * sy + r * dy, x * sx + s * dx, nb, i], weight[co, r, s, cb, i])

        reduces = [ky, kx, ib]
    elif spec.kind == "average":
        weight = tensor("weight", [1, *tile], "int8")

        def at(*v: Expr) -> Expr:
            n, co, y, x, nb, cb, r, s, i = v
            return _product(source[n, co, y * sy + r, x * sx + s, nb, i], weight[0, cb, i])

        reduces = [ky, kx, ib]
    else:
        weight = tensor("weight", [spec.operands, *tile], "int8")

        def at(*v: Expr) -> Expr:
            n, co, y, x, nb, cb, j, i = v
            return _product(source[j, n, co, y, x, nb, i], weight[j, cb, i])

        reduces = [("j", spec.operands), ib]
    acc = tensor("sums", shape, "int32")
    b.stmts.append(stage(acc, axes, at, reduces, IntImm(0)))
    return b.finish(data, weight, acc, axes)


def _product(x: Expr, w: Expr) -> Expr:
    return cast("int32", x) * cast("int32", w)


class _Builder:
    """Stages around the sums."""

    def __init__(self, spec: Spec, batch: int, block: int) -> None:
        self.spec, self.batch, self.block = spec, batch, block
        self.stmts: list[Stmt] = []
        self.allocs: list[Buffer] = []

    def padded(self, data: Buffer) -> Buffer:
        """The data with zeros around every image."""
        top, left, bottom, right = self.spec.zeros
        if not any(self.spec.zeros):
            return data
        h, w = self.spec.h, self.spec.w
        shape = [e.value for e in data.shape if isinstance(e, IntImm)]
        row = len(shape) - 4
        shape[row], shape[row + 1] = h + top + bottom, w + left + right
        out = tensor("pad", shape, "int8")

        def value(*at: Expr) -> Expr:
            y, x = at[row], at[row + 1]
            tests = []
            for index, before, size, after in ((y, top, h, bottom), (x, left, w, right)):
                if before:
                    tests.append(binary("<=", before, index))
                if after:
                    tests.append(binary("<", index, size + before))
            inside = (*at[:row], y - top, x - left, *at[row + 2 :])
            return if_then_else(all_of(tests), data[inside], IntImm(0, "int8"))

        names = [f"p{i}" for i in range(len(shape))]
        self.stmts.append(stage(out, list(zip(names, shape)), value))
        self.allocs.append(out)
        return out

    def largest(self, data: Buffer, source: Buffer, axes: list[tuple[str, int]], window: list[tuple[str, int]]) -> PrimFunc:
        """The largest element of every window, and narrowing."""
        most, out = self.windows(source, axes, window, self.spec.stride), tensor("out", [e for _, e in axes], "int8")
        self.stmts.append(stage(out, axes, lambda *at: cast("int8", most[at])))
        return PrimFunc((data, out), make_root(seq(*self.stmts), (*self.allocs, most)), value_ranges=(None, None))

    def windows(
        self, source: Buffer, axes: list[tuple[str, int]], window: list[tuple[str, int]], stride: tuple[int, int]
    ) -> Buffer:
        """The largest element of every window of a tensor."""
        most, (sy, sx), row = tensor("most", [e for _, e in axes], "int32"), stride, len(axes) - 4

        def sample(*v: Expr) -> Expr:
            *at, r, s = v
            return cast("int32", source[(*at[:row], at[row] * sy + r, at[row + 1] * sx + s, *at[row + 2 :])])

        self.stmts.append(reduction(most, axes, sample, window, IntImm(self.spec.low), maximum))
        return most

    def pooled(self, done: Buffer, axes: list[tuple[str, int]], pool: Pool) -> tuple[Buffer, list[tuple[str, int]]]:
        """The largest element of every window of what a sum has become, as it would be in memory; and its axes."""
        inner, row = tensor("inner", [e for _, e in axes], "int8"), len(axes) - 4
        self.stmts.append(stage(inner, axes, lambda *at: cast("int8", done[at])))
        self.allocs += [done, inner]
        (y, h), (x, w) = axes[row : row + 2]
        h, w = pool.pooled(h, w)
        made = [*axes[:row], (y, h), (x, w), *axes[row + 2 :]]
        return self.windows(inner, made, [("ky", pool.kernel[0]), ("kx", pool.kernel[1])], pool.stride), made

    def finish(self, data: Buffer, weight: Buffer, acc: Buffer, axes: list[tuple[str, int]]) -> PrimFunc:
        """Bias, shift, clip and narrowing."""
        spec = self.spec
        shape = [e for _, e in axes]
        channel = 2 if spec.groups > 1 else 1
        pixel = [1] * (len(shape) - channel - 3)
        where = shape[channel + 1 : -2] if spec.bias == "place" else pixel
        one = [1] * channel + [1 if spec.bias == "one" else shape[channel], *where, self.batch, self.block]
        every = [1] * channel + [shape[channel], *pixel, self.batch, self.block]
        if channel == 2:
            one[1] = every[1] = shape[1]
        bias = tensor("bias", one, "int32") if spec.bias != "none" else None
        shift = tensor("shift", every, "int32") if spec.shift == TENSOR_SHIFT else None

        def place(buffer: Buffer, at: tuple[Expr, ...]) -> Expr:
            return buffer[tuple([IntImm(0) if isinstance(e, IntImm) and e.value == 1 and i < len(at) - 2 else v
                                 for i, (e, v) in enumerate(zip(buffer.shape, at))])]

        def value(*at: Expr) -> Expr:
            sums: Expr = acc[at]
            if bias is not None:
                sums = sums + place(bias, at)
            if spec.leak is not None:
                leak = spec.leak
                below = sums * leak.times if leak.times > 1 else sums
                below = (below + leak.offset if leak.offset else below) >> (spec.shift + leak.shift)
                sums = maximum(sums >> spec.shift if spec.shift else sums, below)
            elif shift is not None:
                sums = sums >> place(shift, at)
            elif spec.shift:
                sums = sums >> spec.shift
            return minimum(maximum(sums, spec.low), spec.high)

        done, out = tensor("requant", shape, "int32"), tensor("out", shape, "int8")
        self.stmts.append(stage(done, axes, value))
        last, res = done, None
        add = spec.residual
        if add is not None:
            last, res = tensor("total", shape, "int32"), tensor("res", shape, "int8")
            other = res

            def total(*at: Expr) -> Expr:
                # Plain where a shift is by 0: then the machine has nothing to do.
                own: Expr = done[at] << add.own if add.own else done[at]
                more = cast("int32", other[at])
                sums: Expr = own + (more * (1 << add.factor) if add.factor else more)
                sums = sums + add.bias if add.bias else sums
                return minimum(maximum(sums >> add.shift if add.shift else sums, add.low), add.high)

            self.stmts.append(stage(last, axes, total))
            self.allocs.append(done)
        if spec.pool is not None:
            last, axes = self.pooled(done, axes, spec.pool)
            out = tensor("out", [e for _, e in axes], "int8")
        self.stmts.append(stage(out, axes, lambda *at: cast("int8", last[at])))
        params = tuple([p for p in (data, weight, bias, shift, res, out) if p is not None])
        limit = (1 << spec.bias_bits) - (1 if spec.bias_bits == 31 else 0)
        of: dict[Buffer | None, tuple[int, int]] = {bias: (-limit, limit), shift: SHIFTS}
        if add is not None and add.least > -128:
            of[res] = add.least, 127
        ranges = tuple([of.get(p) for p in params])
        return PrimFunc(params, make_root(seq(*self.stmts), (*self.allocs, acc, last)), value_ranges=ranges)


def _by_taps(spec: Spec, x: Array, w: Array) -> Array:
    """Sums of products over windows, tap by tap: all windows at once are larger than the image by the taps."""
    (down, across), spans = spec.stride, spanned(spec.kernel, spec.dilation)
    rows, columns = ((x.shape[3 + d] - spans[d]) // spec.stride[d] + 1 for d in (0, 1))
    total: Array | None = None
    for r, s in np.ndindex(*spec.kernel):
        top, left = r * spec.dilation[0], s * spec.dilation[1]
        part = x[:, :, :, top : top + (rows - 1) * down + 1 : down, left : left + (columns - 1) * across + 1 : across]
        if spec.kind in ("conv", "dense"):
            made = np.stack([
                np.tensordot(part[:, g], w[g][:, :, r, s], axes=([1, 5], [1, 3])) for g in range(spec.groups)
            ], axis=1).transpose(0, 1, 5, 2, 3, 4, 6)  # from n, g, y, x, nb, co, cb
        elif spec.kind == "depthwise":
            made = np.einsum("ngcyxbi,coi->ngcyxbo", part, w[:, r, s])
        else:
            made = np.einsum("ngcyxbi,oi->ngcyxbo", part, w[0])
        total = made if total is None else total + made
    assert total is not None
    return total


def compute(spec: Spec, block: int, data: Array, *constants: Array) -> Array:
    """What the program of a spec computes, on packed NumPy arrays; the sums in float64, where they are exact."""
    top, left, bottom, right = spec.zeros
    x = data if spec.groups > 1 else np.expand_dims(data, -6)
    # [.., n, g, ci, h, w, nb, ib] from here on; an add has its operands in front.
    x = np.pad(x, [(0, 0)] * (x.ndim - 4) + [(top, bottom), (left, right), (0, 0), (0, 0)])
    if spec.kind == "max":
        windows = np.lib.stride_tricks.sliding_window_view(x[:, 0], spec.kernel, axis=(2, 3))
        largest: Array = windows[:, :, :: spec.stride[0], :: spec.stride[1]].max(axis=(-2, -1))
        return largest
    if spec.kind == "resize":
        small, (rows, columns) = x[:, 0, :, :, None, :, None], spec.stride
        many: Array = np.broadcast_to(small, (*small.shape[:3], rows, spec.w, columns, *small.shape[-2:]))
        return many
    weight, *rest = constants
    x = x.astype(np.float64)
    w = weight.astype(np.float64)
    if spec.kind == "add":
        sums = np.einsum("jngcyxbi,joi->ngcyxbo", x, w)
    elif spec.kind == "deconv":
        down, across = spec.directions
        sums = classes(x[:, 0], w, down, across, spec.oh // down.stride, spec.ow // across.stride)[:, None]
    else:
        sums = _by_taps(spec, x, w if spec.groups > 1 or spec.kind not in ("conv", "dense") else w[None])
    total = np.rint(sums).astype(np.int64)
    total = total if spec.groups > 1 else total[:, 0]
    given = list(rest)
    if spec.bias != "none":
        total = total + given.pop(0)
    if spec.leak is not None:
        total = spec.leak.of(total, spec.shift)
    else:
        total = total >> (given.pop(0).astype(np.int64) if spec.shift == TENSOR_SHIFT else spec.shift)
    clipped: Array = np.clip(total, spec.low, spec.high)
    add = spec.residual
    if add is not None:
        joint = (clipped << add.own) + (given.pop(0).astype(np.int64) << add.factor) + add.bias
        clipped = np.clip(joint >> add.shift, add.low, add.high)
    if spec.pool is not None:
        windows = np.lib.stride_tricks.sliding_window_view(clipped, spec.pool.kernel, axis=(-4, -3))
        clipped = windows[..., :: spec.pool.stride[0], :: spec.pool.stride[1], :, :, :, :].max(axis=(-2, -1))
    return clipped.astype(np.int8)

