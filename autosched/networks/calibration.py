"""Ranges of the tensors of a float network on calibration images: least and most, or those of onnxruntime's calibrators."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autosched.errors import ProgramError
from autosched.networks.graph import Array
from autosched.networks.reference import refusals, session

if TYPE_CHECKING:
    from onnx import ModelProto

METHODS = ("minmax", "percentile", "entropy")


def calibrate(
    model: ModelProto, batches: Sequence[Mapping[str, Array]], method: str, tensors: Sequence[str]
) -> dict[str, tuple[float, float]]:
    """Ranges of float tensors, as onnxruntime's calibrators give them.

    Args:
        model: a float network.
        batches: images by input.
        method: one of ``METHODS``.
        tensors: whose ranges are asked for.
    """
    if method == "minmax":
        return reached(model, batches, tensors)
    from onnxruntime.quantization import CalibrationMethod
    from onnxruntime.quantization.calibrate import CalibrationDataReader, create_calibrator

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.left = iter(batches)

        def get_next(self) -> Mapping[str, Array] | None:
            return next(self.left, None)

    kind = {"percentile": CalibrationMethod.Percentile, "entropy": CalibrationMethod.Entropy}[method]
    made: dict[str, tuple[float, float]] = {}
    while True:
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / "float.onnx"
            source.write_bytes(model.SerializeToString())
            # Histograms are announced on standard output, which is the command's own; what is no number is refused below.
            with refusals(), redirect_stdout(StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                more = str(Path(folder) / "more.onnx")
                calibrator = create_calibrator(source, None, augmented_model_path=more, calibrate_method=kind)
                calibrator.tensors_to_calibrate = set(calibrator.tensors_to_calibrate) - made.keys()
                try:
                    calibrator.collect_data(Reader())
                    found = calibrator.compute_data().data
                except ValueError as error:
                    # Histograms end where a value is not finite, of whatever tensor, and where values hardly differ.
                    wide = reached(model, batches, tensors)
                    bad = next((n for n in tensors if not np.isfinite(wide[n]).all()), None)
                    if bad is not None:
                        raise endless(bad, "; --method minmax takes it where it stays in float") from error
                    sizes = reached(model, batches, tensors, absolute=True)
                    narrow = {n: wide[n] for n in tensors if n not in made and _narrow(sizes[n], calibrator.num_bins)}
                    if not narrow:
                        raise
                    made |= narrow
                    continue
        return made | {n: (float(np.min(r.range_value[0])), float(np.max(r.range_value[1]))) for n, r in found.items()}


def _narrow(ends: tuple[float, float], bins: int) -> bool:
    """Whether a range is too narrow to be cut in bins."""
    edges = np.linspace(ends[0], ends[1], bins + 1, dtype=np.float32)
    return ends[0] < ends[1] and bool((edges[:-1] >= edges[1:]).any())


def reached(
    model: ModelProto, batches: Sequence[Mapping[str, Array]], tensors: Sequence[str], absolute: bool = False
) -> dict[str, tuple[float, float]]:
    """The least and the greatest value of every tensor: onnxruntime's own calibrator takes time by the square of the nodes.

    Args:
        model: a float network.
        batches: images by input.
        tensors: whose values.
        absolute: of their sizes.
    """
    given = {i.name for i in model.graph.input}
    made = [t for t in tensors if t not in given]
    runs = watched(model, made, "float32")
    found: dict[str, tuple[float, float]] = {}
    for batch in batches:
        with refusals():
            arrays = [*(batch[t] for t in tensors if t in given), *(runs.run(made, dict(batch)) if made else ())]
        for t, array in zip([*(t for t in tensors if t in given), *made], arrays):
            array = np.abs(array) if absolute else array
            low, high = found.get(t, (np.inf, -np.inf))
            # What is no number stays in these, unlike in Python's own.
            found[t] = float(np.minimum(low, array.min())), float(np.maximum(high, array.max()))
    return found


def watched(model: ModelProto, tensors: Sequence[str], dtype: str) -> Any:
    """A session in which tensors of one type can be asked for beside the outputs."""
    import onnx

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    known = {o.name for o in copy.graph.output} | {i.name for i in copy.graph.input}
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    copy.graph.output.extend([onnx.helper.make_tensor_value_info(t, kind, None) for t in tensors if t not in known])
    return session(copy)


def endless(tensor: str, more: str = "") -> ProgramError:
    """The refusal of a tensor that takes values that are no numbers."""
    return ProgramError(f"{tensor!r} takes values that are not finite on the calibration data{more}")
