"""Ranges on calibration images, where histograms have something to say and where not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from written_networks import RNG, Net, expected, f32

from autosched.cli import main
from autosched.errors import ProgramError
from autosched.networks import load
from autosched.networks.quantize import quantize


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
@pytest.mark.parametrize("sign", [1, -1])
def test_values_that_hardly_differ_have_a_range(method: str, sign: int, tmp_path: Path) -> None:
    n = Net()
    level = n.op("Add", n.op("Mul", "i", f32(n, 1e-7)), f32(n, sign))
    both = n.op("Mul", level, n.op("Sign", "i"))
    parts = [n.op("Conv", x, n.fixed(RNG.standard_normal((8, 8, 1, 1)).astype(np.float32))) for x in ("i", level, both)]
    path = n.save(tmp_path / "f.onnx", {"i": (np.float32, (1, 8, 4, 4))}, parts)
    images = RNG.choice(np.float32([-1, -0.5, 0.5, 1]), (8, 8, 4, 4))
    report = quantize(path, {"i": images}, tmp_path / "q.onnx", method=method)
    assert {level, both} < {f.tensor for f in report.layers}
    for a, b in zip(expected(path, images[:1]), expected(tmp_path / "q.onnx", images[:1])):
        assert np.abs(a - b).max() < 0.1 * np.abs(a).max()


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize(("size", "weight"), [(2e9, 1e-9), (1e-12, 1e-3), (1e7, 1e4), (1e19, 1e-15), (1, 1e-16)])
def test_numbers_of_any_size_have_a_scale(size: float, weight: float, per_channel: bool, tmp_path: Path) -> None:
    n = Net()
    first = n.op("Conv", "i", n.fixed((weight * RNG.standard_normal((8, 8, 3, 3))).astype(np.float32)))
    y = n.op("Add", first, n.op("Conv", first, n.fixed(RNG.standard_normal((8, 8, 1, 1)).astype(np.float32))))
    path = n.save(tmp_path / "f.onnx", {"i": (np.float32, (1, 8, 4, 4))}, [y])
    report = quantize(path, {"i": (size * RNG.standard_normal((8, 8, 4, 4))).astype(np.float32)}, tmp_path / "q.onnx",
                      per_channel=per_channel)
    assert min(f.snr for f in report.layers) > 20, report.layers
    assert len(load(tmp_path / "q.onnx").graph.layers) == 3


@pytest.mark.parametrize("method", ["minmax", "percentile", "entropy"])
def test_an_input_that_nobody_reads_has_no_scale(method: str, tmp_path: Path) -> None:
    """It takes any values, as it did; one that is read takes those that it was calibrated with."""
    n = Net()
    out = n.op("Conv", "i", n.fixed(RNG.standard_normal((8, 8, 1, 1)).astype(np.float32)))
    shape = (1, 8, 4, 4)
    path = n.save(tmp_path / "f.onnx", {"i": (np.float32, shape), "unused": (np.float32, shape)}, [out])
    large = (1000 * RNG.standard_normal((4, *shape[1:]))).astype(np.float32)
    quantize(path, {"i": large / 1000, "unused": large}, tmp_path / "q.onnx", method=method)
    ready = load(tmp_path / "q.onnx").compile(tmp_path)
    assert ready(i=large[:1] / 1000, unused=large[:1]).shape == shape
    with pytest.raises(ProgramError, match=r"^i: \d+ % of it is outside of"):
        ready(i=large[:1], unused=large[:1])


@pytest.mark.parametrize(("count", "used"), [(8, 8), (7, 4), (4, 4), (3, 0), (0, 0)])
def test_images_that_fill_no_batch_are_named(
    count: int, used: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    n = Net()
    out = n.op("Flatten", n.op("Conv", "i", n.fixed(RNG.standard_normal((8, 8, 4, 4)).astype(np.float32))))
    path = n.save(tmp_path / "f.onnx", {"i": (np.float32, (4, 8, 4, 4))}, [out])
    np.savez(tmp_path / "d.npz", i=RNG.standard_normal((count, 8, 4, 4)).astype(np.float32), labels=np.zeros(count, np.int64))
    code = main(["quantize", str(path), "--calibrate", str(tmp_path / "d.npz"), "-o", str(tmp_path / "q.onnx")])
    said = capsys.readouterr()
    if used:
        left = f"the last {count - used} of the calibration images are left out: they do not fill the network's batch"
        assert code == 0 and f": {used} images compared\n" in said.out
        assert [line for line in said.out.splitlines() if "left out" in line] == ([left] if used < count else [])
    else:
        lacks = "'i': 3 images, and the network takes 4 at once" if count else "the calibration data holds no image"
        assert code == 2 and lacks in said.err and said.err.count("\n") == 1
