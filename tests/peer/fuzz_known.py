"""Disagreements with TVM that are understood: patterns, and the reason behind each name."""

from __future__ import annotations

import re
from dataclasses import dataclass

ONLY_TVM, ONLY_OURS, BREAKS, DIFFERENT = "only tvm takes it", "only ours takes it", "tvm breaks", "different program"
REPLAY, UNREAD = "tvm does not replay our trace", "ours does not read tvm's text"
Answers = tuple[bool | None, ...]
ANY: Answers = (True, False, None)


@dataclass(frozen=True)
class Known:
    """A pattern of disagreements.

    Args:
        name: of the reason, a key of REASONS and a heading in fuzz_findings.md.
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
    Known("consumers before producers", ONLY_TVM, "(reverse_)?compute_at", "would run (after its consumer|before its producer)"),
    Known("consumers that declare nothing", ONLY_TVM, "(reverse_)?compute_at",
          r"requires all the (consumers|producers) of .*; \S+_common is outside it"),
    Known("lost iterations", ONLY_TVM, "reverse_compute_at", "would not run for all of its iterations"),
    Known("unwritten operands", ONLY_TVM, "(reverse_)?compute_(at|inline)",
          "reads more of .* has written by then|overwrites .* has read it"),
    Known("merged against the order", ONLY_TVM, "merge", "against the order of the program|stands (between|after)"),
    Known("dependences of merged loops", ONLY_TVM, "merge", "depends on block .* in a later iteration"),
    Known("late initial values", ONLY_TVM, "reorder", "together: its init might run late"),
    Known("idle consumers", ONLY_TVM, "cache_(read|write)", "consumer block .* does not read"),
    Known("caches of updates", ONLY_TVM, "(reindex_)?cache_write", "in place, and the copy would start"),
    Known("caches of updates", ONLY_TVM, "reindex", "which another block has initialised"),
    Known("copies with holes", ONLY_TVM, "cache_(write|inplace)", "not known to store all elements",
          right=(True, False)),
    Known("copies with holes", ONLY_TVM, "write_at", "is not known that loop .* writes all of the region"),
    Known("copies back of what is only read", ONLY_TVM, "cache_inplace", "does not both read and write"),
    Known("copies of initial values", ONLY_TVM, "write_at", r"is also written by \S+, outside of loop"),
    Known("copies past the edge", ONLY_TVM, "(read|write)_at", "may leave dimension"),
    Known("consumers inside blocks", ONLY_TVM, "cache_(read|write)", "consumer block .* is inside"),
    Known("copies past the edge", ONLY_TVM, "reverse_compute_inline", "would miss a part of its domain"),
    Known("reduced again", ONLY_TVM, "reverse_compute_at", "overlap or repeat, so elements would be accumulated"),
    Known("copies that nobody reads", ONLY_TVM, "cache_read", "is written inside block .*, which does not declare it",
          right=(True,)),
    Known("copies that overlap", ONLY_TVM, "reindex_cache_(read|write)", "a sum of overlapping iterators has no inverse"),
    Known("reads ahead of the writer", ONLY_TVM, "cache_read|reindex|reindex_cache_(read|write)",
          "reads more of .* has written by then|overwrites .* has read it"),
    Known("copies made again and again", ONLY_TVM, "reindex", "does not run over the whole domain"),
    Known("functions of partial sums", ONLY_TVM, "fuse_reduction_epilogue", "may act on in every step"),
    Known("inits lost in fusing", ONLY_TVM, "fuse_reduction_epilogue", "must each be a single store"),
    Known("partial results of nothing", ONLY_TVM, "rfactor",
          "under a predicate on its reduction|repeats block .* no iterator uses it"),
    Known("joined and kept", ONLY_TVM, "blockize", "nested in each other|stands inside block"),
    Known("joined without the rest", ONLY_TVM, "blockize", "shares its loops with other blocks"),
    Known("joined under one condition", ONLY_TVM, "blockize", "under the same outer conditions as", right=(False, None)),
    Known("joined by position", ONLY_TVM, "blockize", "over the same outer iterators as"),
    Known("reductions cut in parts", ONLY_TVM, "loop_partition", "whose init would run once per part"),
    Known("zeros in a maximum", ONLY_TVM, "pad_einsum", "zeros would change its result|adds terms that are not zero"),
    Known("operands filled in shared loops", ONLY_TVM, "pad_einsum", r"is filled in the loops that block \S+ shares"),
    Known("loops that run further", ONLY_TVM, "pad_einsum", r"loop \S+, which has to run further, holds more than"),
    Known("padded assumptions", ONLY_TVM, "pad_einsum", "does more than store values"),
    Known("results stored in part", ONLY_TVM, "pad_einsum",
          "runs over a part of iterator|(does not run|not known that block .* runs) over the whole domain|"
          "which has values from elsewhere"),
    # We are stricter than correctness asks.
    Known("iterators that move windows", ONLY_TVM, "(reverse_)?compute_at", "cannot be solved for one iterator", right=(True,)),
    Known("divisions that are not found", ONLY_TVM, "blockize", "cannot be divided at loop", right=(True,)),
    Known("shared loops", ONLY_TVM, "reindex|transform_block_layout", "shares its loops with (other|block)"),
    Known("reorder under a predicate", ONLY_TVM, "reorder", "its predicate ties several of them", right=(True,)),
    Known("conditions over several iterators", ONLY_TVM, "(reverse_)?compute_at", "cannot be told in terms of its iterators"),
    Known("predicates over several loops", ONLY_TVM, "reindex_cache_(read|write)", "ties loops that index",
          right=(False,)),
    # TVM fails with an error of its own where the request is legal.
    Known("constants in index maps", BREAKS, "transform_layout|transform_block_layout|reindex_cache_.*",
          tvm="Expected mapping function to return", right=(True,)),
    Known("patterns of regions", BREAKS, "(reverse_)?compute_at", tvm="BufferRegion pattern match failed"),
    Known("rfactor beside other statements", BREAKS, "rfactor", tvm="block_realize == old_block_realize_"),
    Known("TVM's process ends", BREAKS, ".*", tvm="the process ended|no answer within"),
    Known("layouts of blockized programs", BREAKS, "transform_layout", tvm="IndexError", right=(True,)),
    Known("fewer than two tables", BREAKS, "cache_index", tvm=r"SeqStmt|seq\.size\(\)", right=(True,)),
    Known("merge of neighbours", BREAKS, "merge", tvm="SeqStmt"),
    Known("partitions of partitions", BREAKS, "loop_partition", tvm="not in Map"),
    Known("maps that count down", UNREAD, "transform_layout", "an extent is not negative"),
    Known("maps that count down", BREAKS, "transform_(block_)?layout", tvm=r"is_zero\(range->min\)", right=(True,)),
    Known("internal errors of TVM", BREAKS, ".*", right=(True, None)),
    # We take more, and the result is right.
    Known("blocks that TVM lacks by now", ONLY_OURS, ".*", tvm="Cannot find a block with the specified name", right=(True,)),
    Known("more is proven here", ONLY_OURS, ".*", right=(True,)),
    # Both take it; the programs differ.
    Known("insides of fused loops", DIFFERENT, "decompose_padding",
          r"ours \w+ = T\.axis\.spatial\((\d+), .*\| tvm \w+ = T\.axis\.spatial\((?!\1,).*tvm's right: True", right=(True,)),
    Known("annotations of padded blocks", DIFFERENT, "decompose_padding", r"ours T\.sblock_attr\(.*\| tvm (?!T\.sblock_attr)",
          right=(True,)),
    Known("annotations given again", DIFFERENT, "(un)?annotate", "note"),
    Known("accesses inside nested blocks", DIFFERENT, "reindex_cache_(read|write)|reindex", "tvm T.reads", right=(True, None)),
    Known("extents that vary", DIFFERENT, ".*",
          r"ours for [\w, ]+ in (T\.grid|range)\([\d, ]+\): \| tvm for [\w, ]+ in (T\.grid|range)\([^|]*[a-z][^|]*\): \| "
          "tvm's right: True", right=(True,)),
    Known("iterations numbered anew", DIFFERENT, "blockize",
          r"ours \w+ = T\.axis\.spatial\((\d+), .*\) \| tvm \w+ = T\.axis\.spatial\(\1, .*tvm's right: True", right=(True,)),
    Known("initial values of fused sums", DIFFERENT, "fuse_reduction_epilogue",
          r"ours (\w+\[.*?\]) = ((.*) \+ -?\d+ \| tvm \1 = \3|-?\d+ \| tvm \1 = 0) \| tvm's right", right=(True,)),
    Known("iterators that stay spatial", DIFFERENT, "rolling_buffer",
          r"ours [\w, ]+ = T\.axis\.\w+\(.*\| tvm \w+ = T\.axis\.opaque\(.*tvm's right: True", right=(True,)),
    Known("the first iteration", DIFFERENT, ".*", r"ours T\.where\((\w+) <= 0\) \| tvm T\.where\(\1 == 0\) \| tvm's right: True",
          right=(True,)),
    Known("halves rounded up", DIFFERENT, ".*", r"ours .*// 2 \+ .*% 2.*\| tvm .*\+ 1\) // 2.*tvm's right: True", right=(True,)),
    Known("tables of constants", DIFFERENT, ".*",
          r"tvm index_var_\d+ = T\.sblock_alloc_buffer.*tvm's right: True", right=(True,)),
    Known("sums of what is read", DIFFERENT, ".*",
          r"ours (\S+\[.*?\]) = .*?(\w+\[[^\]]*\]).* - .*\2.* \| tvm \1 = .*tvm's right: True", right=(True,)),
    Known("order in a joined block", DIFFERENT, "blockize", r"(outer_|T\.(reads|writes)).*tvm's right: True",
          right=(True,)),
    Known("regions after inlining", DIFFERENT, "(reverse_)?compute_inline",
          r"ours T\.(reads|writes).* tvm T\.(reads|writes)", right=(True,)),
    Known("extents that vary", DIFFERENT, "cache_(read|write)", r"tvm .*(grid|range|alloc_buffer)\(.*T\.(max|min)\(",
          right=(True,)),
    Known("copies for all threads", DIFFERENT, "cache_(read|write)", r"ours for (ax\w+) in range\(.* tvm for \1 in range\(",
          right=(True,)),
    Known("needs of simpler accesses", DIFFERENT, "(reverse_)?compute_at",
          r"ours with T\.sblock\(\S+\): \| tvm for ax\d+ in range\(\d+\): \| tvm's right: True", right=(True,)),
    Known("corners of what a block reads", DIFFERENT, "(reverse_)?compute_at",
          r"ours T\.where\(([^|]*)\) \| tvm T\.where\([^|]* % \d+ < [^|]*\) \| tvm's right: True", right=(True,)),
    Known("accesses to a block's own memory", UNREAD, ".*", tvm=r"(\w+) = T\.Buffer\(.*\b\1 = T\.sblock_alloc_buffer\(",
          right=(True,)),
    Known("order of a copy's iterators", DIFFERENT, "(read|write)_at",
          r"ours (v\d+(?:, v\d+)*) = T\.axis\.remap\(.*\| tvm \1 = T\.axis\.remap\(.*tvm's right: True", right=(True,)),
    Known("iterators with one value", REPLAY, ".*", "tvm's right: True", "values to unpack", right=(True,)),
    Known("iterators with one value", DIFFERENT, "reindex",
          r"ours (\w+_reindex) = T\.sblock_alloc_buffer\(.*\| tvm \1 = T\.sblock_alloc_buffer\(.*, 1\b.*tvm's right: True",
          right=(True,)),
    Known("tables that nobody declares to read", DIFFERENT, "(reverse_)?compute_at", r"tvm index_var_\d+ = .*tvm's right: True",
          right=(True,)),
    Known("tables that nobody declares to read", UNREAD, "(reverse_)?compute_inline", r"index_var_\d+: a buffer inside",
          right=(True,)),
    # What TVM makes of it does not compute what the program computes.
    Known("TVM's result is wrong", ONLY_TVM, ".*", right=(False,)),
    Known("TVM's program is wrong", DIFFERENT, ".*", "tvm's right: False", right=(True, None)),
    Known("TVM's program is wrong", REPLAY, ".*", "tvm's right: False", right=(True, None)),
    Known("TVM drops a predicate", DIFFERENT, ".*", r"ours T\.where.* tvm T\.reads", right=(True, None)),
)


# What is behind each name; fuzz_findings.md is written from it.
REASONS: dict[str, str] = {
    "stores of partial results": (
        "`reverse_compute_at` under a reduction loop stores partial results in every iteration. TVM takes it; here it "
        "is refused with the cost, or placed with `last_iteration=True`."
    ),
    "consumers before producers": (
        "`compute_at`/`reverse_compute_at` to a place where the block would run after a block that reads its result, or before "
        "one whose result it reads. TVM looks only at the blocks below the loop; its result is wrong, or agrees because the "
        "value does not matter (`x - x`, a buffer that nothing reads)."
    ),
    "consumers that declare nothing": (
        "`compute_at` of a block that is also read inside the nested blocks of `loop_partition`, which declare no accesses, or "
        "`reverse_compute_at` of one whose input is also written there: TVM does not see that block, and its result is right "
        "only where the order happens to stay."
    ),
    "lost iterations": (
        "The moved block would not run for all of its iterations (borders that no producer instance covers). TVM leaves those "
        "elements without a value; its result is wrong wherever they are used."
    ),
    "unwritten operands": (
        "A block of the program before the step reads elements in iterations in which they are not all written, and stores its "
        "result again when they are; or their layout (rows that flow into each other) does not let the contrary be shown. "
        "TVM does not check that at this step. Its result is the same, but nothing more may rest on such a program here."
    ),
    "merged against the order": (
        "`merge` of loops given against the order of the program, or with a block between them that depends on them. TVM "
        "asks for no dependence: it runs the consumer before its producer, and the result agrees only where the value does "
        "not matter."
    ),
    "dependences of merged loops": (
        "`merge` asks here that no block needs what another one computes in a later iteration, which is shown dimension by "
        "dimension (`v // 4` and `v % 4` apart do not show it). TVM asks for no dependence at all."
    ),
    "late initial values": (
        "`reorder` of two loops that both drive spatial and reduction iterators (parts of a fused loop): the instance with the "
        "init may come after others. TVM takes it; its result is wrong, or agrees because the value does not matter."
    ),
    "idle consumers": (
        "`cache_read`/`cache_write` with a `consumer_blocks` entry that does not read the buffer: TVM ignores it, here "
        "it is named."
    ),
    "caches of updates": (
        "A block that updates a buffer in place needs what the buffer holds; a copy that it alone uses starts without that. "
        "TVM takes it, and its program reads memory that nothing has stored; the results agree only where the value does not "
        "matter (`x - x`)."
    ),
    "copies with holes": (
        "`cache_write` stores back the whole box between the first and the last element. Where the writer leaves elements out "
        "and the buffer may hold something there, TVM overwrites it with what nothing has stored; here that is refused. Its "
        "results agree where the copy's memory happens to keep what an earlier instance of the scope stored, or where a later "
        "instance makes them right."
    ),
    "copies back of what is only read": (
        "`cache_inplace` of a buffer that the block does not write: TVM copies it in, and nothing back; here `cache_read` "
        "is named."
    ),
    "the first iteration": "`i <= 0` and `i == 0` of a loop that starts at 0 are the same condition.",
    "halves rounded up": "`x // 2 + x % 2` and `(x + 1) // 2` are the same number.",
    "copies of initial values": (
        "`write_at` around the init that `decompose_reduction` split off: another block goes on in the buffer itself. TVM copies "
        "the init alone. Stricter than needed."
    ),
    "copies past the edge": (
        "TVM's `cache_read`, `read_at` and `write_at` copy past the end of a buffer where a predicate or a padded access keeps "
        "the program itself inside. Here `read_at` and `write_at` refuse that; copies of `cache_read` end at the edge, and a "
        "block that runs further is not inlined into them by `reverse_compute_inline`."
    ),
    "reduced again": (
        "`reverse_compute_at` of a reduction into loops that reach an element several times. TVM does not look; its result is "
        "right for a maximum or where a predicate leaves one of these iterations, and wrong for a sum."
    ),
    "iterators that stay spatial": (
        "`rolling_buffer` in TVM makes iterators opaque in blocks that do not use the rolled buffer, too."
    ),
    "tables of constants": (
        "`cache_index` in TVM makes tables for constants and for iterators with one value, too; the values are the same."
    ),
    "consumers inside blocks": (
        "`consumer_blocks` that stand inside a block of the scope: TVM lets only these use the copy; here the block of the scope "
        "is to be named. Stricter than needed."
    ),
    "copies that nobody reads": (
        "`cache_read` of what `loop_partition` left inside blocks that declare nothing: TVM takes the buffer for an input and "
        "copies it before it is written. Its result is right only where the consumers it is given do not read the copy."
    ),
    "copies that overlap": (
        "An index map of `reindex_cache_read`/`reindex_cache_write` that gives several elements of the buffer one place in the "
        "copy. TVM takes it; the results agree only by luck."
    ),
    "reads ahead of the writer": (
        "The reader runs over elements that are written later, and stores what depends on them again when they are. The copy "
        "would be made of values that nothing has stored yet; TVM does not see that."
    ),
    "copies made again and again": (
        "`reindex` of a written buffer inside a scope where the block covers its iterators only over the iterations around the "
        "scope: TVM copies the whole buffer back in each of them, unwritten elements included, and the last copy makes it right."
    ),
    "functions of partial sums": (
        "`fuse_reduction_epilogue` of a function other than an addition applies it to every partial sum, which TVM accepts "
        "whatever comes out. Here it is taken where the result is proven to be the same (a copy, a clip of a minimum or "
        "maximum, a clip that sums reach from one side only) and refused elsewhere; what TVM makes of the rest is "
        "wrong, or right where the function does not look at the sum."
    ),
    "reductions cut in parts": "`loop_partition` of a reduction loop would run the block's init once per part.",
    "zeros in a maximum": (
        "`pad_einsum` of a reduction that zeros can change (a maximum, a minimum, a sum of other terms). TVM runs it over "
        "the zeros; whether the result is right depends on the data."
    ),
    "operands filled in shared loops": (
        "`pad_einsum` of a block whose operand another block fills in the same loops. TVM copies the operand before it is "
        "filled, and lets the producer store to the enlarged copy: the operand itself keeps no values."
    ),
    "loops that run further": (
        "`pad_einsum` lengthens a loop that holds other blocks as well; TVM runs those more often, too, which is right only "
        "if they may be repeated."
    ),
    "padded assumptions": (
        "`pad_einsum` of a block with side effects, such as the `T.assume` of a padded layout: TVM lets it run further, and so "
        "assumes something of elements that do not exist. The result is the same."
    ),
    "results stored in part": (
        "`pad_einsum` of a block that does not store all that is copied back afterwards, for instance padding that was "
        "declared before: TVM copies elements that have no value, or over the values of other blocks."
    ),
    "inits lost in fusing": (
        "`fuse_reduction_epilogue` of a reduction that holds blocks of its own: TVM replaces its init by a single store of "
        "the addend and initialises one element at most, with 0 where there is none; here it is refused."
    ),
    "partial results of nothing": (
        "`rfactor` of a loop some iterations of which a predicate leaves without any work: their partial results never get "
        "an initial value, and TVM combines them all the same. Here it is refused. The "
        "result agrees where the memory happens to hold zeros or the value does not matter (`x - x`)."
    ),
    "iterators that move windows": (
        "Stricter than needed: a block of which an instance stores several elements with a stride (`read_at`'s copies) is not "
        "moved, since no iterator can be told from an element; TVM runs all of its iterations."
    ),
    "divisions that are not found": (
        "Stricter than needed: `blockize` where a predicate ties the loops above and below, which TVM divides."
    ),
    "order of a copy's iterators": "`read_at` and `write_at` bind the loops of a copy in the order of its indices, TVM does not.",
    "shared loops": "Stricter than needed where the value does not matter: the block shares its loops with others that need it.",
    "joined without the rest": (
        "`blockize` of several blocks one of which has others beside it in its own loops: TVM puts the joined block in "
        "place of those loops and drops the other blocks, whose results are missing; here it is refused."
    ),
    "joined under one condition": (
        "`blockize` of several blocks under different conditions: TVM puts all of them under the condition of the last one."
    ),
    "joined by position": (
        "`blockize` of several blocks: TVM pairs their iterators by position and lets a block with fewer of them, or with a "
        "reduction where the others are spatial, run along. The joined block then claims instances that are independent, and "
        "several of them write the same elements. Here that is taken only where there is one instance."
    ),
    "joined and kept": (
        "`blockize` of blocks one of which stands inside another block: TVM joins copies of their statements and keeps the "
        "originals, so that part of the program runs twice; where the two read and write the same buffer, it is wrong."
    ),
    "initial values of fused sums": (
        "`fuse_reduction_epilogue` of a sum that starts with another value than 0, or of a maximum: TVM starts from the addend "
        "or from 0 and loses that value, even where nothing that the program returns depends on it; here it is kept."
    ),
    "sums of what is read": (
        "TVM's simplifier cancels values that are read (`A[i] + 2 - A[i]`) where a block is rewritten; here stored values "
        "stay as they are written, and the results are equal."
    ),
    "iterations numbered anew": (
        "Where several iterations of the loops give the same value of an iterator (`i + k`), TVM's `blockize` numbers the "
        "iterations anew, so that each value comes once, in another iteration than before; here the binding stays. "
        "Where a consumer in the same loop needs the value earlier, TVM's program is wrong; the others compute the same."
    ),
    "reorder under a predicate": (
        "`reorder` of loops that a predicate ties together: both refuse it, as TVM's tests ask, but TVM keeps what it knew "
        "of a block's binding before `rfactor` or `split` made the predicate, and takes some. Stricter than needed."
    ),
    "conditions over several iterators": (
        "Stricter than needed: a block moves away from loops whose predicate is no condition on one of its iterators "
        "(windows that overlap). TVM drops the condition, and the block runs for more values than before."
    ),
    "predicates over several loops": (
        "A predicate ties loops that index the copy to loops that do not, so the copy has no predicate of its own. TVM leaves "
        "the predicate out; its copy runs outside its domain."
    ),
    "constants in index maps": "TVM raises an error of its own for a map with a constant result.",
    "patterns of regions": "TVM: BufferRegion pattern match failed.",
    "rfactor beside other statements": "TVM's internal check fails although the request is legal.",
    "fewer than two tables": (
        "TVM's `cache_index` puts its tables into a sequence of statements, and fails an internal check where there is one or "
        "none; here one is fine, and none leaves the program as it is."
    ),
    "TVM's process ends": "TVM's process ends (segmentation fault or abort) or gives no answer in 25 seconds.",
    "layouts of blockized programs": "TVM raises IndexError for a layout change of a blockized program.",
    "merge of neighbours": "TVM's merge fails with an internal error.",
    "partitions of partitions": "TVM's loop_partition fails on its own result.",
    "maps that count down": (
        "Index maps with a negative coefficient: TVM fails, gives the buffer the extent -1, or leaves other but equivalent "
        "extents."
    ),
    "internal errors of TVM": "Other internal errors of TVM on requests that are legal here and compute the right result.",
    "blocks that TVM lacks by now": (
        "An earlier step that both took left other blocks there (`blockize` of blocks given out of order, `transform_layout` "
        "with padding that TVM stores in place of the program's values); the results are compared and explained there."
    ),
    "more is proven here": "TVM refuses what the simplifier here can prove; running it gives the right result.",
    "TVM's result is wrong": "Only TVM takes it, and its program computes something else.",
    "TVM's program is wrong": (
        "Both take it; running TVM's program gives other values than the unscheduled one, ours the same."
    ),
    "TVM drops a predicate": "TVM drops the predicate of a moved or joined block.",
    "accesses inside nested blocks": "Declared accesses of nested blocks are spelled differently; the same elements.",
    "extents that vary": (
        "Where the number of iterations varies from place to place, TVM's loop has an extent that varies; here the loop has "
        "the largest number, and a predicate leaves out the rest: the same instances."
    ),
    "order in a joined block": (
        "`blockize` of several blocks that are given in another order than that of the program: TVM runs them in the order "
        "given, here they keep theirs, which is right even where one needs the other; accesses are listed accordingly."
    ),
    "regions after inlining": "Declared reads after inlining are spelled differently.",
    "iterators with one value": (
        "`reindex` gives the copy a dimension for every iterator that the index mentions. After a change of layout TVM's index "
        "still mentions an iterator of extent 1 in a term that is always 0, ours is simplified: the copy has a 1 less."
    ),
    "tables that nobody declares to read": (
        "TVM's `cache_index` does not declare that the block reads the tables, so its `compute_inline` of a table's block finds "
        "no consumer, and takes the buffer away from under the block that fills it. Here the table is inlined."
    ),
    "copies for all threads": (
        "Under a thread loop TVM copies the elements of all threads in each of them, here each thread copies its own."
    ),
    "insides of fused loops": (
        "`decompose_padding` under fused loops, where the inside is no box of loops: both keep the condition; the iterators' "
        "domains here are as narrow as it makes them, TVM's are not always."
    ),
    "annotations of padded blocks": (
        "`decompose_padding` splits a block in two. The one that moves the data keeps the block's annotations here (storage "
        "alignment among them); TVM drops them."
    ),
    "needs of simpler accesses": (
        "After a layout change an index that can only be one value is written as that value here and stays a formula in TVM, "
        "whose moved block then gets a loop, under a predicate, where here it needs none."
    ),
    "corners of what a block reads": (
        "Where a block reads through a flat layout, TVM takes the first and the last element for the corners of a box of its "
        "iterators; elements between them (another column) are lost. Here each element is followed. Results agree only where "
        "the value does not matter."
    ),
    "accesses to a block's own memory": (
        "TVM declares, outside a block, that it reads memory which the block itself allocates (`pad_einsum` inside another "
        "block, then inlining); the text that it prints then declares that memory twice."
    ),
    "annotations given again": "An annotation given twice.",
}


def explain(kind: str, op: str, ours: str, tvm: str, right: bool | None) -> str | None:
    """The name of the known reason for a disagreement, or None. Nothing explains a wrong program that is accepted here."""
    if right is False and kind != ONLY_TVM:
        return None
    for k in KNOWN:
        if k.kind == kind and right in k.right and re.fullmatch(k.op, op) and re.search(k.ours, ours, re.DOTALL):
            if re.search(k.tvm, tvm, re.DOTALL):
                return k.name
    return None
