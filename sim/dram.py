"""DRAM as 4 KiB pages: only what an image holds or a program writes takes memory.

The address space is 32 bits, as in the RTL. Pages that nobody wrote read as zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sim.config import PAGE_BITS, PAGE_BYTES
from sim.errors import ProgramError

ADDRESS_BITS = 32
SPACE = 1 << ADDRESS_BITS


@dataclass(frozen=True)
class Segment:
    """Bytes of DRAM before a run, from ``address`` on."""

    address: int
    data: bytes

    def __post_init__(self) -> None:
        if self.address < 0 or self.address + len(self.data) > SPACE:
            raise ProgramError(
                f"memory segment at {self.address:#x}", f"{len(self.data)} bytes do not fit the 32-bit address space"
            )


class Dram:
    """A sparse memory: ``pages[address >> 12]`` is a page's slot in ``data``; slot 0 is the page of zeros.

    segments: the image; where two overlap, the later one counts.
    written: numbers of further pages that must exist because a program writes them.
    """

    def __init__(self, segments: Iterable[Segment], written: npt.NDArray[np.int64] | None = None) -> None:
        image = tuple(segments)
        spans = [
            np.arange(s.address >> PAGE_BITS, ((s.address + len(s.data) - 1) >> PAGE_BITS) + 1, dtype=np.int64)
            for s in image
            if s.data
        ]
        if written is not None:
            spans.append(written)
        used = np.unique(np.concatenate(spans)) if spans else np.zeros(0, dtype=np.int64)
        self.pages: npt.NDArray[np.int32] = np.zeros(SPACE >> PAGE_BITS, dtype=np.int32)
        self.pages[used] = np.arange(1, len(used) + 1, dtype=np.int32)
        self.data: npt.NDArray[np.uint8] = np.zeros((len(used) + 1) * PAGE_BYTES, dtype=np.uint8)
        for s in image:
            if s.data:
                self._write(s.address, s.data)

    def _write(self, address: int, data: bytes) -> None:
        # The pages of a segment are consecutive and sorted, so their slots are consecutive too: one copy.
        start = int(self.pages[address >> PAGE_BITS]) * PAGE_BYTES + (address & (PAGE_BYTES - 1))
        self.data[start : start + len(data)] = np.frombuffer(data, dtype=np.uint8)

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes from ``address``; ProgramError outside the address space."""
        if size < 0 or address < 0 or address + size > SPACE:
            raise ProgramError(f"read of {size} bytes at {address:#x}", "outside the 32-bit address space")
        parts: list[bytes] = []
        while size > 0:
            offset = address & (PAGE_BYTES - 1)
            step = min(size, PAGE_BYTES - offset)
            start = int(self.pages[address >> PAGE_BITS]) * PAGE_BYTES + offset
            parts.append(self.data[start : start + step].tobytes())
            address += step
            size -= step
        return b"".join(parts)
