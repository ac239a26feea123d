"""Names of workloads, their programs, references and layouts."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from autosched.errors import NotSupportedError, ProgramError, UnknownNameError
from autosched.ir import interp, structural_equal
from autosched.ir.functor import walk
from autosched.ir.stmt import Block, PrimFunc
from autosched.workloads import Layout, names, network, networks, workload

# Multiply-accumulates of ResNet-18's layers, as the literature counts them.
MACS = {
    "c2": 115605504,
    "c3": 57802752,
    "c4": 6422528,
    "c5": 115605504,
    "c6": 57802752,
    "c7": 6422528,
    "c8": 115605504,
    "c9": 57802752,
    "c10": 6422528,
    "c11": 115605504,
}

SMALL = [
    "t1",
    "t2",
    "t3",
    "dense:m=3,k=40,n=17",
    "dense:m=2,k=16,n=32,bias=1",
    "dense:m=2,k=16,n=32,bias=1,tail=cast",
    "conv2d:h=5,w=6,ci=16,co=32,k=3,pad=1",
    "conv2d:h=5,w=6,ci=20,co=17,k=3,pad=2,stride=2,tail=cast",
    "conv2d:n=2,h=4,w=4,ci=32,co=16,k=1,bias=0,tail=cast",
    "conv2d:h=7,w=5,ci=16,co=16,k=2,stride=3",
    "add:m=2,n=33",
    "conv2d:h=5,w=6,ci=32,co=32,k=3,pad=1,groups=2",
    "conv2d:h=5,w=6,ci=12,co=8,k=3,pad=1,groups=4,stride=2",
    "conv2d:n=2,h=5,w=5,ci=64,co=128,k=1,groups=2,tail=cast",
    "conv2d:h=5,w=6,ci=20,co=20,k=3,pad=1,groups=20,bias=0",
    "conv2d_transpose:h=4,w=5,ci=20,co=16,k=4,stride=2,pad=1",
    "conv2d_transpose:h=4,w=5,ci=16,co=20,k=3,stride=2,pad=1,opad=1,bias=1",
    "conv2d_transpose:n=2,h=4,w=4,ci=16,co=16,k=5,stride=2,pad=2,tail=cast",
    "conv2d_transpose:h=3,w=3,ci=16,co=16,k=3,stride=3",
    "conv2d_transpose:h=4,w=4,ci=16,co=16,k=3,pad=1",
    "max_pool2d:h=7,w=8,c=20,k=3,stride=2,pad=1",
    "avg_pool2d:n=2,h=8,w=8,c=16,k=2,stride=2",
    "avg_pool2d:h=8,w=8,c=40,k=8",
    "avg_pool2d:h=7,w=7,c=40,k=7",
    "avg_pool2d:h=5,w=6,c=16,k=3,pad=1",
    "residual:h=3,w=3,c=20",
    "residual:h=3,w=3,c=20,relu=0",
]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(("batch", "block"), [(1, 16), (2, 8)])
def test_program_equals_its_reference(name, batch, block) -> None:
    w = workload(name, batch, block)
    inputs = w.inputs(3)
    np.testing.assert_array_equal(interp.run(w.func, *inputs)["out"], w.reference(*inputs))


def slow_conv(x, w, stride, pad):
    x = np.pad(x.astype(np.int64), [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    n, _, h, wd = x.shape
    co, _, k, _ = w.shape
    out = np.zeros((n, co, (h - k) // stride + 1, (wd - k) // stride + 1), np.int64)
    for b, o, i, j in np.ndindex(*out.shape):
        out[b, o, i, j] = (x[b, :, i * stride : i * stride + k, j * stride : j * stride + k] * w[o]).sum()
    return out


@pytest.mark.parametrize(("stride", "pad"), [(1, 0), (1, 1), (2, 1), (3, 2)])
def test_reference_is_a_convolution_of_plain_tensors(stride, pad) -> None:
    rng = np.random.default_rng(7)
    x, k = rng.integers(-128, 128, (1, 20, 6, 5), dtype=np.int8), rng.integers(-128, 128, (18, 20, 3, 3), dtype=np.int8)
    bias = rng.integers(-(1 << 14), 1 << 14, 18).astype(np.int32)
    w = workload(f"conv2d:h=6,w=5,ci=20,co=18,k=3,stride={stride},pad={pad}")
    packed = [layout.pack(a) for layout, a in zip(w.layouts, (x, k, bias))]
    got = w.layouts[-1].unpack(w.reference(*packed))
    want = np.clip((slow_conv(x, k, stride, pad) >> 8) + bias.reshape(1, -1, 1, 1), 0, 127)
    np.testing.assert_array_equal(got, want)


def test_a_reference_holds_no_more_than_a_few_images() -> None:
    """Not one for every tap, of which 7 x 7 have 49: large images took gigabytes."""
    work = workload("conv2d:h=64,w=64,ci=16,co=16,k=7,stride=1,pad=3,bias=0")
    inputs = work.inputs(0)
    image = 64 * 64 * 16 * np.dtype(np.float64).itemsize
    tracemalloc.start()
    try:
        work.results(*inputs)
        assert tracemalloc.get_traced_memory()[1] < 8 * image
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("groups", [2, 4, 20])
def test_groups_of_plain_tensors(groups: int) -> None:
    rng = np.random.default_rng(7)
    x, k = rng.integers(-128, 128, (1, 20, 6, 5), dtype=np.int8), rng.integers(-128, 128, (20, 20 // groups, 3, 3), dtype=np.int8)
    w = workload(f"conv2d:h=6,w=5,ci=20,co=20,k=3,pad=1,groups={groups},bias=0,tail=cast")
    plain = k[:, 0] if groups == 20 else k
    got = w.layouts[-1].unpack(w.reference(*[layout.pack(a) for layout, a in zip(w.layouts, (x, plain))]))
    size = 20 // groups
    want = np.concatenate([
        slow_conv(x[:, g * size : (g + 1) * size], k[g * size : (g + 1) * size], 1, 1) for g in range(groups)
    ], axis=1)
    np.testing.assert_array_equal(got, want.astype(np.int8))


@pytest.mark.parametrize(("k", "stride", "pad", "opad"), [(4, 2, 1, 0), (3, 2, 1, 1), (2, 2, 0, 0), (3, 1, 1, 0), (4, 4, 0, 1)])
def test_a_transposed_convolution_of_plain_tensors(k: int, stride: int, pad: int, opad: int) -> None:
    rng = np.random.default_rng(k)
    x, kernel = rng.integers(-9, 9, (1, 20, 3, 4), dtype=np.int8), rng.integers(-9, 9, (20, 6, k, k), dtype=np.int8)
    w = workload(f"conv2d_transpose:h=3,w=4,ci=20,co=6,k={k},stride={stride},pad={pad},opad={opad},tail=cast")
    full = np.zeros((1, 6, 2 * stride + k + opad, 3 * stride + k + opad), np.int64)
    for i, j in np.ndindex(3, 4):
        part = np.einsum("c,coyx->oyx", x[0, :, i, j].astype(np.int64), kernel)
        full[0, :, i * stride : i * stride + k, j * stride : j * stride + k] += part
    want = full[:, :, pad : full.shape[2] - pad, pad : full.shape[3] - pad].astype(np.int8)
    packed = [layout.pack(a) for layout, a in zip(w.layouts, (x, kernel))]
    got = w.layouts[-1].unpack(interp.run(w.func, *packed)[0])
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def test_a_result_by_classes_lies_as_the_packed_one() -> None:
    by_class = workload("dcgan.ct1").layouts[-1]
    plain = Layout("NCHW", "NCHWnc", by_class.shape, (("N", 1), ("C", 16)))
    x = np.random.default_rng(0).integers(-128, 128, by_class.shape, dtype=np.int8)
    assert by_class.pack(x).tobytes() == plain.pack(x).tobytes()
    # A quarter of the products that a convolution over inserted zeros makes.
    assert workload("dcgan.ct1").macs * 4 == 8 * 8 * 16 * 1024 * 512


def test_the_other_networks() -> None:
    assert [times for _, times in network("resnet34").tasks] == [6, 1, 1, 7, 1, 1, 11, 1, 1, 5]
    work = {w.name: w.macs for w, _ in network("mobilenet").tasks}
    assert [round(work[f"mobilenet.d{n}"] / 1e6, 1) for n in range(1, 10)] == [57.8, 28.9, 57.8, 14.5, 28.9, 7.2, 14.5, 3.6, 7.2]
    assert [w.macs for w, _ in network("dcgan").tasks] == [134217728] * 3
    assert workload("resnet18.c1").macs == 118013952
    for block in (16, 32):
        for name in ("mobilenet.d9", "dcgan.ct3", "resnet18.c11"):
            assert workload(name, 1, block).func.buffers[0].shape[-1].value == block


def test_resnet18_has_the_ten_layers_with_their_work_and_multiplicity() -> None:
    net = network("resnet18")
    assert {w.name.split(".")[1]: w.macs for w, _ in net.tasks} == MACS
    assert [times for _, times in net.tasks] == [4, 1, 1, 3, 1, 1, 3, 1, 1, 3]
    assert sum(w.macs * t for w, t in net.tasks) // 256 == 6623232
    assert network("t3").tasks[0][1] == 1
    assert "resnet18" in networks()
    assert {"t1", "t2", "t3", "t4", "resnet18.c2", "resnet18.c11"} <= set(names())


def blocks(func: PrimFunc) -> list[str]:
    return [s.name for s in walk(func.body) if isinstance(s, Block)]


def test_packed_shapes_and_blocks() -> None:
    w = workload("resnet18.c3")
    shapes = [tuple(e.value for e in b.shape) for b in w.func.params]
    assert shapes == [(1, 4, 56, 56, 1, 16), (8, 4, 3, 3, 16, 16), (1, 8, 1, 1, 1, 16), (1, 8, 28, 28, 1, 16)]
    assert blocks(w.func) == ["root", "pad", "conv", "requant", "out"]
    assert blocks(workload("resnet18.c4").func) == ["root", "conv", "requant", "out"]
    assert blocks(workload("t2").func) == ["root", "dense", "out"]
    assert w.func.value_ranges == (None, None, (-16384, 16384), None)
    x, k, bias = w.inputs(0)
    assert (x.min(), x.max(), k.min(), k.max()) == (-128, 127, -128, 127)
    assert abs(bias).max() <= 16384
    np.testing.assert_array_equal(x, w.inputs(0)[0])
    assert (x != w.inputs(1)[0]).any()


def test_a_name_and_its_spelling_are_one_program() -> None:
    assert workload("t3").key == workload("dense:m=1,k=1024,n=1024").key
    assert workload("t3").key == workload(" dense:n=1024, m=1, k=1024,bias=0 ").key
    assert workload("t3").key != workload("t3", block=8).key
    assert structural_equal(workload("t4").func, workload("conv2d:h=14,w=14,ci=256,co=256,k=3,pad=1,bias=0").func)
    assert workload(workload("resnet18.c5").spec).key == workload("resnet18.c5").key


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("resnet18.c12", UnknownNameError, "did you mean 'resnet18.c"),
        ("t9", UnknownNameError, "unknown workload 't9'"),
        ("dense", UnknownNameError, "did you mean 'dense:'"),
        ("my/kernels.py", ProgramError, "my/kernels.py: say which of its programs, as in my/kernels.py:main"),
        ("dens:m=1,k=2,n=3", UnknownNameError, "unknown operator 'dens'; did you mean 'dense'"),
        ("dense:m=1,kk=2,n=3", UnknownNameError, "unknown parameter of dense 'kk'; did you mean 'k'"),
        ("conv2d:h=3,w=3,ci=1,co=1,k=1,strid=2", UnknownNameError, "did you mean 'stride'"),
        ("dense:m=1,k=2", ProgramError, "n missing"),
        ("dense:m=0,k=2,n=3", ProgramError, "m must be an integer from 1"),
        ("dense:m=1.5,k=2,n=3", ProgramError, "m must be an integer"),
        ("dense:m=1,k=2,n=3,bias=2", ProgramError, "bias must be an integer from 0 to 1"),
        ("dense:m=1,m=2,k=2,n=3", ProgramError, "m is given twice"),
        ("dense:m=1,k=2,n", ProgramError, "n has no value"),
        ("dense:m=1,k=2,n=3,tail=requantize", ProgramError, "did you mean 'requant'"),
        ("conv2d:h=2,w=2,ci=16,co=16,k=5", ProgramError, "larger than the padded input"),
        ("conv2d:h=8,w=8,ci=32,co=32,k=3,groups=3", ProgramError, "groups=3 does not divide"),
        ("conv2d:h=8,w=8,ci=32,co=64,k=3,groups=32", NotSupportedError, "one channel with 2 results each"),
        ("conv2d_transpose:h=4,w=4,ci=16,co=16,k=4,stride=3,pad=1", NotSupportedError, "stride=3 with pad=1"),
        ("conv2d_transpose:h=1,w=1,ci=16,co=16,k=2,pad=1", ProgramError, "leaves nothing"),
        ("conv2d_transpose:h=4,w=4,ci=16,co=16,k=4,stride=2,pad=1,opad=2", ProgramError, "opad=2 is not below"),
        ("avg_pool2d:h=200,w=200,c=16,k=181", ProgramError, "more than 32512 elements"),
        ("max_pool2d:h=2,w=2,c=16,k=3", ProgramError, "larger than the padded input"),
        ("max_pool2d:h=8,w=8,c=16,k=2,pad=2", ProgramError, "pad=2 is not below"),
        ("mobilenet.d10", UnknownNameError, "did you mean 'mobilenet.d"),
        ("resnet18", ProgramError, "network of 10"),
        ("nowhere/missing.py:f", ProgramError, "no file"),
    ],
)
def test_bad_names_get_one_line(name, error, message) -> None:
    with pytest.raises(error, match=message) as caught:
        workload(name)
    assert "\n" not in str(caught.value)


USER = """
from autosched.ir.expr import IntImm, Var
from autosched.ir.stmt import Buffer, BufferStore, For, PrimFunc, make_root

def double():
    a, b, i = Buffer("a", (IntImm(4),), "int32"), Buffer("b", (IntImm(4),), "int32"), Var("i")
    body = For(i, IntImm(0), IntImm(4), "serial", BufferStore(b, (i,), a[i] * 2))
    return PrimFunc((a, b), make_root(body), name="double")

ready = double()
number = 3

def wrong():
    return "text"
"""


def test_user_files(tmp_path) -> None:
    file = tmp_path / "kernels.py"
    file.write_text(USER)
    for attribute in ("double", "ready"):
        w = workload(f"{file}:{attribute}")
        x = np.arange(4, dtype="int32")
        np.testing.assert_array_equal(w.reference(x), x * 2)
        assert w.key == workload(f"{file}:ready").key
    with pytest.raises(UnknownNameError, match="did you mean 'double'"):
        workload(f"{file}:duble")
    with pytest.raises(ProgramError, match=r"expected a PrimFunc .* got str"):
        workload(f"{file}:wrong")
    with pytest.raises(ProgramError, match="got int"):
        workload(f"{file}:number")
    file.write_text("def broken(:\n")
    with pytest.raises(ProgramError, match=r"kernels.py:1: SyntaxError"):
        workload(f"{file}:broken")


def test_layout_round_trip_and_refusal() -> None:
    layout = Layout("NCHW", "NCHWnc", (3, 20, 4, 5), (("N", 2), ("C", 16)))
    assert layout.packed_shape == (2, 2, 4, 5, 2, 16)
    x = np.random.default_rng(0).integers(-9, 9, (3, 20, 4, 5), dtype=np.int8)
    packed = layout.pack(x)
    np.testing.assert_array_equal(layout.unpack(packed), x)
    assert packed[1, 1, 2, 3, 0, 1] == x[2, 17, 2, 3]
    assert not packed[1, :, :, :, 1].any()
    assert layout.accept("x", x)[1] is False
    assert layout.accept("x", packed)[1] is True
    with pytest.raises(ProgramError, match=r"x: expected shape .*got \(3, 21, 4, 5\)"):
        layout.accept("x", np.zeros((3, 21, 4, 5), np.int8))
    bias = Layout("C", "1C11nc", (20,), (("N", 2), ("C", 16)))
    packed = bias.pack(np.arange(20))
    assert packed.shape == (1, 2, 1, 1, 2, 16)
    np.testing.assert_array_equal(packed[0, 1, 0, 0, 1, :4], [16, 17, 18, 19])
    np.testing.assert_array_equal(bias.unpack(packed), np.arange(20))
