"""Dialogues of agents under the rules: messages in named conversations, requests and their answers."""

from __future__ import annotations

from parley.domain.channel.post import Post
from parley.domain.directory.callers import DEFAULT_TENANT
from parley.domain.exchange.exchange import Exchange
from parley.domain.message.message import Pattern
from tests.rigs.remembered import Message, Step, say
from tests.rigs.team import Rig

QUERY = {"exchange_type": "information_query"}
TEXTS = ("What is the status?", "It is done.", "3 \\ %s \u00e9", "We promise it.", "password: hunter22")


def said(sender: str, to: str, conversation: str, text: str = "What is the status?") -> Message:
    return Message(sender, to, {**QUERY, "conversation_id": conversation}, text)


def dialogue(conversation: str) -> list[Step]:
    """All rounds that an exchange has."""
    first, back = said("alice", "bob", conversation), said("bob", "alice", conversation)
    return [first, back, first]


# What alice and bob say afterwards in the second and third round of a conversation is written like this.
KNOWN: list[Step] = [*dialogue("one"), *dialogue("two"), *dialogue("three")]
BEGUN = said("alice", "bob", "four")
BACK = said("bob", "alice", "four")


ASK = Message("alice", "bob", QUERY, pattern=Pattern.REQUEST)
ANSWER = Message("bob", "alice", {}, "It is done.", pattern=Pattern.RESPONSE)
# What bob answers alice afterwards is written like this.
ANSWERED: list[Step] = [ASK, ANSWER] * 4


async def exchange_of(rig: Rig, conversation: str) -> Exchange | None:
    """The first exchange of a conversation."""
    exchanges = await rig.store.children(Exchange, DEFAULT_TENANT, conversation)
    return exchanges[0] if exchanges else None


async def deliver(rig: Rig, message: Step) -> Post:
    """Post a message that does not wait for a person."""
    assert isinstance(message, Message)
    post = await say(rig, message)
    assert isinstance(post, Post)
    return post
