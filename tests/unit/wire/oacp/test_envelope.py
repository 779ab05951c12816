"""The envelope in a message file: written exactly, read strictly, understood by every YAML reader."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from parley.domain.content.classification import LEVELS, Classification, DataItem, can_share
from parley.domain.content.envelope import Envelope, Ext, Origin, Purpose, ReplyPolicy, Source
from parley.domain.errors.rules import EnvelopeInvalid
from parley.domain.message.message import Message
from parley.wire.oacp.envelope import OacpEnvelopes, read_items, typed_extras
from parley.wire.oacp.format import OacpFormat
from parley.wire.ocip import envelope_document
from tests.samples.messages import PROPERTY, a_message, with_blocks

ENVELOPE = Envelope(
    message_type=Origin.AGENT,
    source_agent=Source("agent-abc-123", "alice", "engineering", "acme-corp"),
    classification=Classification.INTERNAL,
    conversation_id="conv-789-xyz",
    exchange_round=1,
    max_rounds=3,
    can_commit=False,
    can_share=can_share(Classification.INTERNAL),
    reply_policy=ReplyPolicy.AGENT_OK,
    requires_commitment=False,
    expires_at="2026-03-14T10:00:00.000Z",
)
EXT = Ext("exch-001", Purpose.INFORMATION_QUERY, 2, "1-abc", "appr-1", "alice", "ed25519:" + "0f" * 64)
LABEL = 'Sent by "an agent": true'
# The example of the specification.
EXAMPLE = {
    "version": "1.0",
    "message_type": "agent-generated",
    "source_agent": {
        "instance_id": "agent-abc-123",
        "user_id": "alice",
        "org_unit": "engineering",
        "tenant_id": "acme-corp",
    },
    "classification": "internal",
    "conversation_id": "conv-789-xyz",
    "exchange_round": 1,
    "max_rounds": 3,
    "capabilities": {"can_commit": False, "can_share": ["public", "internal"]},
    "reply_policy": "agent-ok",
    "requires_commitment": False,
    "expires_at": "2026-03-14T10:00:00.000Z",
}


def stamped(envelope: Envelope = ENVELOPE, ext: Ext = EXT, label: str = LABEL, **changes: object) -> Message:
    return OacpEnvelopes().stamped(a_message(**changes), envelope, ext, label)


def written(**changes: Any) -> str:  # noqa: ANN401  # whatever `stamped` takes
    """The file of a message, its envelope spread over lines."""
    return with_blocks(OacpFormat().encode(stamped(**changes)).decode())


def problem(text: str) -> str:
    """The field that is wrong with a file's envelope."""
    with pytest.raises(EnvelopeInvalid) as refused:
        OacpEnvelopes().read(text.encode())
    return refused.value.problems[0].field


def test_any_yaml_reader_sees_exactly_the_example_of_the_specification() -> None:
    fields = yaml.safe_load(written())

    assert fields["ocip"] == EXAMPLE
    assert list(fields["ocip"]) == list(EXAMPLE)
    assert fields["disclosure"] == LABEL


def test_what_is_written_is_read_back_on_one_line_and_on_many() -> None:
    content = OacpFormat().encode(stamped())

    for carried in map(OacpEnvelopes().read, (content, written().encode())):
        assert (carried.envelope, carried.ext) == (ENVELOPE, EXT)


def test_the_envelope_is_one_line_of_json() -> None:
    lines = OacpFormat().encode(stamped()).decode().splitlines()

    (line,) = [line for line in lines if line.startswith("ocip:")]
    assert json.loads(line.removeprefix("ocip: ")) == EXAMPLE
    assert not any(line.startswith(" ") for line in lines if "ocip" in line)


def test_the_message_is_read_back_as_it_was_stamped() -> None:
    message = stamped(body="Two\nlines\n", context_keys="- a\n")

    assert OacpFormat().decode(OacpFormat().encode(message)) == message


def test_a_persons_message_has_no_label() -> None:
    message = stamped(ENVELOPE._replace(message_type=Origin.HUMAN), label="")

    assert "disclosure" not in message.extras
    assert "disclosure" not in OacpFormat().encode(message).decode()


def test_what_a_sender_puts_there_itself_is_replaced() -> None:
    forged = a_message(extras={"ocip": "mine", "disclosure": "none", "model": "m-1"})

    message = OacpEnvelopes().stamped(forged, ENVELOPE, EXT, "")

    assert message.extras["ocip"] != "mine"
    assert "disclosure" not in message.extras
    assert message.extras["model"] == "m-1"


def test_programs_are_told_numbers_and_flags_as_what_they_are() -> None:
    assert typed_extras(stamped())["ocip"] == EXAMPLE
    assert OacpFormat().fields(stamped())["ocip"] == EXAMPLE


def test_a_file_without_what_stands_beside_the_envelope_is_one_of_another_tool() -> None:
    text = re.sub(r"(?s)ocip_ext:.*?disclosure: [^\n]*Sent", "disclosure: Sent", written(label="Sent"))

    assert OacpEnvelopes().read(text.encode()).ext is None


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('version: "1.0"', 'version: "2.0"', "version"),
        ('version: "1.0"', "version: 1.0", "ocip.version"),
        ("exchange_round: 1", "exchange_round: 0", "exchange_round"),
        ("exchange_round: 1", "exchange_round: -1", "ocip.exchange_round"),
        ("exchange_round: 1", "exchange_round: 1.0", "ocip.exchange_round"),
        ("exchange_round: 1", "exchange_round: 0x1", "ocip.exchange_round"),
        ("exchange_round: 1", 'exchange_round: "1"', "ocip.exchange_round"),
        ("exchange_round: 1", "exchange_round: true", "ocip.exchange_round"),
        ("exchange_round: 1", "exchange_round:", "ocip.exchange_round"),
        ("exchange_round: 1", "exchange_round: [1]", "ocip.exchange_round.0"),
        ("can_commit: false", 'can_commit: "false"', "ocip.capabilities.can_commit"),
        ("can_commit: false", "can_commit: False", "ocip.capabilities.can_commit"),
        ("can_commit: false", "can_commit: off", "ocip.capabilities.can_commit"),
        ("can_commit: false", "can_commit: null", "ocip.capabilities.can_commit"),
        ('conversation_id: "conv-789-xyz"\n  ex', "conversation_id: 789\n  ex", "ocip.conversation_id"),
        ('conversation_id: "conv-789-xyz"\n  ex', 'conversation_id: "other"\n  ex', "conversation_id"),
        ('user_id: "alice"', 'user_id: ""', "source_agent.user_id"),
        ('user_id: "alice"', "user_id: ~", "ocip.source_agent.user_id"),
        ('    user_id: "alice"\n', "", "source_agent.user_id"),
        ('["public", "internal"]', '"public"', "capabilities.can_share"),
        ('["public", "internal"]', '["public", "secret"]', "capabilities.can_share"),
        ("requires_commitment: false", "requires_commitment: false\n  extra: 1", "ocip.extra"),
        ('exchange_id: "exch-001"', 'exchange_id: "two words"', "ocip_ext.exchange_id"),
        ("hops: 2", "hops: 0", "ocip_ext.hops"),
        ("hops: 2", "hops: 2\n  more: yes please", "ocip_ext.more"),
        ('by: "alice"', 'by: "alice"\n    for: "bob"', "ocip_ext.approval"),
        ("ed25519:", f"ed25519:{'0' * 256}", "ocip_ext.approval.signature"),
        ('exchange_type: "information_query"', 'exchange_type: "chat"', "ocip_ext.exchange_type"),
    ],
)
def test_anything_that_is_not_exact_is_invalid_and_the_field_is_named(old: str, new: str, field: str) -> None:
    text = written()
    assert text.count(old) >= 1

    assert problem(text.replace(old, new, 1)) == field


def test_a_file_without_an_envelope_has_none() -> None:
    assert problem(OacpFormat().encode(a_message()).decode()) == "ocip"


NAMES = st.builds(str.__add__, st.sampled_from("abcXYZ019"), st.text("abcXYZ019._-", max_size=19))
# What can be printed: no control characters, and no blank but the usual one.
PRINTABLE = st.text(st.one_of(st.characters(exclude_categories=["C", "Z"]), st.just(" ")), min_size=1, max_size=20)


@st.composite
def envelopes(draw: st.DrawFn) -> Envelope:
    return Envelope(
        message_type=draw(st.sampled_from(Origin)),
        source_agent=Source(*[draw(PRINTABLE) for _ in range(4)]),
        classification=draw(st.sampled_from(LEVELS)),
        conversation_id=draw(NAMES),
        exchange_round=draw(st.integers(1, 1_000_000)),
        max_rounds=draw(st.integers(1, 1_000_000)),
        can_commit=draw(st.booleans()),
        can_share=can_share(draw(st.sampled_from(LEVELS))),
        reply_policy=draw(st.sampled_from(ReplyPolicy)),
        requires_commitment=draw(st.booleans()),
        expires_at="2026-03-14T10:00:00.000Z",
    )


@PROPERTY
@given(envelopes())
def test_every_envelope_survives_the_file(envelope: Envelope) -> None:
    text = OacpFormat().encode(stamped(envelope=envelope)).decode()

    assert OacpEnvelopes().read(text.encode()).envelope == envelope
    assert yaml.safe_load(text)["ocip"] == envelope_document(envelope)


@pytest.mark.parametrize(
    "text",
    [
        "data:\n  - source: crm\n    fields: [a.b]\n    classification: confidential\n    description: numbers\n",
        "- source: crm\n  fields: [a.b]\n  classification: confidential\n  description: numbers\n",
        '[{"source": "crm", "fields": ["a.b"], "classification": "confidential", "description": "numbers"}]',
        '{"data": [{"source": "crm", "fields": ["a.b"], "classification": "confidential", "description": "numbers"}]}',
    ],
)
def test_data_items_are_read_from_yaml_and_json(text: str) -> None:
    assert read_items(text, "items.yaml") == (DataItem("crm", ("a.b",), Classification.CONFIDENTIAL, "numbers"),)


@pytest.mark.parametrize("text", ["", "crm", "data: crm", "items: []", "- fields: [a]", "- source: [", "- &a x"])
def test_a_file_without_data_items_is_refused(text: str) -> None:
    with pytest.raises(EnvelopeInvalid):
        read_items(text, "items.yaml")


def test_a_level_that_nobody_knows_is_as_secret_as_can_be() -> None:
    (item,) = read_items("- source: crm\n  classification: cosmic\n", "items.yaml")

    assert item.classification is Classification.RESTRICTED
