"""The tests here start the real coding agents: `make harness`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.harness.isolation import is_isolated
from tests.harness.scripted_model import Rule, handle_messages
from tests.harness.stage import HarnessStage, a_stage

Stages = Callable[..., HarnessStage]


@pytest.fixture(scope="session", autouse=True)
def isolated() -> None:
    """Nothing of these programs may reach the network."""
    if not is_isolated():
        pytest.exit("these tests run without a network; start them with: make harness", returncode=2)


@pytest.fixture
def stages() -> Iterator[Stages]:
    """Makes coding agents with their models, and removes them after the test."""
    with ExitStack() as stack:

        def make(name: str, rule: Rule = handle_messages, *, record: bool = False) -> HarnessStage:
            return stack.enter_context(a_stage(name, rule, record=record))

        yield make
