"""Annotations of loops and blocks: the channel through which a schedule speaks to lowering."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from autosched.errors import suggest
from autosched.ir.annotation import plain_value
from autosched.ir.stmt import Annotations, Block, For, Stmt
from autosched.schedule.analysis.ways import annotated_with
from autosched.schedule.kit.base import ArgumentError, BlockRV, ExprRV, LoopRV, ScheduleBase
from autosched.schedule.kit.primitive import primitive
from autosched.schedule.kit.state import State


class Notes(ScheduleBase):
    """Annotate and unannotate."""

    @primitive(local="handles")
    def annotate(self, block_or_loop: BlockRV | LoopRV | str, ann_key: str, ann_val: Any) -> None:
        """Attaches a value to a block or a loop.

        Args:
            block_or_loop: handle, or a block's name.
            ann_key: key, e.g. ``vta.loop`` or ``software_pipeline_stage``; an existing value is replaced.
            ann_val: number, string, bool, None, or list or dict of those; a sampled integer stands for its value.

        Raises:
            ArgumentError: the value is something else, which neither text nor traces could hold.

        Before::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2

        After ``sch.annotate(sch.get_axis("i"), "vta.loop", "unroll")``::

            for i in T.serial(16, annotations={"vta.loop": "unroll"}):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2
        """
        state, node = self._annotated(block_or_loop)
        try:
            value = plain_value(self._plain(ann_val), "argument 'ann_val'")
        except TypeError as error:
            raise ArgumentError("annotate", str(error)) from None
        self._annotate(state, node, {**node.annotations, ann_key: value})

    @primitive
    def unannotate(self, block_or_loop: BlockRV | LoopRV | str, ann_key: str) -> None:
        """Removes an annotation.

        Args:
            block_or_loop: handle, or a block's name.
            ann_key: key that is there.

        Raises:
            ScheduleError: there is no such annotation.

        Before::

            for i in T.serial(16, annotations={"vta.loop": "unroll"}):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2

        After ``sch.unannotate(sch.get_axis("i"), "vta.loop")``::

            for i in range(16):
                with T.sblock("C"):
                    vi = T.axis.spatial(16, i)
                    C[vi] = A[vi] * 2
        """
        state, node = self._annotated(block_or_loop)
        if ann_key not in node.annotations:
            mark = node.var if isinstance(node, For) else node.ident
            known = list(node.annotations)
            self.refuse(f"there is no annotation {ann_key!r}{suggest(ann_key, known)}", [mark], state=state,
                        hint=annotated_with(state, node, ann_key), code="name")
        self._annotate(state, node, {k: v for k, v in node.annotations.items() if k != ann_key})

    def _annotated(self, rv: BlockRV | LoopRV | str) -> tuple[State, Block | For]:
        if isinstance(rv, LoopRV):
            return self.loop_at(rv)
        assert isinstance(rv, BlockRV)
        state, realize = self.block_at(rv)
        return state, realize.block

    def _annotate(self, state: State, node: Block | For, annotations: Annotations) -> None:
        new: Stmt = replace(node, annotations=annotations)
        self.commit_nodes(state, {id(node): new})

    def _plain(self, value: Any) -> Any:
        if isinstance(value, ExprRV):
            return self.int_of(value)
        if isinstance(value, list | tuple):
            return [self._plain(v) for v in value]
        if isinstance(value, dict):
            return {k: self._plain(v) for k, v in value.items()}
        return value
