"""Networks from files: ``run``, ``quantize``, and what ``tune`` and ``export`` do with an ONNX file."""

from __future__ import annotations

import argparse
import io
import sys
import time
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.arguments import decimal
from autosched.cli.commands import tune_hint
from autosched.cli.exit_codes import Exit
from autosched.cli.options import Parser, add_format, add_log, add_target, file, parse_pairs, seed
from autosched.cli.outputs import require_outputs
from autosched.cli.tables import number, percent, print_json, print_table
from autosched.errors import ProgramError, UnknownNameError, shortened
from sim.files import write_bytes
from sim.markup import plain

if TYPE_CHECKING:
    from autosched.networks import CompiledNetwork, Network
    from autosched.networks.graph import Graph
    from autosched.networks.host_steps import HostStep
    from autosched.networks.images import Taken
    from autosched.networks.summary import Summary

LABELS = "labels"


def _run_options(p: Parser) -> None:
    p.add_argument("network", type=file, help="a quantized ONNX file, or one that --save wrote")
    p.add_argument("--input", type=file, action="append", default=[], metavar="[NAME=]FILE",
                   help="images as .npy, or as .npz by input name (its array 'labels' gives an accuracy); default random")
    p.add_argument("--output", "-o", type=file, metavar="FILE.npy", help="where to write the result (.npz for several)")
    p.add_argument("--check", action="store_true", help="compare all bytes with onnxruntime on the integer form of the network")
    p.add_argument("--save", type=file, metavar="FILE", help="write the compiled network, to be run without onnx")
    p.add_argument("--seed", type=seed, default=0, metavar="N", help="of the random images (default 0)")
    add_target(p)
    add_log(p)
    add_network(p)
    add_format(p)
    p.set_defaults(run=run, target=None)  # a compiled network has its own


def _quantize_options(p: Parser) -> None:
    p.add_argument("network", type=file, help="an ONNX file, float or quantized")
    p.add_argument("--calibrate", type=file, required=True, metavar="FILE.npz",
                   help="images by input; an array 'labels' gives accuracies")
    p.add_argument("-o", "--output", type=file, required=True, metavar="FILE.onnx", help="the quantized network to write")
    p.add_argument("--method", choices=("minmax", "percentile", "entropy"), default="minmax",
                   help="onnxruntime's calibrator (default minmax)")
    p.add_argument("--per-channel", action="store_true", help="one scale per output channel of a weight")
    add_network(p, rounding=False)
    add_format(p)
    p.set_defaults(run=quantize)


OPTIONS = {"run": _run_options, "quantize": _quantize_options}


def add_network(parser: argparse.ArgumentParser, rounding: bool = True) -> None:
    """Adds ``--shape`` and ``--rounding``."""
    if rounding:
        parser.add_argument("--rounding", choices=("half-up", "floor"), metavar="NAME",
                            help="of QDQ and QLinear networks: half-up (default) or floor, the bare shift")
    parser.add_argument("--shape", action="append", default=[], metavar="NAME=1,3,H,W",
                        help="extents of an input that the file leaves open")


def is_network(name: str) -> bool:
    """Whether a workload's name is that of an ONNX file."""
    return name.strip().lower().endswith(".onnx")


def network_file(name: str, args: argparse.Namespace) -> bool:
    """Whether a command works on an ONNX file; where it does not, what is of such files only is refused.

    Raises:
        ProgramError: ``--shape`` or ``--rounding`` with something else.
    """
    if is_network(name):
        return True
    for option in ("shape", "rounding"):
        if getattr(args, option, None):
            raise ProgramError(f"--{option} is of ONNX files, and {name or 'a whole log'} is none")
    return False


def load(name: str, args: argparse.Namespace) -> Network:
    """The network of a file, by a command's options."""
    from autosched.networks import load as load_network

    rounding = getattr(args, "rounding", None) or "half-up"
    return load_network(name, args.target or "vta-de10", rounding, shapes(getattr(args, "shape", [])))


def shapes(pairs: list[str]) -> dict[str, tuple[int, ...]]:
    """``--shape`` words by input.

    Raises:
        ProgramError: a word that is no list of extents.
    """
    found = {}
    for name, text in parse_pairs(pairs, "--shape").items():
        extents = [decimal(part.strip(), 1, (1 << 20) - 1) for part in text.split(",")]
        if None in extents:
            raise ProgramError(f"--shape {shortened(f'{name}={text}', 60)}: expected positive extents, such as 1,3,224,224")
        found[name] = tuple(e for e in extents if e is not None)
    return found


def run(args: argparse.Namespace) -> Exit:
    """Runs a network on images."""
    from autosched.networks import Network
    from autosched.networks.images import accepted, checked_labels, classes_of

    require_outputs(args, "output", "save")
    network = _network(args)
    taken = network.graph if isinstance(network, Network) else network
    images, labels = _images(args.input, taken, args.seed)
    given = accepted(taken, (), images)
    count = max(len(a) for a in given.values()) if given else 1
    if labels is not None:
        labels = checked_labels(labels, count)
        _classifies(taken)
    require_archive(args.output, taken.outputs)
    ready = network.compile(args.log) if isinstance(network, Network) else network
    if args.save:
        ready.save(args.save)
    begun = time.process_time()
    ran = ready.run(**images)
    seconds = time.process_time() - begun
    outputs = dict(zip(ready.outputs, ran.outputs))
    count = ran.images
    if args.output:
        store_arrays(args.output, outputs)
    different, compared = _compare(network.graph, images, outputs) if isinstance(network, Network) and args.check else (None, 0)
    accuracy = None
    if labels is not None:
        accuracy = float((classes_of(next(iter(outputs.values())), len(labels)) == labels).mean())
    from autosched.networks.summary import summarize

    summary = summarize(ready)
    if args.format == "json":
        print_json({
            **summary_json(summary), "target": ready.target.name, "untuned": ready.untuned, "images_run": count,
            "cpu_seconds": seconds, "bytes_compared": compared, "bytes_different": different, "accuracy": accuracy,
            "outputs": {k: {"dtype": str(v.dtype), "shape": list(v.shape)} for k, v in outputs.items()},
            "host_work": [asdict(w) for w in ran.host],
        })
    else:
        print_summary(summary, ready.target.name)
        _print_host(ran.host)
        if ready.untuned:
            hint = tune_hint(args, args.network) if isinstance(network, Network) else "tune the ONNX file and save it anew"
            print(plain(f"not tuned: {len(ready.untuned)} layers run by the first draft of their space; {hint}"))
        print(f"{count} image(s) in {seconds:.1f} CPU s of simulation")
        if accuracy is not None:
            print(f"accuracy {percent(accuracy)}")
        if different is not None:
            verdict = "all equal to" if not different else f"{number(different)} DIFFERENT from"
            print(f"{number(compared)} bytes compared, {verdict} onnxruntime's")
    return Exit.DIFFERS if different else Exit.OK


def _print_host(work: tuple[HostStep, ...]) -> None:
    """What the host does for one image."""
    print(f"\nthe host's own work, per image ({1e3 * sum(w.seconds for w in work):.2f} CPU ms of this machine in all):")
    print_table(
        [("step", False), ("of", False), ("bytes", True), ("CPU ms", True)],
        [[w.what, w.name, number(w.bytes), f"{1e3 * w.seconds:.2f}"] for w in work],
    )
    print()


def _network(args: argparse.Namespace) -> Network | CompiledNetwork:
    """The network of a command, to be compiled if it is an ONNX file."""
    if network_file(args.network, args):
        return load(args.network, args)
    if args.check:
        raise ProgramError(f"--check needs the ONNX file; {args.network} is none")
    if args.log:
        raise ProgramError(f"--log needs the ONNX file; {args.network} is compiled with the schedules that it has")
    from autosched.networks import CompiledNetwork
    from autosched.target import get_target

    ready = CompiledNetwork.load(args.network)
    if args.target and get_target(args.target).key() != ready.target.key():
        raise ProgramError(f"{args.network} is compiled for {ready.target}, and {args.target} is another machine")
    return ready


def _images(words: list[str], net: Taken, seed: int) -> tuple[dict[str, Any], Any]:
    """Arrays by input, and labels or None."""
    found: dict[str, Any] = {}
    labels = None
    for word in words:
        name, mark, path = word.partition("=")
        if not mark or Path(word).is_file():
            name, path = "", word
        elif name not in net.inputs:
            raise UnknownNameError("input", name, net.inputs)
        data = read_arrays(path)
        if isinstance(data, Mapping):
            labels = data.get(LABELS, labels) if LABELS not in net.inputs else labels
            named = {k: v for k, v in data.items() if k in net.inputs}
            if not named and len(net.inputs) == 1 and len(rest := [v for k, v in data.items() if k != LABELS]) == 1:
                named = {net.inputs[0]: rest[0]}
            if not named:
                raise ProgramError(f"{path} holds {', '.join(data) or 'nothing'}; the network takes {', '.join(net.inputs)}")
        elif name or len(net.inputs) == 1:
            named = {name or net.inputs[0]: data}
        else:
            raise ProgramError(f"which input is {path}? Write NAME={path}; the network takes {', '.join(net.inputs)}")
        if twice := named.keys() & found.keys():
            raise ProgramError(f"--input: {min(twice)} is given twice")
        found.update(named)
    if words:
        return found, labels
    rng = np.random.default_rng(seed)
    for name in net.inputs:
        t = net.tensors[name]
        dtype = np.dtype(t.dtype)
        if dtype.kind in "iu":
            # Wide ones are counts, masks and places in tables: what no table is too short for.
            least, last = (np.iinfo(dtype).min, np.iinfo(dtype).max) if dtype.itemsize < 4 else (0, 1)
            found[name] = rng.integers(least, last, t.shape, dtype=dtype, endpoint=True)
        else:
            low, high = t.covers() or (0.0, 1.0)
            if dtype == np.float16:
                most = float(np.finfo(dtype).max)  # a coarse scale covers more than it holds
                low, high = max(low, -most), min(high, most)
            found[name] = (low + (high - low) * rng.random(t.shape)).astype(dtype)
    return found, None


def read_arrays(path: str) -> Any:
    """An array of a ``.npy`` file, or a dict of those of an ``.npz`` file; nothing in them is run.

    Raises:
        ProgramError: no such file, or not one of these.
    """
    if not Path(path).is_file():
        raise ProgramError(f"no file {path}")
    try:
        data = np.load(path, allow_pickle=False)
        return data if isinstance(data, np.ndarray) else {k: data[k] for k in data.files}
    except (ValueError, EOFError, OSError, KeyError, MemoryError) as error:
        raise ProgramError(f"{path} is not a NumPy file of numbers") from error
    except Exception as error:
        # zipfile and zlib have errors of their own for a damaged archive.
        if type(error).__module__ in ("zipfile", "zlib"):
            raise ProgramError(f"{path} is not a NumPy file ({error})") from error
        raise


def _classifies(net: Graph | CompiledNetwork) -> None:
    """Refuses labels where the first output has no classes of each image."""
    shape = net.tensors[net.outputs[0]].shape
    rows = {net.tensors[n].shape[:1] for n in net.inputs}
    if not shape or {shape[:1]} != rows:
        raise ProgramError(f"labels: output {net.outputs[0]} is {shape}, not a class or a row of classes for each image")


def require_archive(path: str | None, outputs: Collection[str]) -> None:
    """Refuses a file for several results that holds one array.

    Args:
        path: where results are written, or None.
        outputs: their names.

    Raises:
        ProgramError: there are several, and it is no ``.npz`` file.
    """
    if path and len(outputs) > 1 and Path(path).suffix != ".npz":
        raise ProgramError(f"{len(outputs)} outputs need an .npz file, not {path}")


def store_arrays(path: str, outputs: Mapping[str, Any]) -> None:
    """Writes results by name into an ``.npz`` file, or the only one into a file of any other ending.

    Args:
        path: the file, all of which is written, or nothing.
        outputs: arrays by name.
    """
    contents = io.BytesIO()
    if Path(path).suffix == ".npz":
        # Entry by entry: np.savez takes names as arguments, and some are its own.
        with zipfile.ZipFile(contents, "w") as archive:
            for name, array in outputs.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asanyarray(array))
    else:
        np.save(contents, next(iter(outputs.values())))
    write_bytes(path, contents.getvalue())


def _compare(graph: Graph, images: Mapping[str, Any], outputs: Mapping[str, Any]) -> tuple[int, int]:
    """Bytes that differ from onnxruntime's on the integer form, and bytes compared."""
    from autosched.networks.compiled import together
    from autosched.networks.reference import build, session

    reference = session(build(graph))
    rows = {n: graph.tensors[n].shape[0] for n in images}
    count = next(len(images[n]) // rows[n] for n in images)
    parts = [
        reference.run(list(graph.outputs), {n: images[n][k * rows[n] : (k + 1) * rows[n]] for n in images}) for k in range(count)
    ]
    different = compared = 0
    for want, name in zip(zip(*parts), graph.outputs):
        a, b = (np.ascontiguousarray(x).reshape(-1).view(np.uint8) for x in (together(want), outputs[name]))
        different += int((a != b).sum())
        compared += a.size
    return different, compared


def quantize(args: argparse.Namespace) -> Exit:
    """Writes a network whose scales are powers of two."""
    from autosched.networks.quantize import quantize as quantize_file

    require_outputs(args, "output")
    data = read_arrays(args.calibrate)
    if not isinstance(data, dict):
        data = {"": data}
    labels = data.pop(LABELS, None)
    report = quantize_file(
        args.network, data, args.output, args.method, args.per_channel, labels, shapes(args.shape),
    )
    if args.format == "json":
        print_json(asdict(report) | {"file": args.output})
        return Exit.OK
    print_table(
        [("tensor", False), ("SNR dB", True), ("inside the clip", True), ("in float", True)],
        [[f.tensor, f"{f.snr:.1f}", percent(f.inside), percent(f.inside_float)] for f in report.layers],
    )
    print(f"{args.output}: {report.images} images compared")
    if report.left_out:
        print(f"the last {report.left_out} of the calibration images are left out: they do not fill the network's batch")
    if report.accuracy is not None:
        print(f"accuracy {percent(report.float_accuracy)} before, {percent(report.accuracy)} after")
    return Exit.OK


def export(args: argparse.Namespace) -> Exit:
    """Writes a network's streams as one program file, with the memory of one image and what onnxruntime makes of it."""
    from autosched.networks.graph import need_data
    from sim.program import dump_file

    path = Path(args.output)
    network = load(args.workload, args)
    need_data(network.name, network.graph.blank)
    images, _ = _images([], network.graph, args.seed)
    ready = network.compile(args.log)
    programs = ready.programs(images)
    dump_file(path, programs)
    size, count = path.stat().st_size, sum(len(p.table) for p in programs)
    if args.format == "json":
        print_json({"file": str(path), "workload": ready.name, "target": ready.target.name, "instructions": count,
                    "cycles": ready.cycles, "bytes": size, "programs": len(programs)})
        return Exit.OK
    print(f"{path}: {ready.name} for {ready.target.name}, {len(programs)} program(s), {number(count)} instructions, "
          f"{number(ready.cycles)} cycles, {number(size)} bytes")
    return Exit.OK


def summary_json(s: Summary) -> dict[str, Any]:
    """A summary as plain JSON values."""
    return {**asdict(s), "gap": s.gap}


def print_summary(s: Summary, target: str) -> None:
    """The numbers of a network, and its ten most expensive layers."""
    from autosched.networks.graph import FEEDS

    print_table(
        [("network", False), ("cycles", True), ("bound", True), ("gap", True), ("layers alone", True), ("ms", True),
         ("images/s", True), ("GOPS", True), ("of peak", True), ("on machine", True), ("DRAM bytes", True)],
        [[s.name, number(s.cycles), number(s.bound), percent(s.gap), number(s.alone), f"{s.milliseconds:.3f}", f"{s.images:.1f}",
          f"{s.gops:.2f}", percent(s.peak), percent(s.share), number(s.dram_bytes)]],
    )
    if len(s.streams) > 1:
        print(f"\n{len(s.streams)} streams: " + ", ".join(number(c) for c in s.streams) + " cycles")
    print()
    print_table(
        [("layer", False), ("kind", False), ("cycles", True), ("of all", True), ("alone", True), ("least compute", True),
         ("bound by", False)],
        [[x.name, x.kind, number(x.cycles), percent(x.cycles / s.cycles), number(x.alone), number(x.work), x.binds]
         for x in s.slowest()],
    )
    print(f"\nagainst the {number(s.apart)} cycles of all layers by themselves: sums and pools in the accumulator save "
          f"{number(s.apart - s.alone)}, streams of several layers {number(s.alone - s.cycles)}")
    kept = [n for n in s.host if n.reason != FEEDS]
    if kept:
        print(f"\non the host of {target}:")
        for n in kept:
            part = f", {percent(s.share_of(n))} of the multiply-accumulates" if n.macs else ""
            print(f"  {n.name} ({n.op}): {n.reason}{part}")
    sys.stdout.flush()
