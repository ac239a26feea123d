"""Random schedules of matrix products and convolutions: what the machine writes is what the interpreter says, without races."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TARGETS = ("vta-de10", "vta-de10-portable", "vta-fsim", "vta-ultra96")
FEW = settings(max_examples=20, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=1000, suppress_health_check=list(HealthCheck))


def a_convolution(vta_schedules: ModuleType, data: st.DataObject) -> None:
    def choose(options):  # type: ignore[no-untyped-def]
        return data.draw(st.sampled_from(list(options)))

    k = choose([1, 3])
    tail = choose(["requant", "cast"])
    name = (
        f"conv2d:h={choose([4, 5, 7, 8])},w={choose([3, 5, 6, 8])},ci={16 * choose([1, 2, 3])},co={16 * choose([1, 2, 4])},"
        f"k={k},stride={choose([1, 2])},pad={choose([0, 1]) if k == 3 else 0},tail={tail}" + (",bias=0" if tail == "cast" else "")
    )
    vta_schedules.verify(vta_schedules.conv2d(choose, name).mod["main"], choose(TARGETS))


def a_product(vta_schedules: ModuleType, data: st.DataObject) -> None:
    def choose(options):  # type: ignore[no-untyped-def]
        return data.draw(st.sampled_from(list(options)))

    tail = choose(["requant", "cast"])
    bias = choose([0, 1]) if tail == "requant" else 0
    name = f"dense:m={choose([1, 3, 4, 6])},k={16 * choose([1, 2, 4, 6])},n={16 * choose([1, 2, 3, 4])},tail={tail},bias={bias}"
    vta_schedules.verify(vta_schedules.dense(choose, name).mod["main"], choose(TARGETS))


@FEW
@given(data=st.data())
def test_convolutions(vta_schedules: ModuleType, data: st.DataObject) -> None:
    a_convolution(vta_schedules, data)


@FEW
@given(data=st.data())
def test_products(vta_schedules: ModuleType, data: st.DataObject) -> None:
    a_product(vta_schedules, data)


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_many_convolutions(vta_schedules: ModuleType, data: st.DataObject) -> None:
    a_convolution(vta_schedules, data)


@pytest.mark.slow
@MANY
@given(data=st.data())
def test_many_products(vta_schedules: ModuleType, data: st.DataObject) -> None:
    a_product(vta_schedules, data)
