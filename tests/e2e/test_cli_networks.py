"""The commands that take a network from a file."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from written_networks import Net

from autosched.networks import load

# Checks that are not in this process have tests of their own.
pytestmark = pytest.mark.usefixtures("unguarded")
ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"

pytest.importorskip("onnxruntime")


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def autosched(here: Command) -> Command:
    """The command in this process, with the exit code that is expected."""

    def run(*words: object, code: int = 0, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        done = here(*words, cwd=cwd)
        assert done.returncode == code, done.stdout + done.stderr
        return done

    return run


def outcome(autosched: Command, *words: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """What ``tune`` says at its end of the digits network: the report and the summary."""
    done = autosched("tune", EXAMPLES / "digits_q.onnx", *words, "--format", "json")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [e["event"] for e in events[:2]] == ["run", "task"] and [e["event"] for e in events[-2:]] == ["finished", "summary"]
    assert len([e for e in events if e["event"] == "task_finished"]) == len(events[0]["tasks"])
    return events[-2], events[-1]


def _show_layers(
    autosched: Command, net: Path, log: Path, folder: Path, run: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tuned network's layers have names: in ``best``, ``show`` and the report."""
    from autosched.report import page

    names = [t.workload.name for t in load(net).tasks]
    shown = autosched("best", net, "--log", log).stdout
    assert all(n in shown for n in names) and "total" not in shown
    assert shown.endswith("\n\nlayers alike:\n  digits_q.stem x3: stem, a1, a2\n") and "digits_q.stem x3  " in shown
    layers = {b["workload"]: b["layers"] for b in json.loads(autosched("best", net, "--log", log, "--format", "json").stdout)}
    assert layers["digits_q.stem"] == ["stem", "a1", "a2"] and layers["digits_q.b1"] == ["b1"]
    assert "alike" not in autosched("best", "digits_q.stem", "--log", log).stdout
    assert "COMPUTE |" in autosched("show", "digits_q.b1", "--log", log, "--as", "gantt").stdout
    for words, said in (((net,), f"is a network, not one workload; name one of its layers: {', '.join(sorted(names))}"),
                        (("digits_q.b7",), "unknown workload 'digits_q.b7'; did you mean 'digits_q.b")):
        assert said in autosched("explain", *words, "--log", log, code=2).stderr, words
    assert "none of its layers is logged; run: autosched tune" in autosched("show", net, code=2, cwd=folder).stderr
    # What the page says of one workload is tested with one.
    monkeypatch.setattr(page, "_section", lambda task, n, *_: page.Section(task, n, None, ""))
    autosched("report", net, "--log", log, "-o", folder / "r.html", "--jobs", 1)
    text = (folder / "r.html").read_text()
    for layer in run["layers"]:
        assert f"<td>{layer['name']}</td><td>{layer['kind']}</td>" in text, layer
    assert "<title>digits_q on vta-de10</title>" in text and "QuantizeLinear" in text and "together" not in text


def _open_extents(autosched: Command, log: Path, folder: Path) -> None:
    """A file that leaves an extent open is listed and exported with what is given for it."""
    import onnx

    model = onnx.load(EXAMPLES / "digits_q.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "height"
    onnx.save(model, folder / "digits_q.onnx")
    net, shape = folder / "digits_q.onnx", ("--shape", "image=1,1,8,8")
    for words in (("best", net, "--log", log), ("export", net, "--log", log, "-o", folder / "o.json")):
        assert "--shape image=" in autosched(*words, code=2).stderr
        assert not (folder / "o.json").exists()
        assert "digits_q" in autosched(*words, *shape, "--rounding", "half-up").stdout
    (folder / "o.json").unlink()
    # The command that would find what is not there says the same words.
    said = autosched("best", net, *shape, "--rounding", "floor", "--log", folder, code=3).stderr
    assert said.endswith(f"autosched tune {net} --log {folder} --rounding floor --shape image=1,1,8,8\n")


def test_tune_run_export_and_sim(tmp_path: Path, autosched: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    net = EXAMPLES / "digits_q.onnx"
    log = tmp_path / "log"
    tuned, summary = outcome(autosched, "--trials", 1, "--jobs", 1, "--sampler", "random", "--log", log)
    assert sum(t["simulated"] for t in tuned["tasks"]) == len(tuned["tasks"])
    assert all(t["verified"] for t in tuned["tasks"])
    # Sums stand beside what they may join: what all tasks need together is nothing's.
    assert tuned["cycles"] is None
    assert {t["workload"]: t["layers"] for t in tuned["tasks"]}["digits_q.stem"] == ["stem", "a1", "a2"]
    again = autosched("tune", net, "--trials", 1, "--jobs", 1, "--sampler", "random", "--log", log, "--quiet").stdout
    assert "digits_q.stem x3 " in again and "\nlayers alike:\n  digits_q.stem x3: stem, a1, a2\n\n" in again
    run = json.loads(autosched(
        "run", net, "--input", EXAMPLES / "digits_test.npz", "--check", "--log", log, "--save", tmp_path / "d.zip", "-o",
        tmp_path / "y.npy", "--format", "json",
    ).stdout)
    assert run["bytes_different"] == 0 and run["bytes_compared"] == 400 * 40
    assert run["accuracy"] > 0.98 and run["untuned"] == [] and run["share"] == 1.0
    assert run["bound"] <= run["cycles"] < run["alone"] <= run["apart"]
    # A residual sum joins its convolution where their schedule in one is the faster one.
    cycles = {n: t["cycles"] for task, t in zip(load(net).tasks, tuned["tasks"]) for n in task.layers}
    pairs = [n for n in cycles if " + " in n]
    made = {x["name"] for x in run["layers"]}
    assert len(pairs) == 2
    assert all((n in made) == (cycles[n] < sum(cycles[part] for part in n.split(" + "))) for n in pairs), cycles
    # The host gathers the windows of what it hands over where that is faster, says so, and leaves it where that is asked for.
    stems = sorted((n for n in cycles if n.split(" by ")[0] == "stem"), key=lambda n: cycles[n])
    assert len(stems) == 3 and stems[0] == "stem by patches" and made.isdisjoint(stems[1:]) and stems[0] in made
    assert [w["what"] for w in run["host_work"]] == ["onnxruntime", "gather", "pack", "unpack", "onnxruntime"]
    assert {x.name for x in load(net).compile(log, gather=False).streams[0].layers} & set(stems) == {"stem"}
    assert run["cycles"] == sum(x["cycles"] for x in run["layers"]) == summary["cycles"]
    y = np.load(tmp_path / "y.npy")
    assert y.shape == (400, 10)
    autosched("run", tmp_path / "d.zip", "--input", EXAMPLES / "digits_test.npz", "-o", tmp_path / "z.npy")
    assert np.load(tmp_path / "z.npy").tobytes() == y.tobytes()
    _show_layers(autosched, net, log, tmp_path, run, monkeypatch)
    _open_extents(autosched, log, tmp_path)
    autosched("export", net, "-o", tmp_path / "p.json", "--log", log)
    shown = autosched("sim", tmp_path / "p.json", "--check")
    assert "match" in shown.stdout
    found = json.loads(autosched("sim", tmp_path / "p.json", "--format", "json").stdout)
    assert [(p["cycles"], p["outputs_match"]) for p in found] == [(run["cycles"], True)]


def test_a_network_that_is_not_tuned_says_how(tmp_path: Path, autosched: Command, onnx_models: ModuleType) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(0), (1, 16, 4, 4))
    net, saved, log = tmp_path / "a net.onnx", tmp_path / "net.zip", tmp_path / "log"
    net.write_bytes(b.model(b.conv("x", 16, 1)).SerializeToString())
    log.mkdir()
    said = autosched("run", net, "--target", "vta-pynq", "--log", log, "--save", saved).stdout
    assert f"; autosched tune '{net}' --target vta-pynq --log {log}\n" in said
    said = autosched("show", net, "--target", "vta-pynq", "--log", log, code=2).stderr
    assert said.endswith(f"none of its layers is logged; run: autosched tune '{net}' --target vta-pynq --log {log}\n")
    # What is compiled is compiled for one machine, and not tuned any more.
    for words in ((), ("--target", "vta-pynq")):
        assert "; tune the ONNX file and save it anew\n" in autosched("run", saved, *words).stdout
    said = autosched("run", saved, "--target", "vta-de10", code=2).stderr
    assert said == f"autosched: {saved} is compiled for vta-pynq, and vta-de10 is another machine\n"


def test_quantize(tmp_path: Path, autosched: Command) -> None:
    out = tmp_path / "q.onnx"
    shown = autosched("quantize", EXAMPLES / "digits.onnx", "--calibrate", EXAMPLES / "digits_test.npz", "-o", out)
    assert "logits" in shown.stdout and "accuracy 99.25 % before" in shown.stdout
    same = tmp_path / "again.onnx"
    autosched("quantize", EXAMPLES / "digits.onnx", "--calibrate", EXAMPLES / "digits_test.npz", "-o", same)
    assert out.read_bytes().replace(b"again", b"q") == same.read_bytes().replace(b"again", b"q")


@pytest.mark.parametrize(("words", "said"), [
    (("run", EXAMPLES / "digits.onnx"), "node 'stem' (Conv): its input is float; quantize it: autosched quantize digits.onnx"),
    (("tune", EXAMPLES / "digits.onnx"), "autosched quantize digits.onnx"),
    (("run", EXAMPLES / "digit.onnx"), "did you mean"),
    (("run", EXAMPLES / "digits_q.onnx", "--input", EXAMPLES / "digits.onnx"), "is not a NumPy file"),
    (("run", EXAMPLES / "digits_q.onnx", "--input", "imag=x.npy"), "did you mean 'image'"),
    (("run", EXAMPLES / "digits_q.onnx", "--input", EXAMPLES / "none.npy"), "no file"),
    (("run", EXAMPLES / "digits_q.onnx", *2 * ("--input", EXAMPLES / "digits_test.npz")), "--input: image is given twice"),
    (("run", EXAMPLES / "digits_q.onnx", "--rounding", "even"), "unknown --rounding 'even'; known: half-up, floor"),
    (("run", EXAMPLES / "digits_q.onnx", "--shape", "image=1,x"), "expected positive extents"),
    (("run", EXAMPLES / "digits_q.onnx", "--shape", "image=2,1,9,9"), "input 'image' is [1,1,8,8]"),
    (("run", EXAMPLES / "digits_network.py"), "not a network saved by autosched"),
    (("run", EXAMPLES / "digits_q.onnx", "--input", EXAMPLES / "digits_q.onnx", "--save", "d.zip"), "is not a NumPy file"),
    (("run", EXAMPLES / "digits_q.onnx", "-o", "no/y.npy"), "cannot write no/y.npy"),
    (("quantize", EXAMPLES / "digits.onnx", "--calibrate", EXAMPLES / "kernels.py", "-o", "q.onnx"), "is not a NumPy file"),
    (("quantize", EXAMPLES / "digits.onnx", "--calibrate", EXAMPLES / "digits_test.npz", "-o", "no/q.onnx"), "no directory"),
])
def test_bad_input_is_one_line(words: tuple[object, ...], said: str, tmp_path: Path, autosched: Command) -> None:
    done = autosched(*words, code=2, cwd=tmp_path)
    assert said in done.stderr and done.stderr.count("\n") == 1 and done.stdout == ""
    assert [p for p in tmp_path.iterdir() if p.suffix in (".onnx", ".npy", ".zip")] == []


def test_what_is_quantized_while_it_runs_is_one_line_with_the_way_out(tmp_path: Path, autosched: Command) -> None:
    """Files of onnxruntime's ``quantize_dynamic``: their scales are chosen anew for every image."""
    import onnx
    from onnxruntime.quantization import quantize_dynamic

    helper = onnx.helper
    weight = onnx.numpy_helper.from_array(np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32), "w")
    ends = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, k]) for n, k in (("x", 8), ("y", 4))]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], name="mm")], "g", ends[:1], ends[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "float.onnx")
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "dyn.onnx")
    np.savez(tmp_path / "data.npz", x=np.ones((4, 8), np.float32))
    asked = ("--calibrate", tmp_path / "data.npz", "-o", tmp_path / "q.onnx")
    for words in (("run", tmp_path / "dyn.onnx"), ("quantize", tmp_path / "dyn.onnx", *asked)):
        said = autosched(*words, code=2).stderr
        assert said.count("\n") == 1 and said.startswith("autosched: node ") and "DynamicQuantizeLinear" in said, said
        assert "autosched quantize FLOAT.onnx --calibrate data.npz -o q.onnx" in said
    assert not (tmp_path / "q.onnx").exists()


@pytest.mark.parametrize("exponent", [-1, 7, 17, None])
def test_random_images_cover_what_the_network_quantizes(exponent: int | None, tmp_path: Path, autosched: Command) -> None:
    """What a file says of no scale is drawn from 0 to 1."""
    n, log = Net(), tmp_path / "log"
    log.mkdir()
    q = n.quantized("i", 7 if exponent is None else exponent)
    layer = n.op("Conv", q, n.weight(np.eye(16, dtype=np.int8).reshape(16, 16, 1, 1), 0))
    path = n.save(tmp_path / "n.onnx", {"i": (np.float32, (1, 16, 8, 8))}, [
        n.quantized(layer, 7 if exponent is None else exponent), *([] if exponent is not None else [n.op("Identity", "i")])])
    out = tmp_path / "y.npz"
    autosched("run", path, "--log", log, "--check", "-o", out)
    made = np.load(out)
    y = made[made.files[0]] * 2.0 ** (7 if exponent is None else exponent)
    ends = (0, 127) if exponent is None else (-128, 127)
    assert y.min() >= ends[0] and y.max() <= ends[1] and np.ptp(y) > 0.9 * (ends[1] - ends[0]) and len(np.unique(y)) > 100
    autosched("export", path, "--log", log, "-o", tmp_path / "p.json")
    assert "match" in autosched("sim", tmp_path / "p.json", "--check").stdout


def test_a_saved_network_has_its_schedules(tmp_path: Path, autosched: Command, onnx_models: ModuleType) -> None:
    b = onnx_models.Builder("qdq", np.random.default_rng(0), (1, 16, 4, 4))
    net, saved, log = tmp_path / "net.onnx", tmp_path / "net.zip", tmp_path / "log"
    net.write_bytes(b.model(b.conv("x", 16, 1)).SerializeToString())
    log.mkdir()
    autosched("run", net, "--log", log, "--save", saved)
    said = autosched("run", saved, "--log", log, code=2).stderr
    assert said == f"autosched: --log needs the ONNX file; {saved} is compiled with the schedules that it has\n"
    autosched("run", saved)
