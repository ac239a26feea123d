"""ResNet-18 for 224 x 224 images, whole: its file by the script of the examples, its bytes by onnxruntime."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from autosched.networks import CompiledNetwork, load, reference
from autosched.networks.quantize import quantize
from sim.races import check_races

ROOT = Path(__file__).resolve().parents[2]
CONVOLUTIONS = 20

pytest.importorskip("onnxruntime")


@pytest.mark.slow
def test_resnet18_is_one_stream_with_the_bytes_of_onnxruntime(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "examples" / "resnet18_network.py", tmp_path], check=True)
    images = np.load(tmp_path / "resnet18_images.npz")["image"]
    report = quantize(tmp_path / "resnet18.onnx", {"image": images}, tmp_path / "q.onnx")
    assert all(f.inside >= 0.3 for f in report.layers), report.layers
    net = load(tmp_path / "q.onnx")
    assert [n.op for p in net.graph.host_parts for n in p.nodes] == ["QuantizeLinear", "DequantizeLinear", "Softmax"]
    assert len([x for x in net.graph.layers if x.kind == "conv"]) == CONVOLUTIONS
    want = np.concatenate([reference.run(net.graph, {"image": x[None]})["classes"] for x in images[:2]])
    for fuse in (False, True):
        ready = net.compile(tmp_path, fuse=fuse)
        assert len(ready.streams) == 1 and check_races(ready.streams[0].program) == []
        begun = time.process_time()
        assert ready(images[:2]).tobytes() == want.tobytes()
        print(f"{(time.process_time() - begun) / 2:.1f} CPU s an image")  # shown, never judged
    ready.save(tmp_path / "net.zip")
    assert CompiledNetwork.load(tmp_path / "net.zip")(images[:1]).tobytes() == want[:1].tobytes()
