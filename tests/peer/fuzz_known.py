"""Disagreements with TVM that are understood: each has a paragraph in fuzz_findings.md under its name."""

from __future__ import annotations

import re
from dataclasses import dataclass

ONLY_TVM, ONLY_OURS, BREAKS, DIFFERENT = "only tvm takes it", "only ours takes it", "tvm breaks", "different program"
Answers = tuple[bool | None, ...]
ANY: Answers = (True, False, None)


@dataclass(frozen=True)
class Known:
    """A pattern of disagreements.

    Args:
        name: heading in fuzz_findings.md.
        kind: sort of disagreement, as the fuzzer calls it.
        op: primitives, a regular expression.
        ours: our reason, or what our program shows, likewise.
        tvm: their reason.
        right: what running the accepted (or our) program must have shown.
    """

    name: str
    kind: str
    op: str
    ours: str = ""
    tvm: str = ""
    right: Answers = ANY


# The first that fits explains; what rests on a run of TVM's program comes last.
KNOWN: tuple[Known, ...] = (
    # We refuse what TVM takes, on purpose.
    Known("stores of partial results", ONLY_TVM, "reverse_compute_at", "belongs? to the reduction of"),
    Known("nothing to follow", ONLY_TVM, "reverse_compute_at", "has no producer in"),
    Known("lost iterations", ONLY_TVM, "reverse_compute_at", "would not run for all of its iterations", right=(False, None)),
    Known("idle consumers", ONLY_TVM, "cache_(read|write)", "consumer block .* does not read"),
    Known("caches of updates", ONLY_TVM, "(reindex_)?cache_write", "in place, and the copy would start", right=(False, None)),
    Known("functions of partial sums", ONLY_TVM, "fuse_reduction_epilogue", "must be a sum"),
    Known("reductions cut in parts", ONLY_TVM, "loop_partition", "whose init would run once per part"),
    # We are stricter than correctness asks.
    Known("pad_einsum in its plain place", ONLY_TVM, "pad_einsum"),
    Known("rfactor under a predicate", ONLY_TVM, "rfactor", "under a predicate on its reduction"),
    Known("shared loops", ONLY_TVM, "reindex|blockize|transform_block_layout", "shares its loops with other"),
    Known("neighbours that declare nothing", ONLY_TVM, "blockize", "same outer iterators as the blocks before it"),
    Known("order around merged loops", ONLY_TVM, "merge", "stands (between|after)"),
    Known("predicates over several loops", ONLY_TVM, "reindex_cache_(read|write)", "ties loops that index"),
    # TVM fails with an error of its own where the request is legal.
    Known("constants in index maps", BREAKS, "transform_layout|transform_block_layout|reindex_cache_.*",
          tvm="Expected mapping function to return"),
    Known("patterns of regions", BREAKS, "(reverse_)?compute_at", tvm="BufferRegion pattern match failed"),
    Known("rfactor beside other statements", BREAKS, "rfactor", tvm="block_realize == old_block_realize_"),
    Known("TVM's process ends", BREAKS, ".*", tvm="the process ended"),
    Known("layouts of blockized programs", BREAKS, "transform_layout", tvm="IndexError"),
    Known("merge of neighbours", BREAKS, "merge", tvm="SeqStmt"),
    Known("partitions of partitions", BREAKS, "loop_partition", tvm="not in Map"),
    Known("maps that count down", BREAKS, "transform_(block_)?layout", tvm=r"is_zero\(range->min\)"),
    Known("internal errors of TVM", BREAKS, ".*", right=(True, None)),
    # We take more, and the result is right.
    Known("more is proven here", ONLY_OURS, ".*", right=(True,)),
    # Both take it; the programs differ.
    Known("annotations given again", DIFFERENT, "(un)?annotate", "note"),
    Known("accesses inside nested blocks", DIFFERENT, "reindex_cache_(read|write)|reindex", "tvm T.reads", right=(True, None)),
    Known("maps that count down", DIFFERENT, "transform_(block_)?layout", r"// -|% -|\* -1|- v\d\w*\)", right=(True, None)),
    Known("extents that vary", DIFFERENT, "(reverse_)?compute_at|split|fuse", r"T\.grid\(.*T\.(max|min)\(", right=(True,)),
    Known("order in a joined block", DIFFERENT, "blockize", r"outer_|T\.(reads|writes)", right=(True,)),
    Known("regions after inlining", DIFFERENT, "(reverse_)?compute_inline", r"ours T\.reads.* tvm T\.reads", right=(True,)),
    Known("copies of what is written", DIFFERENT, "cache_write", "sblock_alloc_buffer", right=(True,)),
    # What TVM makes of it does not compute what the program computes.
    Known("TVM's result is wrong", ONLY_TVM, ".*", right=(False,)),
    Known("TVM's program is wrong", DIFFERENT, ".*", "tvm's right: False", right=(True, None)),
    Known("TVM drops a predicate", DIFFERENT, ".*", r"ours T\.where.* tvm T\.reads", right=(True, None)),
)


def explain(kind: str, op: str, ours: str, tvm: str, right: bool | None) -> str | None:
    """The name of the known reason for a disagreement, or None."""
    for k in KNOWN:
        if k.kind == kind and right in k.right and re.fullmatch(k.op, op) and re.search(k.ours, ours, re.DOTALL):
            if re.search(k.tvm, tvm, re.DOTALL):
                return k.name
    return None
