"""Channels, messages and webhooks in API responses."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from parley.wire.api.records.record import Mapping, Record, Timestamp, repr_without

# ---------------------------------------------------------------- channels and messages


class ChannelOptions(Record, frozen=True, kw_only=True):
    """How a channel stores its messages."""

    __module__ = "parley"

    audit: bool = False
    ttl_seconds: int | None = None
    max_messages: int = 1000


class MessageSummary(Record, frozen=True, kw_only=True):
    """A message without its content, for lists."""

    __module__ = "parley"

    id: str
    channel_id: str
    sender: str
    to: str | None = None
    message_type: str
    created_at: Timestamp
    summary: Annotated[str, Meta(description="The beginning of the message, on one line.")] = ""


class Channel(Record, frozen=True, kw_only=True):
    """A channel on an intent."""

    __module__ = "parley"

    id: str
    intent_id: str
    task_id: str | None = None
    name: str
    created_by: str
    members: list[str]
    member_policy: str
    options: ChannelOptions
    status: str
    created_at: Timestamp
    closed_at: Timestamp | None = None
    message_count: int = 0
    last_message_at: Timestamp | None = None


class RecentChannel(Channel, frozen=True, kw_only=True):
    """A channel in the list of all channels, with the newest message that you may see.

    A person's list has the channels of all agents that act for the person; `seat` is the agent that reads this one.
    """

    __module__ = "parley"

    last_message: MessageSummary | None = None
    seat: str | None = None


class Viewer(Record, frozen=True, kw_only=True):
    """Who of yours can see something: for a person an agent that acts for the person, or the person."""

    __module__ = "parley"

    seat: Annotated[str, Meta(description="For the query field `seat`; empty for a key that speaks for no agent.")]


class Conversation(Record, frozen=True, kw_only=True):
    """A conversation: messages of one exchange or with one `metadata.conversation_id`, in whatever channels."""

    __module__ = "parley"

    id: str
    last_message: Annotated[MessageSummary, Meta(description="The newest message of it that you may see.")]


class DirectChannel(Record, frozen=True, kw_only=True):
    """Where two agents talk directly. The first message that one of them sends there creates it."""

    __module__ = "parley"

    channel_id: str
    intent_id: str
    agents: Annotated[list[str], Meta(description="The two agents.")]


class StreamTicket(Record, frozen=True, kw_only=True):
    """A ticket for one stream: it works once, on its path, until it expires."""

    __module__ = "parley"

    ticket: str
    path: str
    expires_at: Timestamp


class EvictedMessages(Record, frozen=True, kw_only=True):
    """Messages of a channel that a stream can no longer show: some of them may have been after its cursor."""

    channel_id: str
    through: Annotated[int, Meta(description="The place of the last message that is no longer kept.")]
    oldest: Annotated[int, Meta(description="The place of the first message that is kept.")]


class ForwardedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """To whom a handler hands a request on; see `ChannelMessage.forward`."""

    to: str
    payload: Mapping | None = None


class ChannelMessage(Record, frozen=True, kw_only=True):
    """A message in a channel, as its reader sees it."""

    __module__ = "parley"

    may_be_absent = ("channel", "intent_id", "intent")

    id: str
    channel_id: str
    sender: str
    to: str | None = None
    message_type: str
    correlation_id: str | None = None
    payload: Mapping
    metadata: Mapping = msgspec.field(default_factory=dict)
    status: str = "delivered"
    created_at: Timestamp
    expires_at: Timestamp | None = None
    read_at: Timestamp | None = None
    seq: Annotated[int, Meta(description="Its place in the channel.")] = 0
    conversation_id: Annotated[
        str | None,
        Meta(description="The conversation of its exchange, or the one that its metadata name; null without one."),
    ] = None
    disclosure: Annotated[
        str | None, Meta(description="The label of what an agent wrote; null where a person did, or the server.")
    ] = None
    # Where an agent receives it: the channel's name and the intent that it belongs to.
    channel: Annotated[str, Meta(description="The channel's name, where an agent receives it.")] = ""
    intent_id: Annotated[str, Meta(description="The intent of the channel, on streams and in webhooks.")] = ""
    intent: Annotated[str, Meta(description="The intent's title, where a handler of an agent asks for it.")] = ""

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # whatever JSON holds
        """An item of the payload; so are those of `in`, `get` and `dict(message)`. Fields are attributes."""
        try:
            return self.payload[name]
        except KeyError:
            items = ", ".join(map(repr, self.payload)) or "nothing"
            own = f"; the field of the message is .{name}" if name in self.__struct_fields__ else ""
            raise KeyError(f"no {name!r} in the payload, which has {items}{own}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.payload

    def keys(self) -> tuple[str, ...]:
        """The names of the items of the payload."""
        return tuple(self.payload)

    @property
    def text(self) -> str:
        """The text that was sent: `payload["text"]`; empty when the payload has none."""
        text = self.payload.get("text")
        return text if isinstance(text, str) else ""

    @property
    def error(self) -> str:
        """Why the agent that was asked could not answer; empty when it did."""
        error = self.payload.get("error") if self.metadata.get("error") else None
        text = error.get("message") if isinstance(error, dict) else error
        return str(text) if text else ""

    @property
    def is_question(self) -> bool:
        """Whether an answer asks something back; continue with `follow_up`."""
        return self.message_type == "response" and self.kind == "question"

    @property
    def forwarded_by(self) -> list[str]:
        """The agents that handed a request on, the first one first; of an answer, those its request came through."""
        forwarded = self.metadata.get("forwarded")
        agents = forwarded.get("by") if isinstance(forwarded, dict) else None
        return [str(agent) for agent in agents] if isinstance(agents, list) else []

    def forward(self, to: str, payload: Mapping | None = None) -> ForwardedRequest:
        """For a handler to return: hand this request on to another agent, which answers the one who asked.

        Without a `payload` the other agent is asked what this one was asked.
        """
        return ForwardedRequest(to=to, payload=payload)

    @property
    def partial(self) -> str:
        """Of a partial answer its kind, "artifact" or "progress"; empty for anything else."""
        partial = self.metadata.get("partial") if self.message_type == "response" else ""
        return partial if isinstance(partial, str) else ""

    @property
    def kind(self) -> str:
        """What is asked, where the sender said so: one of the twelve kinds; else empty."""
        kind = self.metadata.get("kind")
        return kind if isinstance(kind, str) else ""


class RequestForward(Record, frozen=True, kw_only=True):
    """Who has handed a request on to whom, and by which request of its own."""

    __module__ = "parley"

    by: str
    to: str
    request_id: str
    at: Timestamp


class RequestInfo(Record, frozen=True, kw_only=True):
    """Where a request stands, for its sender and for those who were asked."""

    __module__ = "parley"

    id: str
    channel_id: str
    sender: str
    to: str
    state: Annotated[
        str,
        Meta(description="open, partially_answered, forwarded, answered, question, withdrawn or expired."),
    ]
    created_at: Timestamp
    expires_at: Timestamp | None = None
    withdrawn_at: Timestamp | None = None
    answers: Annotated[list[str], Meta(description="The ids of its answers, in their order; without partial ones.")]
    parts: Annotated[int, Meta(description="How many partial answers it has.")] = 0
    forwards: Annotated[list[RequestForward], Meta(description="Who has handed it on.")] = msgspec.field(
        default_factory=list
    )


class RecipientStep(Record, frozen=True, kw_only=True):
    """One step of a message at a recipient, and what it is known by."""

    __module__ = "parley"

    state: str
    at: Annotated[Timestamp, Meta(description="When it had happened; of a bookmark, when that was last saved.")]
    evidence: Annotated[str, Meta(description="claim, read, bookmark, done, given back, or which message answered it.")]
    until: Annotated[Timestamp | None, Meta(description="Of a claim, when its lease ends.")] = None


class RecipientReceipt(Record, frozen=True, kw_only=True):
    """How far a message has come at one recipient."""

    __module__ = "parley"

    to: Annotated[str, Meta(description="An agent; a role as long as no agent has shown that it has the message.")]
    state: Annotated[str, Meta(description="queued, acknowledged, acted, dead or expired.")]
    note: str
    steps: Annotated[list[RecipientStep], Meta(description="What led there, oldest first.")]


class MessageReceipts(Record, frozen=True, kw_only=True):
    """How far a message has come at each recipient, for its sender."""

    __module__ = "parley"

    id: str
    state: Annotated[str, Meta(description="The state of the recipient that is least far.")]
    receipts: list[RecipientReceipt]


class Ask(Record, frozen=True, kw_only=True):
    """A request that nobody has answered yet, or in time."""

    __module__ = "parley"

    message_id: str
    channel_id: str
    intent_id: str
    sender: Annotated[str, Meta(description="Who asked.")]
    to: Annotated[str, Meta(description="Who was asked: an agent, role:ROLE, or any:ROLE for one of a role.")]
    recipients: Annotated[list[str], Meta(description="The agents that got it; several for a role.")]
    forwarded_to: Annotated[str | None, Meta(description="Who has it now, where it was handed on.")] = None
    state: Annotated[str, Meta(description="`waiting`, or `late` when its time has passed.")]
    asked_at: Timestamp
    # It can be answered until then; None: as long as it is kept.
    until: Timestamp | None = None
    summary: Annotated[str, Meta(description="What was asked, in one line of at most 200 characters.")]


class AskCount(Record, frozen=True, kw_only=True):
    """How many requests wait for an answer, and how many got none in time."""

    __module__ = "parley"

    waiting: int
    late: int


class Timer(Record, frozen=True, kw_only=True):
    """A message that is posted later. `message_id` is the id that it will have."""

    __module__ = "parley"

    id: str
    message_id: str
    channel_id: str
    sender: str
    to: str | None = None
    message_type: str
    payload: Mapping
    metadata: Mapping = msgspec.field(default_factory=dict)
    deliver_at: Timestamp
    expires_at: Timestamp | None = None
    created_at: Timestamp
    status: Annotated[str, Meta(description="`scheduled`, or `refused` when it could not be posted.")]
    refused_at: Timestamp | None = None
    error_code: Annotated[str | None, Meta(description="The code of the refusal.")] = None
    error: Annotated[str | None, Meta(description="Why it was refused.")] = None


# ---------------------------------------------------------------- webhooks


class Attempt(Record, frozen=True, kw_only=True):
    """One delivery attempt. `status` is None when there was no response."""

    __module__ = "parley"

    at: Timestamp
    item_id: str
    number: Annotated[int, Meta(description="Which try for this item, from 1.")]
    status: Annotated[int | None, Meta(description="The status of the answer; null when there was none.")] = None
    error: str | None = None


class Subscription(Record, frozen=True, kw_only=True):
    """A webhook subscription: what is pushed, where, and the state of its deliveries.

    Times have two field names: the OpenIntent SDK reads `createdAt` and `expiresAt`.
    """

    __module__ = "parley"

    id: str
    intent_id: str | None = None
    portfolio_id: str | None = None
    subscriber_id: str | None = None
    event_types: list[str]
    webhook_url: str | None = None
    active: bool
    state: str
    disabled_reason: str | None = None
    follows_endpoint: bool
    tries: int
    next_try_at: Timestamp | None = None
    last_attempt: Attempt | None = None
    last_test: Attempt | None = None
    # How many items wait to be pushed, counted up to 1000; and how many tries failed in the last 24 hours.
    waiting: int
    failed_24h: int
    created_at: Timestamp
    expires_at: Timestamp | None = None
    createdAt: Timestamp | None = None  # noqa: N815
    expiresAt: Timestamp | None = None  # noqa: N815


class NewSubscription(Subscription, frozen=True, kw_only=True):
    """A new subscription with the secret that signs its webhooks; it is not shown again."""

    __module__ = "parley"

    secret: str

    def __repr__(self) -> str:
        return repr_without("secret", self)


class SubscriptionSecret(Record, frozen=True, kw_only=True):
    """A new secret; it is not shown again. Webhooks are also signed with the old one until then."""

    __module__ = "parley"

    id: str
    secret: str
    old_secret_until: Timestamp

    def __repr__(self) -> str:
        return repr_without("secret", self)
