from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.channel.channel import ChannelStatus, Member, MemberPolicy, Options, Tally
from parley.domain.channel.post import PostDraft, PostState
from parley.domain.content.envelope import Wishes
from parley.domain.errors.errors import BadAgentName, Invalid
from parley.domain.message.message import Pattern
from parley.domain.store.changes import ReaderPost
from parley.domain.store.limits import TeamLimits
from parley.wire.api import channels as rfc0021
from parley.wire.api.channels import (
    AskIn,
    BatchIn,
    ChannelIn,
    ChannelPatch,
    MessageIn,
    MessagePatch,
    OptionsIn,
    ReplyIn,
    draft_of,
    key_count,
    moment,
    options_of,
    trace_fields,
)
from parley.wire.api.records.channels import ChannelMessage
from tests.contract.team_store import a_channel, a_post, a_request
from tests.samples.messages import PROPERTY

AT = "2026-03-13T14:30:00.000000+00:00"
LATER = "2026-03-13T15:30:00.000000+00:00"
TRACE = "0123456789abcdef" * 2


def given_as(kind: Any, **fields: object) -> Any:  # noqa: ANN401  # the type says what comes back
    return msgspec.convert(fields, kind)


def refused(kind: Any, **fields: object) -> bool:  # noqa: ANN401  # a Struct
    try:
        given_as(kind, **fields)
    except msgspec.ValidationError:
        return True
    return False


# ---------------------------------------------------------------- what comes in


def test_a_message_may_say_nothing_but_that_it_is_one() -> None:
    assert draft_of(MessageIn(), TeamLimits(metadata_bytes=100)) == PostDraft(Pattern.NOTIFY, b"{}", body={})


def test_a_message_may_say_everything() -> None:
    given = given_as(
        MessageIn,
        payload={"q": [1, "ü"]},
        message_type="request",
        sender="alice",
        to="role:billing",
        correlation_id="msg_0",
        metadata={"trace_id": TRACE, "parent_event_id": "evt_1", "conversation_id": "conv-1"},
        expires_at="2026-03-13T16:30:00+02:00",
    )

    assert draft_of(given, TeamLimits(metadata_bytes=1000)) == PostDraft(
        Pattern.REQUEST,
        '{"q":[1,"ü"]}'.encode(),
        "role:billing",
        "msg_0",
        b'{"trace_id":"%b","parent_event_id":"evt_1","conversation_id":"conv-1"}' % TRACE.encode(),
        datetime(2026, 3, 13, 14, 30, tzinfo=UTC),
        TRACE,
        "evt_1",
        wishes=Wishes(conversation_id="conv-1"),
        body={"q": [1, "ü"]},
    )


@pytest.mark.parametrize(("metadata", "trace"), [(None, "b" * 32), ({"trace_id": TRACE}, TRACE)])
def test_a_message_takes_the_trace_of_its_request_unless_it_names_one(
    metadata: dict[str, Any] | None, trace: str
) -> None:
    given = MessageIn(metadata=metadata)

    assert draft_of(given, TeamLimits(), f"00-{'b' * 32}-{'c' * 16}-01").trace_id == trace


@pytest.mark.parametrize("kind", [MessageIn, ReplyIn, AskIn, BatchIn, ChannelIn, ChannelPatch, OptionsIn, MessagePatch])
def test_nothing_is_taken_that_is_not_offered(kind: Any) -> None:  # noqa: ANN401  # a Struct
    needed: dict[Any, dict[str, object]] = {
        AskIn: {"to": "bob", "payload": {}},
        ChannelIn: {"name": "x"},
        BatchIn: {"messages": [{}]},
        MessagePatch: {"status": "read"},
    }
    base = needed.get(kind, {})

    given_as(kind, **base)
    # A key that speaks for several agents says which of them creates a channel.
    offered = {"created_by"} if kind is ChannelIn else set()
    for field in {"created_by", "tenant_id", "id", "seq", "role_id"} - offered:
        assert refused(kind, **base, **{field: "x"})


@pytest.mark.parametrize(
    "name", ["x\n", "x\r\n", "\nx", "x y", "", "-x", "x" * 65, "ü", "x/y", "x:y", "*", "x\x00", 7, None]
)
def test_a_name_is_a_name(name: object) -> None:
    assert refused(ChannelIn, name=name)
    assert refused(ChannelIn, name="x", members=[name])
    assert name is None or refused(MessageIn, sender=name)


@pytest.mark.parametrize("name", ["x", "X.y_z-1", "x" * 64, "7"])
def test_names_of_every_kind_are_accepted(name: str) -> None:
    assert given_as(ChannelIn, name=name, members=[name]).name == name


def test_there_are_so_many_members_and_messages_in_one_body() -> None:
    given_as(ChannelIn, name="x", members=["a"] * 256)
    given_as(BatchIn, messages=[{}] * 100)

    assert refused(ChannelIn, name="x", members=["a"] * 257)
    assert refused(BatchIn, messages=[{}] * 101)
    assert refused(BatchIn, messages=[])


@pytest.mark.parametrize(
    "options",
    [
        {"ttl_seconds": 0},
        {"ttl_seconds": -1},
        {"ttl_seconds": 10 * 365 * 86_400 + 1},
        {"ttl_seconds": "60"},
        {"max_messages": 0},
        {"max_messages": 1_000_001},
        {"max_messages": None},
        {"audit": 1},
        {"audit": "yes"},
    ],
)
def test_options_are_within_their_bounds(options: dict[str, object]) -> None:
    assert refused(ChannelIn, name="x", options=options)
    assert refused(ChannelPatch, options=options)


def test_an_ask_waits_between_nothing_and_an_hour() -> None:
    assert given_as(AskIn, to="bob", payload={}).timeout == 30.0
    assert given_as(AskIn, to="bob", payload={}, timeout=3600).timeout == 3600
    for wrong in (0, -1, 3601, "5", None):
        assert refused(AskIn, to="bob", payload={}, timeout=wrong)


def test_options_that_are_not_given_are_the_usual_ones() -> None:
    assert options_of(None) == options_of(OptionsIn()) == Options()
    assert options_of(OptionsIn(audit=True, ttl_seconds=5, max_messages=7)) == Options(
        audit=True, ttl_seconds=5, max_messages=7
    )


@pytest.mark.parametrize("to", ["system", "role:", "role:a b", "a b", "a\n", "role:x\n", "**", "x" * 65])
def test_an_address_is_an_agent_a_role_or_everyone(to: str) -> None:
    with pytest.raises((BadAgentName, Invalid)):
        draft_of(MessageIn(to=to), TeamLimits(metadata_bytes=100))


@pytest.mark.parametrize("to", ["bob", "role:billing", "*", "role:" + "x" * 64])
def test_addresses_of_every_kind_are_accepted(to: str) -> None:
    assert draft_of(MessageIn(to=to), TeamLimits(metadata_bytes=100)).to == to


@pytest.mark.parametrize("text", ["1e400", "2026-03-13T14:30:00", "2026-13-13T14:30:00Z", "tomorrow", "", "20260313"])
def test_a_time_is_strict_and_has_an_offset(text: str) -> None:
    with pytest.raises(Invalid) as wrong:
        moment(text)

    assert [one.field for one in wrong.value.problems] == ["expires_at"]
    assert moment(None) is None


def test_metadata_is_measured_as_it_is_kept() -> None:
    fits = {"x": "y" * 92}

    assert len(draft_of(MessageIn(metadata=fits), TeamLimits(metadata_bytes=100)).metadata) == 100
    with pytest.raises(Invalid) as wrong:
        draft_of(MessageIn(metadata={"x": "y" * 93}), TeamLimits(metadata_bytes=100))
    assert wrong.value.problems[0].field == "metadata"


def test_the_keys_of_a_payload_are_counted_over_all_levels() -> None:
    fits = {"a": [{"b": 1}, {"c": {"d": 1}}]}

    assert key_count(fits) == 4
    draft_of(MessageIn(payload=fits), TeamLimits(metadata_bytes=100, payload_keys=4))
    with pytest.raises(Invalid):
        draft_of(MessageIn(payload={**fits, "e": 1}), TeamLimits(metadata_bytes=100, payload_keys=4))
    with pytest.raises(Invalid):
        draft_of(MessageIn(payload={chr(97 + n): 0 for n in range(5)}), TeamLimits(metadata_bytes=100, payload_keys=4))


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, ("", "")),
        ({"trace_id": TRACE, "parent_event_id": "evt_1"}, (TRACE, "evt_1")),
        ({"trace_id": TRACE.upper()}, ("", "")),
        ({"trace_id": TRACE[:-1]}, ("", "")),
        ({"trace_id": TRACE + "0"}, ("", "")),
        ({"trace_id": 7, "parent_event_id": ["x"]}, ("", "")),
        ({"parent_event_id": "x" * 65}, ("", "")),
    ],
)
def test_only_what_is_a_trace_is_taken_into_the_log(metadata: dict[str, Any], expected: tuple[str, str]) -> None:
    assert trace_fields(metadata) == expected


# ---------------------------------------------------------------- what goes out


@pytest.mark.parametrize(
    "post",
    [
        a_post(),
        a_request(expires_at=LATER, seq=7, position=9),
        a_post(to="*", in_reply_to="msg_0", payload='{"a":"ü\\u2028\\n"}'.encode(), metadata=b'{"m":[1]}'),
    ],
)
def test_a_message_is_what_its_record_says(post: Any) -> None:  # noqa: ANN401  # a Post
    for read_at in ("", AT):
        content = rfc0021.message(ReaderPost(post, read_at), AT)
        document = json.loads(content)

        assert msgspec.json.decode(content, type=ChannelMessage).id == post.id
        assert set(document) == {*ChannelMessage.__struct_fields__} - {*ChannelMessage.may_be_absent}
        assert (document["to"], document["correlation_id"]) == (post.to or None, post.in_reply_to or None)
        assert (document["expires_at"], document["read_at"]) == (post.expires_at or None, read_at or None)
        assert document["payload"] == json.loads(post.payload)
        assert document["metadata"] == json.loads(post.metadata)
        assert document["status"] == ("read" if read_at else "delivered")


_PIECES = [b',"disclosure":"', b'"', b"}", b"{", b"\\", b",", b'"a":1', b"Sent by an agent", b"}\n"]


@PROPERTY
@given(st.lists(st.sampled_from(_PIECES), max_size=9).map(b"".join), st.booleans())
def test_a_stamped_label_is_the_last_field_and_nothing_before_it(metadata: bytes, ends: bool) -> None:
    metadata += b',"disclosure":"Sent by an AI agent"}' if ends else b""
    anywhere = re.search(rb',"disclosure":("(?:[^"\\]|\\.)*+")}\Z', metadata)

    label = rfc0021._disclosure(a_post(metadata=metadata, exchange_id="exch_1"))

    assert label == (anywhere[1].decode() if anywhere is not None else "null")


@PROPERTY
@given(st.dictionaries(st.text(max_size=9), st.text(max_size=30), max_size=5))
def test_whatever_is_said_comes_out_as_it_went_in(payload: dict[str, str]) -> None:
    try:
        draft = draft_of(MessageIn(payload=payload, metadata=payload), TeamLimits(metadata_bytes=100_000))
    except UnicodeEncodeError:
        return  # half a character: refused when the body is read

    post = a_post(payload=draft.payload, metadata=draft.metadata)

    assert json.loads(rfc0021.posted(post, "delivered"))["payload"] == payload
    assert b"\n" not in rfc0021.posted(post, "delivered")


def test_each_reader_is_shown_how_the_message_stands_for_it() -> None:
    waiting = a_post(recipients=(), state=PostState.PENDING)
    over = a_post(expires_at=AT)

    listed = json.loads(rfc0021.messages([ReaderPost(waiting, ""), ReaderPost(over, ""), ReaderPost(over, AT)], LATER))

    assert [one["status"] for one in listed] == ["pending", "expired", "read"]
    assert rfc0021.messages([], AT) == b"[]"


def test_a_channel_is_shown_with_how_much_is_in_it() -> None:
    plain = a_channel(members=(Member(agent="alice", since=1),))
    full = replace(
        plain,
        task_id="task_1",
        policy=MemberPolicy.EXPLICIT,
        status=ChannelStatus.CLOSED,
        closed_at=LATER,
        options=Options(audit=True, ttl_seconds=60, max_messages=5),
    )

    shown = rfc0021.channel_of(full, Tally(7, AT, 3))

    assert (shown["message_count"], shown["last_message_at"], shown["closed_at"]) == (7, AT, LATER)
    assert (shown["members"], shown["options"]["ttl_seconds"]) == (["alice"], 60)
    empty = rfc0021.channel_of(plain, Tally())
    assert (empty["task_id"], empty["closed_at"], empty["last_message_at"]) == (None, None, None)
