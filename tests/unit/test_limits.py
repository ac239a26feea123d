"""How much a program may be: at each counted limit it is built and measured, one beyond it is a refusal that says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np
import pytest

from autosched.errors import LoweringError, ProgramError
from autosched.kernel import build
from autosched.lower import limits, lower_table
from autosched.measure import Candidate, measure
from autosched.script import parse
from autosched.workloads import workload
from sim import legality, timing
from sim.config import VTAConfig
from space import Space

NAME = "dense:m=3,k=64,n=96,bias=1"


@pytest.fixture(scope="module")
def candidate() -> Candidate:
    space = Space(workload(NAME).func, "vta-de10")
    return Candidate(NAME, "vta-de10", tuple(space.trace(space.sample(np.random.default_rng(0), 1)[0]).as_json()))


def counted(candidate: Candidate) -> dict[str, int]:
    """What the candidate's program is."""
    low = build(workload(NAME), "vta-de10", candidate.trace).lowered
    work = int(legality.work(low.table, low.config, "chisel").sum())
    return {"instructions": len(low.table), "uops": len(low.triples), "work": work}


@pytest.mark.parametrize("what", ["instructions", "uops", "work"])
def test_a_candidate_is_measured_at_its_limit_and_refused_beyond(
    what: str, candidate: Candidate, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, found = measure(candidate), counted(candidate)
    assert free.ok and found[what] > 1
    monkeypatch.setattr(limits, "LIMITS", replace(limits.LIMITS, **{what: found[what]}))
    assert measure(candidate) == free
    monkeypatch.setattr(limits, "LIMITS", replace(limits.LIMITS, **{what: found[what] - 1}))
    refused = measure(candidate)
    assert (refused.status, refused.cycles) == ("lowering", None)
    assert refused.reason.startswith("capacity: ") and f"at most {found[what] - 1}" in refused.reason


def test_bursts_are_counted_as_well(candidate: Candidate, monkeypatch: pytest.MonkeyPatch) -> None:
    low = build(workload(NAME), "vta-de10", candidate.trace).lowered
    free = measure(candidate)
    ran = timing.simulate(low.table, low.config, low.insn_address)
    happened = int((ran.bursts[:, 0] != timing.CLIENT_NAMES.index("fetch")).sum())
    # Counted without regard to where rows begin: a row may touch one burst more than its size needs.
    most = int(timing._prepare(low.table, low.config, low.insn_address, "chisel").bursts.sum())
    assert 0 < happened <= most
    monkeypatch.setattr(timing, "MAX_BURSTS", most)
    assert measure(candidate) == free
    monkeypatch.setattr(timing, "MAX_BURSTS", most - 1)
    refused = measure(candidate)
    assert (refused.status, refused.cycles) == ("simulation", None)
    assert "too many bursts to simulate" in refused.reason


def test_a_space_is_refused_where_no_candidate_could_be_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    func = workload(NAME).func
    least = 3 * 4 * 6 + 2 * 3 * 6
    monkeypatch.setattr(limits, "LIMITS", replace(limits.LIMITS, work=least))
    assert Space(func, "vta-de10").sketches
    monkeypatch.setattr(limits, "LIMITS", replace(limits.LIMITS, work=least - 1))
    with pytest.raises(ProgramError, match=f"computes {least} elements or more; at most {least - 1} can be checked"):
        Space(func, "vta-de10")


def test_a_product_of_a_small_array_is_work_too() -> None:
    assert [limits.least_work(10, 3, VTAConfig(LOG_BLOCK=b)) for b in (3, 4, 5)] == [10 + 6, 10 + 6, 40 + 6]


def test_a_layer_that_is_too_large_is_one_line(command: Callable[..., tuple[int, str, str]], tmp_path: object) -> None:
    code, out, err = command("tune", "dense:m=8192,k=4096,n=4096", "--log", str(tmp_path))
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1 and f"at most {limits.LIMITS.work} can be checked" in err


def test_the_limits_are_what_the_runtime_holds_and_the_simulator_executes() -> None:
    assert asdict(limits.LIMITS) == {"instructions": (32 << 20) // 16, "uops": (32 << 20) // 4, "work": legality.MAX_WORK}


def test_a_program_of_too_many_instructions_is_refused_before_it_is_built() -> None:
    """A copy element by element: the grid of its instances alone would take gigabytes."""
    def copies(n: int) -> str:
        return f'''
from tvm.script import tir as T
@T.prim_func
def main(a: T.Buffer(({n}, 64, 16), "int32"), out: T.Buffer(({n}, 64, 16), "int8")):
    x = T.alloc_buffer((1, 64, 16), "int32", scope="local.acc_buffer")
    for i in range({n}):
        for j, l in T.grid(64, 16):
            with T.block("load"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                x[0, vj, vl] = a[vi, vj, vl]
        for j, l in T.grid(64, 16):
            with T.block("add"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                x[0, vj, vl] = x[0, vj, vl] + 1
        for j, l in T.grid(64, 16):
            with T.block("store"):
                vi, vj, vl = T.axis.remap("SSS", [i, j, l])
                out[vi, vj, vl] = T.cast(x[0, vj, vl], "int8")
'''

    with pytest.raises(LoweringError, match=r"block \w+ becomes \d+ instructions; a program has at most 2097152"):
        lower_table(parse(copies((1 << 21) + 1)), "vta-de10")
