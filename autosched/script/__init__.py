"""TVMScript: programs as text, read and written.

    from autosched.script import T, parse

    @T.prim_func
    def double(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")):
        for i in range(16):
            with T.sblock("B"):
                vi = T.axis.spatial(16, i)
                B[vi] = A[vi] * 2

Text of TVM's older dialect (``T.block``) is read too. ``autosched.ir.printer.script`` is the way back.
"""

from autosched.ir.printer import script
from autosched.script.entry import LazyPrimFunc, from_source, ir_module, parse, parse_file, prim_func
from autosched.script.namespace import FORMS, I, T

# The decorators need the parser, which needs the names; so they join the namespaces last.
FORMS["prim_func"] = T._names["prim_func"] = prim_func
I._names["ir_module"] = ir_module

__all__ = ["I", "LazyPrimFunc", "T", "from_source", "ir_module", "parse", "parse_file", "prim_func", "script"]
