"""Compiled networks as files: a ZIP of one JSON manifest and plain arrays; nothing in it is code, and no onnx reads it."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autosched.errors import ProgramError
from autosched.networks.compiled import CompiledNetwork, LayerCost, Stage, Stream
from autosched.networks.compose import Place, Region
from autosched.networks.graph import Array, HostNode, HostPart, Layer, Tensor
from autosched.target import Target
from sim.config import VTAConfig
from sim.errors import SimError
from sim.program import Output, Program, Segment

FORMAT = "autosched-network-2"
MAX_BYTES = 1 << 31
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same network gives the same file


def save(net: CompiledNetwork, path: str | Path) -> None:
    """Writes a compiled network; the file appears whole or not at all.

    Args:
        net: the network.
        path: file to write.
    """
    arrays: dict[str, Array] = {}
    stages = [_stage(s, f"s{k}", arrays) for k, s in enumerate(net.stages)]
    manifest = {
        "format": FORMAT, "name": net.name, "inputs": net.inputs, "outputs": net.outputs, "untuned": net.untuned,
        "blank": net.blank,
        "target": {"name": net.target.name, "semantics": net.target.semantics, "config": net.target.config.to_json()},
        "tensors": [[t.name, t.shape, t.dtype, t.exponent, t.zero] for t in net.tensors.values()],
        "stages": stages,
    }
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(zipfile.ZipInfo("network.json", _EPOCH), json.dumps(manifest, indent=1))
            for name, array in arrays.items():
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
                info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
                info.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(info, buffer.getvalue())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _stage(stage: Stage, key: str, arrays: dict[str, Array]) -> dict[str, Any]:
    if isinstance(stage, Layer):
        return {
            "kind": stage.kind, "name": stage.name, "input": stage.inputs[0], "output": stage.output, "stride": stage.stride,
            "pads": stage.pads, "kernel": stage.kernel,
        }
    if isinstance(stage, HostPart):
        arrays[f"{key}_model"] = np.frombuffer(stage.model, np.uint8)
        return {
            "kind": "host", "name": stage.name, "inputs": stage.inputs, "outputs": stage.outputs,
            "nodes": [[n.name, n.op, n.reason, n.macs] for n in stage.nodes],
        }
    p = stage.program
    arrays[f"{key}_insns"] = p.table
    for k, segment in enumerate(p.memory):
        arrays[f"{key}_m{k}"] = np.frombuffer(segment.data, np.uint8)
    return {
        "kind": "stream", "name": p.name, "insn_address": p.insn_address, "cycles": p.cycles,
        "memory": [s.address for s in p.memory], "program_outputs": [[o.name, o.address, o.size] for o in p.outputs],
        "inputs": stage.inputs, "outputs": stage.outputs, "edge": stage.edge,
        "layers": [[x.name, x.kind, x.macs, x.cycles, x.alone, x.work, x.binds, x.apart] for x in stage.layers],
        "places": {t: [x.region, x.slot] for t, x in stage.places.items()},
        "regions": [[r.name, r.slots, r.rows, r.vectors, r.outside, at] for r, at in stage.regions.values()],
    }


def load(path: str | Path) -> CompiledNetwork:
    """A network that ``save`` wrote.

    Args:
        path: file to read.

    Raises:
        ProgramError: not such a file, or damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise ProgramError(f"no file {path}")
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(i.file_size for i in archive.infolist()) > MAX_BYTES:
                raise ProgramError(f"{path}: more than {MAX_BYTES} bytes")
            manifest = json.loads(archive.read("network.json"))
            if manifest.get("format") != FORMAT:
                raise ProgramError(f"{path}: not a network saved by autosched")
            arrays = {
                i.filename.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(archive.read(i.filename)), allow_pickle=False
                )
                for i in archive.infolist() if i.filename.endswith(".npy")
            }
        return _network(manifest, arrays)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError, RecursionError,
            NotImplementedError, zipfile.BadZipFile, SimError) as error:
        raise ProgramError(f"{path}: not a network saved by autosched, or damaged ({str(error)[:200]})") from error


def _network(m: Mapping[str, Any], arrays: Mapping[str, Array]) -> CompiledNetwork:
    machine = m["target"]
    target = Target(machine["name"], VTAConfig.from_json(machine["config"]), machine["semantics"])
    tensors = {n: Tensor(str(n), tuple(map(int, s)), str(d), e, int(z)) for n, s, d, e, z in m["tensors"]}
    for t in tensors.values():
        np.dtype(t.dtype)
    stages: list[Stage] = []
    for k, s in enumerate(m["stages"]):
        key = f"s{k}"
        if s["kind"] in ("view", "pack"):
            (down, across), (top, left, bottom, right) = map(int, s["stride"]), map(int, s["pads"])
            # Before windows were gathered, what became channels was a stride's cell.
            rows, columns = map(int, s.get("kernel", s["stride"]))
            stages.append(Layer(
                str(s["name"]), str(s["kind"]), (s["input"],), s["output"], kernel=(rows, columns), stride=(down, across),
                pads=(top, left, bottom, right),
            ))
        elif s["kind"] == "host":
            nodes = tuple(HostNode(str(a), str(b), str(c), int(m)) for a, b, c, m in s["nodes"])
            model = arrays[f"{key}_model"].tobytes()
            stages.append(HostPart(s["name"], tuple(s["inputs"]), tuple(s["outputs"]), nodes, model))
        else:
            stages.append(_stream(s, key, arrays, target))
    known = [t for s in stages for t in (*s.inputs, *((s.output,) if isinstance(s, Layer) else s.outputs))]
    for name in (*known, *m["inputs"], *m["outputs"]):
        tensors[name]
    blank = m["blank"]
    return CompiledNetwork(
        str(m["name"]), target, tensors, tuple(m["inputs"]), tuple(m["outputs"]), tuple(stages), tuple(m["untuned"]),
        None if blank is None else str(blank),
    )


def _stream(s: Mapping[str, Any], key: str, arrays: Mapping[str, Array], target: Target) -> Stream:
    memory = tuple(Segment(int(a), arrays[f"{key}_m{k}"].tobytes()) for k, a in enumerate(s["memory"]))
    outputs = tuple(Output(str(n), int(a), int(size)) for n, a, size in s["program_outputs"])
    program = Program(
        str(s["name"]), target.config, arrays[f"{key}_insns"], int(s["insn_address"]), memory, outputs, int(s["cycles"]),
        target.semantics,
    )
    regions = {n: (Region(n, int(k), int(r), int(v), bool(o)), int(at)) for n, k, r, v, o, at in s["regions"]}
    places = {t: Place(str(r), int(slot)) for t, (r, slot) in s["places"].items()}
    for place in places.values():
        if not 0 <= place.slot < regions[place.region][0].slots:
            raise ValueError(f"slot {place.slot} of region {place.region}")
    layers = tuple(
        LayerCost(str(n), str(k), int(macs), int(cycles), int(alone), int(work), str(binds), int(apart))
        for n, k, macs, cycles, alone, work, binds, apart in s["layers"]
    )
    return Stream(program, tuple(s["inputs"]), tuple(s["outputs"]), places, regions, layers, int(s["edge"]))
