"""The rules of the space, one decision a file, in the order in which they are taken."""

from __future__ import annotations

from space.rule import NumericRule, StructuralRule
from space.rules.ahead import Ahead
from space.rules.attach import Attach
from space.rules.banks import Banks
from space.rules.cuts import Cuts
from space.rules.epilogue import Epilogue
from space.rules.fall import Fall
from space.rules.first import First
from space.rules.late import Late
from space.rules.lead import Lead
from space.rules.length import Length
from space.rules.order import Order
from space.rules.ramp import Ramp
from space.rules.residency import Residency
from space.rules.rise import Rise
from space.rules.rows import Rows
from space.rules.slices import Slices
from space.rules.strips import Strips
from space.rules.taper import Taper
from space.rules.tiling import Tiling
from space.rules.zeros import Zeros

STRUCTURAL: tuple[StructuralRule, ...] = (Epilogue(), Rows())
NUMERIC: tuple[NumericRule, ...] = (
    Cuts(), Fall(), Tiling(), Lead(), Ramp(), Taper(), Zeros(), Order(), Attach(), Residency(), Strips(), Slices(), Late(),
    Ahead(), Rise(), Banks(), First(), Length(),
)
