"""The core IR: TensorIR-like programs, immutable and picklable."""

from autosched.ir.expr import (
    BinOp,
    BufferData,
    BufferLoad,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Not,
    Select,
    StringImm,
    Var,
    binary,
    cast,
    const,
)
from autosched.ir.stmt import (
    Block,
    BlockRealize,
    Buffer,
    BufferRegion,
    BufferStore,
    Constant,
    Evaluate,
    For,
    IfThenElse,
    IRModule,
    IterVar,
    MatchBuffer,
    PrimFunc,
    Range,
    SeqStmt,
    Stmt,
    seq,
)
from autosched.ir.structural import structural_equal, structural_hash

__all__ = [
    "BinOp", "Block", "BlockRealize", "Buffer", "BufferData", "BufferLoad", "BufferRegion", "BufferStore", "Call", "Cast",
    "Constant", "Evaluate", "Expr", "FloatImm", "For", "IRModule", "IfThenElse", "IntImm", "IterVar", "MatchBuffer", "Not",
    "PrimFunc", "Range", "Select", "SeqStmt", "Stmt", "StringImm", "Var", "binary", "cast", "const", "seq", "structural_equal",
    "structural_hash",
]
