"""Compiled networks as files: a ZIP of one JSON manifest and plain arrays; nothing in it is code, and no onnx reads it."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from autosched.arguments import writable, writable_beside
from autosched.errors import ProgramError
from autosched.networks.compiled import CompiledNetwork, LayerCost, Stage, Stream, layout_of
from autosched.networks.compose import Place, Region
from autosched.networks.graph import MOVES, Array, HostNode, HostPart, Layer, Tensor
from autosched.networks.lying import has_channels
from autosched.target import Target
from sim.config import VTAConfig
from sim.dram import SPACE
from sim.errors import SimError
from sim.files import write_bytes
from sim.legality import check_semantics
from sim.program import Output, Program, Segment

FORMAT = "autosched-network-5"
_ANY_FORMAT = r"autosched-network-[0-9]{1,4}"
MAX_BYTES = 1 << 31
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same network gives the same file


def save(net: CompiledNetwork, path: str | Path) -> None:
    """Writes a compiled network; the file appears whole or not at all.

    Args:
        net: the network.
        path: file to write.

    Raises:
        ProgramError: no file can be written there, or it is the one that the network was compiled from.
    """
    if net.source is None:
        writable(path)
    else:
        writable_beside(path, net.source, "the network that was compiled")
    arrays: dict[str, Array] = {}
    stages = [_stage(s, f"s{k}", arrays) for k, s in enumerate(net.stages)]
    manifest = {
        "format": FORMAT, "name": net.name, "inputs": net.inputs, "outputs": net.outputs, "untuned": net.untuned,
        "blank": net.blank,
        "target": {"name": net.target.name, "semantics": net.target.semantics, "config": net.target.config.to_json()},
        "tensors": [[t.name, t.shape, t.dtype, t.exponent, t.zero] for t in net.tensors.values()],
        "stages": stages,
    }
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("network.json", _EPOCH), json.dumps(manifest, indent=1))
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", _EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, buffer.getvalue())
    write_bytes(path, whole.getvalue())


def _stage(stage: Stage, key: str, arrays: dict[str, Array]) -> dict[str, Any]:
    if isinstance(stage, Layer) and stage.kind in MOVES:
        return {
            "kind": stage.kind, "name": stage.name, "inputs": stage.inputs, "output": stage.output, "start": stage.start,
        }
    if isinstance(stage, Layer):
        return {
            "kind": stage.kind, "name": stage.name, "input": stage.inputs[0], "output": stage.output, "stride": stage.stride,
            "pads": stage.pads, "kernel": stage.kernel, "edge": stage.edge,
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
        "inputs": stage.inputs, "outputs": stage.outputs, "edge": stage.edge, "words": stage.words,
        "layers": [[x.name, x.kind, x.macs, x.cycles, x.alone, x.work, x.binds, x.apart] for x in stage.layers],
        "places": {t: [x.region, x.slot, x.vector] for t, x in stage.places.items()},
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
            found = manifest.get("format")
            if isinstance(found, str) and found != FORMAT and re.fullmatch(_ANY_FORMAT, found):
                other = f"saved by another version of autosched, as {found}, and {FORMAT} is read"
                raise ProgramError(f"{path}: {other}; save it again from its ONNX file")
            if found != FORMAT:
                raise ProgramError(f"{path}: not a network saved by autosched")
            arrays = {
                i.filename.removesuffix(".npy"): np.lib.format.read_array(
                    io.BytesIO(archive.read(i.filename)), allow_pickle=False
                )
                for i in archive.infolist() if i.filename.endswith(".npy")
            }
        return _network(manifest, arrays)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, EOFError, RuntimeError, MemoryError,
            zipfile.BadZipFile, zlib.error, struct.error, SimError) as error:
        raise ProgramError(f"{path}: not a network saved by autosched, or damaged ({str(error)[:200]})") from error


def _said(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{_said(value)} is no name")
    return value


def _whole(value: object, low: int = 0, high: int = 1 << 62) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{_said(value)} is no number from {low} to {high}")
    return value


def _row(value: object, count: int | None = None) -> list[Any]:
    if not isinstance(value, list) or count not in (None, len(value)):
        raise ValueError(f"{_said(value)} is no list{'' if count is None else f' of {count}'}")
    return value


def _texts(value: object) -> tuple[str, ...]:
    return tuple([_text(v) for v in _row(value)])


def _network(m: Mapping[str, Any], arrays: Mapping[str, Array]) -> CompiledNetwork:
    machine = m["target"]
    target = Target(_text(machine["name"]), VTAConfig.from_json(machine["config"]), _text(machine["semantics"]))
    check_semantics(target.config, target.semantics)
    tensors = {t.name: t for t in map(_tensor, _row(m["tensors"]))}
    stages: list[Stage] = []
    for k, s in enumerate(_row(m["stages"])):
        key = f"s{k}"
        if s["kind"] in ("view", "pack"):
            stages.append(_step(s, tensors))
        elif s["kind"] in MOVES:
            stages.append(_moves(s, tensors))
        elif s["kind"] == "host":
            nodes = tuple([
                HostNode(_text(a), _text(b), _text(c), _whole(macs)) for a, b, c, macs in (_row(n, 4) for n in _row(s["nodes"]))
            ])
            model = _bytes(arrays[f"{key}_model"])
            part = HostPart(_text(s["name"]), _texts(s["inputs"]), _texts(s["outputs"]), nodes, model)
            _takes(part, tensors)
            stages.append(part)
        elif s["kind"] == "stream":
            stages.append(_stream(s, key, arrays, target, tensors))
        else:
            raise ValueError(f"a stage of kind {_said(s['kind'])}")
    blank = None if m["blank"] is None else _text(m["blank"])
    net = CompiledNetwork(
        _text(m["name"]), target, tensors, _texts(m["inputs"]), _texts(m["outputs"]), tuple(stages), _texts(m["untuned"]), blank,
    )
    _linked(net)
    return net


def _linked(net: CompiledNetwork) -> None:
    """Refuses stages that read what no stage in front of them makes, and names that two have."""
    parts = [s.name for s in net.stages if isinstance(s, HostPart)]
    if len({*net.inputs}) < len(net.inputs) or len({*parts}) < len(parts):
        raise ValueError("two inputs or two parts of one name")
    ready = {*net.inputs}
    for stage in net.stages:
        made = (stage.output,) if isinstance(stage, Layer) else stage.outputs
        for name in (*stage.inputs, *made):
            net.tensors[name]
        # Without data, constants are read that there are not.
        if net.blank is None and not ready.issuperset(stage.inputs):
            raise ValueError(f"{next(t for t in stage.inputs if t not in ready)!r} is read before it is made")
        ready.update(made)
    if not ready.issuperset(net.outputs):
        raise ValueError("an output that no stage makes")
    for name in (*net.inputs, *net.outputs):
        net.tensors[name]


def _tensor(row: object) -> Tensor:
    name, extents, dtype, exponent, zero = _row(row, 5)
    shape = tuple([_whole(e, 1) for e in _row(extents)])
    if len(shape) > 32 or prod(shape) > MAX_BYTES or np.dtype(_text(dtype)).kind not in "iufbcO":
        raise ValueError(f"tensor {_said(name)} is {_said(dtype)} of extents {_said(shape)}")
    # A scale is a finite number.
    return Tensor(
        _text(name), shape, dtype, None if exponent is None else _whole(exponent, -1000, 1000), _whole(zero, -128, 127)
    )


def _step(s: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
    """A view, or pixels that the host makes channels of."""
    down, across = (_whole(e, 1) for e in _row(s["stride"], 2))
    top, left, bottom, right = (_whole(e) for e in _row(s["pads"], 4))
    # Before windows were gathered, what became channels was a stride's cell.
    rows, columns = (_whole(e, 1) for e in _row(s.get("kernel", s["stride"]), 2))
    above, before, below, behind = (_whole(e) for e in _row(s["edge"], 4))
    layer = Layer(
        _text(s["name"]), _text(s["kind"]), (_text(s["input"]),), _text(s["output"]), kernel=(rows, columns),
        stride=(down, across), pads=(top, left, bottom, right), edge=(above, before, below, behind),
    )
    source, out = tensors[layer.inputs[0]], tensors[layer.output]
    if layer.kind == "view":
        fits = prod(source.shape) == prod(out.shape) and source.dtype == out.dtype
    else:
        fits = len(source.shape) == len(out.shape) == 4 and source.dtype in ("int8", "uint8") and out.dtype == "int8"
        if fits:
            n, c = source.shape[:2]
            sizes = out.shape[2] - above - below, out.shape[3] - before - behind
            height, width = (sizes[0] - 1) * down + rows, (sizes[1] - 1) * across + columns
            fits = out.shape[:2] == (n, c * rows * columns) and top <= height and left <= width and min(sizes) > 0
            fits = fits and n * c * height * width <= MAX_BYTES
    if not fits:
        raise ValueError(f"{layer.inputs[0]!r} of extents {source.shape} cannot become {layer.output!r} of {out.shape}")
    return layer


def _moves(s: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Layer:
    """Channels that the host joins or cuts off."""
    layer = Layer(_text(s["name"]), s["kind"], _texts(s["inputs"]), _text(s["output"]), start=_whole(s["start"]))
    given, out = [tensors[t] for t in layer.inputs], tensors[layer.output]
    if {t.dtype for t in given} != {out.dtype} or not has_channels(layer, [t.shape for t in given], out.shape):
        raise ValueError(f"{', '.join(layer.inputs)!r} cannot become {layer.output!r} of extents {out.shape}")
    return layer


def _takes(part: HostPart, tensors: Mapping[str, Tensor]) -> None:
    """Refuses a host part whose model takes or gives other tensors."""
    ends: dict[int, dict[str, tuple[int, tuple[int, ...]]]] = {11: {}, 12: {}}  # of a graph: its inputs and its outputs
    for field, value in _fields(b"".join(v for k, v in _fields(part.model) if k == 7 and isinstance(v, bytes))):
        if field in ends and isinstance(value, bytes):
            info = dict(_fields(value))
            kind = dict(_fields(dict(_fields(info[2]))[1]))
            extents = tuple([dict(_fields(d)).get(1, 0) for k, d in _fields(kind[2]) if k == 1])
            ends[field][info[1].decode()] = kind[1], extents
    if set(part.inputs) != set(ends[11]):
        raise ValueError(f"part {part.name!r} takes {_said(list(ends[11]))}")
    for name, found in (*((t, ends[11].get(t)) for t in part.inputs), *((t, ends[12].get(t)) for t in part.outputs)):
        known = tensors[name]
        if found is None or _TYPES.get(found[0], known.dtype) != known.dtype or found[1] != known.shape:
            raise ValueError(f"part {part.name!r} has another {name!r} than {known.dtype} of extents {known.shape}")


# Numbers of types in an ONNX file; others are as the manifest says.
_TYPES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
          11: "float64", 12: "uint32", 13: "uint64"}


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and values of a protocol buffer's fields: what a model takes is known without onnx."""
    at = 0

    def number() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        if key & 7 == 0:
            yield key >> 3, number()
            continue
        if key & 7 not in (1, 2, 5):
            raise ValueError("a part's model is none")
        size = number() if key & 7 == 2 else 8 if key & 7 == 1 else 4
        yield key >> 3, data[at : at + size]
        at += size


def _bytes(array: Array) -> bytes:
    if array.dtype != np.uint8 or array.ndim != 1:
        raise ValueError(f"bytes are kept as {array.dtype} of extents {array.shape}")
    return array.tobytes()


def _stream(s: Mapping[str, Any], key: str, arrays: Mapping[str, Array], target: Target, tensors: Mapping[str, Tensor]) -> Stage:
    memory = tuple([Segment(_whole(a), _bytes(arrays[f"{key}_m{k}"])) for k, a in enumerate(_row(s["memory"]))])
    outputs = tuple([
        Output(_text(n), _whole(a), _whole(size)) for n, a, size in (_row(o, 3) for o in _row(s["program_outputs"]))
    ])
    table = arrays[f"{key}_insns"]
    if table.dtype != np.int64 or table.ndim != 2:
        raise ValueError(f"instructions are kept as {table.dtype} of extents {table.shape}")
    program = Program(
        _text(s["name"]), target.config, table, _whole(s["insn_address"]), memory, outputs, _whole(s["cycles"], 1),
        target.semantics,
    )
    regions = {}
    for n, k, r, v, o, at in (_row(region, 6) for region in _row(s["regions"])):
        region = Region(_text(n), _whole(k, 1), _whole(r, 1), _whole(v, 1), bool(o))
        regions[region.name] = region, _whole(at)
    places = {t: Place(_text(r), _whole(slot), _whole(first)) for t, (r, slot, first) in s["places"].items()}
    for place in places.values():
        if place.slot >= regions[place.region][0].slots:
            raise ValueError(f"slot {place.slot} of region {place.region}")
    layers = tuple([
        LayerCost(_text(n), _text(k), _whole(macs), _whole(cycles), _whole(alone), _whole(work), _text(binds), _whole(apart))
        for n, k, macs, cycles, alone, work, binds, apart in (_row(x, 8) for x in _row(s["layers"]))
    ])
    ends = _texts(s["inputs"]), _texts(s["outputs"])
    stage = Stream(program, *ends, places, regions, layers, _whole(s["edge"]), _whole(s["words"]))
    batch, block = target.config.batch, target.config.block_in
    for name in (*stage.inputs, *stage.outputs):
        tensor, (region, at) = tensors[name], regions[places[name].region]
        if len(tensor.shape) not in (2, 4) or tensor.dtype not in ("int8", "uint8"):
            raise ValueError(f"the machine does not hold {name!r}, {tensor.dtype} of extents {tensor.shape}")
        packed = layout_of(tensor.shape, batch, block).packed_shape
        vectors = prod(packed[1:-2])
        whole = region.rows * region.vectors * batch * block
        inside = places[name].vector + vectors <= region.vectors and (region.slots == 1 or vectors == region.vectors)
        if region.rows != packed[0] or not inside or at + region.slots * whole > SPACE:
            raise ValueError(f"region {region.name!r} does not hold {name!r} of extents {tensor.shape}")
    return stage
