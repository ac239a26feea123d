"""Where the tests of apache/tvm are, for ``pytest tests/peer --tvm-tests PATH``."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The path; without it the peer suite is skipped."""
    parser.addoption("--tvm-tests", action="append", default=[],
                     help="checkout of apache/tvm v0.26.0 or v0.18.0, or its folder of schedule tests; may be repeated")
