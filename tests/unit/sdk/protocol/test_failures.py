"""A failure of an agent travels in its answer, and grows a chain on its way."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.errors.team import AgentFailed
from parley.sdk.agent.calling import failure_of
from parley.sdk.protocol.failures import Failure, check_answer, failure_in
from parley.wire.api.records.channels import ChannelMessage


def an_answer(payload: dict[str, Any], metadata: dict[str, Any], sender: str = "writer") -> ChannelMessage:
    return ChannelMessage(
        id="msg_1",
        channel_id="chan_1",
        sender=sender,
        message_type="response",
        payload=payload,
        metadata=metadata,
        created_at=datetime(2026, 3, 1, tzinfo=UTC),
    )


def failed_answer(failure: Failure, sender: str) -> ChannelMessage:
    return an_answer(failure.payload(sender), failure.metadata, sender)


def test_an_answer_that_is_none_raises_with_agent_code_reason_and_the_answer() -> None:
    answer = failed_answer(Failure("handler_failed", "ValueError: no ink"), "writer")

    with pytest.raises(AgentFailed) as caught:
        check_answer(answer)

    error = caught.value
    assert str(error) == "writer: ValueError: no ink"
    assert (error.code, error.agent, error.chain, error.reason) == (
        "handler_failed", "writer", ("writer",), "ValueError: no ink",
    )  # fmt: skip
    assert error.answer is answer


def test_a_real_answer_is_returned() -> None:
    answer = an_answer({"error": 0.02, "mean": 4.1}, {})

    assert check_answer(answer) is answer


@given(st.integers(1, 40))
def test_the_chain_grows_hop_by_hop_keeps_the_cause_and_stays_bounded(hops: int) -> None:
    failure, errors = Failure("not_found", "no such dataset"), []
    for hop in range(hops):
        with pytest.raises(AgentFailed) as caught:
            check_answer(failed_answer(failure, f"agent-{hop}"))
        errors.append(caught.value)
        failure = failure_of(caught.value)

    error = errors[-1]
    assert (error.code, error.reason) == ("not_found", "no such dataset")
    assert (error.agent, error.chain[0], error.chain[-1]) == (f"agent-{hops - 1}", f"agent-{hops - 1}", "agent-0")
    assert len(error.chain) <= 10
    if hops <= 10:
        assert error.chain == tuple(f"agent-{hop}" for hop in reversed(range(hops)))
    else:
        assert error.chain[-2] == "..."


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["message", "chain", "code"]), inner),
    max_leaves=8,
)


@given(json_values, json_values)
def test_whatever_an_agent_writes_becomes_a_bounded_failure_or_none(error: Any, code: Any) -> None:
    failed = failure_in("writer", {"error": error}, {"error": code})

    if not error or not code:
        assert failed is None
        return
    assert failed is not None
    assert failed.chain[0] == "writer"
    assert len(failed.chain) <= 10
    assert len(failed.reason) <= 500
    assert failed.code in ("agent_failed", code)


def test_a_chain_cannot_claim_another_sender_or_carry_control_characters() -> None:
    payload = {"error": {"message": "no", "chain": ["boss", "ok", "\x1b[31m", 7, "a b"]}}

    failed = failure_in("writer", payload, {"error": "\x1b[2J"})

    assert failed is not None
    assert failed.chain == ("writer", "ok")
    assert failed.code == "agent_failed"
