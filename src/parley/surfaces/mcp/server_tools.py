"""The tools on a server: what waits for the agent of a key, its answers, and what it sends to others.

Nothing is remembered between two calls. A message that was taken is a claimed job of the agent; the name that the model
gets for it ends with four characters of the lease, so a session that lost the message cannot answer it any more.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from parley.app.team.channels import asking, posting, reading
from parley.app.team.channels.posting import Held
from parley.app.team.channels.venues import direct_with
from parley.app.team.directory import agents
from parley.app.team.directory.agents import AgentFilter
from parley.app.team.queues import claims, waiting
from parley.app.team.queues.claims import ClaimWish
from parley.domain.agents.presence import presence_of
from parley.domain.channel.bookmark import Start
from parley.domain.channel.feed import FeedItem
from parley.domain.content.visible import safe
from parley.domain.directory.callers import AgentStatus, ids_created
from parley.domain.errors.errors import Invalid, NotFound, ParleyError, Unavailable
from parley.domain.errors.team import AskTimeout, CircularWait, NotARequest
from parley.domain.mailbox.listing import Item
from parley.domain.message.bodies import default_kind, default_subject
from parley.domain.message.kinds import DEFAULT_PRIORITY, KINDS, Kind
from parley.domain.message.message import PRIORITIES, Pattern
from parley.domain.times import from_stamp
from parley.surfaces.entrance.refusals import INTERNAL, refusal_of, status_of
from parley.surfaces.mcp.arguments import body_of, budget_of, kind_of, priority_of, wait_of
from parley.surfaces.mcp.protocol import ToolResult
from parley.surfaces.mcp.results import (
    FINISHED,
    NO_ANSWER_YET,
    RELEASED,
    held_result,
    name_tools,
    not_waiting,
    nothing_waits,
)
from parley.wire.api.channels import MessageIn, draft_of
from parley.wire.model_text import NextSteps, inbox_text, message_text

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from datetime import datetime

    from parley.app.team.queues.claims import ClaimedItem
    from parley.app.team.team import Team
    from parley.domain.agents.agent import AgentRecord
    from parley.domain.channel.post import Post
    from parley.domain.directory.callers import Caller
    from parley.domain.message.message import Body

# How long a model may take for a message, as in a mailbox.
LEASE_SECONDS = 1_800.0
# Messages of an inbox that are listed.
_LISTED = 100
_SUBJECT_CHARS = 80
_HELD_ID = "appr_"
_NAME_AGENT = "name yours: parley mcp --agent NAME, or PARLEY_AGENT; over HTTP the header X-Agent-ID"


class ShownPost(NamedTuple):
    """A message of a channel, or an event, as a model reads it."""

    sender: str
    kind: str
    priority: str
    created_at: datetime
    subject: str
    body: Body
    related_pr: str = ""


class ServerTools:
    """The tools of the agent that calls."""

    def __init__(self, team: Team, caller: Caller) -> None:
        self._team = team
        self._caller = caller

    async def call(self, name: str, arguments: Mapping[str, Any]) -> ToolResult:
        """Call a tool whose arguments have been checked against its schema."""
        return await self._result(lambda: _CALLS[name](self, arguments))

    async def repeat(self, name: str, arguments: Mapping[str, Any], created_id: str) -> ToolResult:
        """The result again of a call that was carried out before, from the ids of what it created."""
        return await self._result(lambda: self._repeat(name, arguments, created_id))

    async def _result(self, run: Callable[[], Awaitable[str | ToolResult]]) -> ToolResult:
        try:
            if not self._caller.agent:
                raise Invalid("this key speaks for several agents", hint=_NAME_AGENT)
            with suppress(ParleyError):  # it may act without being listed
                await agents.note_presence(self._team, self._caller)
            result = await run()
        except ParleyError as error:
            if status_of(error) == INTERNAL:
                raise
            refusal = refusal_of(error)
            return ToolResult(f"{refusal.code}: {safe(name_tools(refusal.detail))}", is_error=True)
        return ToolResult(result) if isinstance(result, str) else result

    async def _repeat(self, name: str, arguments: Mapping[str, Any], created_id: str) -> str | ToolResult:
        if created_id.startswith(_HELD_ID):
            return held_result("it waits already")
        if name == "next":
            items = await claims.claimed_again(self._team, self._caller, self._caller.agent, created_id)
            return (
                await self._taken_text(items[0], budget_of(arguments)) if items else nothing_waits(self._caller.agent)
            )
        post = await self._team.store.post(self._caller.tenant, ids_created(created_id)[0])
        if post is None:
            raise NotFound.no_such("message")
        if name == "reply":
            return self._replied_text(post, keep_open=bool(arguments.get("keep_open")))
        return await self._sent_text(post, wait_of(arguments))

    async def _inbox(self, arguments: Mapping[str, Any]) -> str:
        budget, caller = budget_of(arguments), self._caller
        if ref := arguments.get("id", ""):
            return await self._shown_text(ref, budget)
        listed = await waiting.list_waiting(self._team, caller, _LISTED)
        ends = Counter(entry.job.item_id[-4:] for entry in listed.items)
        items = [_item_of(entry, is_alone=ends[entry.job.item_id[-4:]] == 1) for entry in listed.items]
        shown = [shown_post(entry.item) for entry in listed.items] if budget else []
        bodies = zip(items, shown, strict=True) if budget else ()
        lines = [inbox_text(caller.agent, items, self._team.now(), self._token(), budget, bodies)]
        if listed.left_out:
            lines.append(f"Not listed: {listed.left_out:,} more.")
        if listed.in_roles:
            lines.append(f"In the queues of your roles: {listed.in_roles:,}; next takes one.")
        return "\n".join(lines)

    async def _shown_text(self, ref: str, budget: int) -> str:
        """A message that waits, or any other that the agent may read, by its whole id."""
        team, caller = self._team, self._caller
        entry = await waiting.find_open(team, caller, ref)
        if entry is not None:
            with suppress(ParleyError):  # then it is nobody's any more, and may still be read
                await waiting.confirm(team, caller._replace(saved=None), ref, entry.job)
            return await self._taken_text(entry, budget, is_taken=bool(entry.job.holder))
        post = await team.store.post(caller.tenant, ref)
        if post is None:
            raise NotFound(f"no message {ref[:64]!r} waits for you", hint="inbox lists those that do")
        message = await reading.get(team, caller, post.channel_id, post.id)
        steps = NextSteps("", "", f"inbox with id {ref}")
        return self._text(shown_post(FeedItem.of_post(message.post)), ref, steps, budget, [])

    async def _next(self, arguments: Mapping[str, Any]) -> str | ToolResult:
        budget, agent = budget_of(arguments), self._caller.agent
        wait = wait_of(arguments)
        wish = ClaimWish(lease_seconds=LEASE_SECONDS, wait=wait, shared=True, start=Start.BEGINNING, unread=True)
        items = await claims.claim(self._team, self._caller, agent, wish)
        return await self._taken_result(items[0], budget) if items else nothing_waits(agent)

    async def _taken_result(self, entry: ClaimedItem, budget: int) -> ToolResult:
        ref = await waiting.short_ref(self._team, self._caller, entry.job)
        return ToolResult(await self._taken_text(entry, budget), taken=ref)

    async def _taken_text(self, entry: ClaimedItem, budget: int, *, is_taken: bool = True) -> str:
        ref = await waiting.short_ref(self._team, self._caller, entry.job)
        post = entry.item.post
        notes = [f"it answers your message {post.in_reply_to[-4:]}"] if post is not None and post.in_reply_to else []
        reply = f"reply with id {ref}" if post is not None and post.pattern is Pattern.REQUEST else ""
        steps = NextSteps(reply if is_taken else "", _done_step(ref, reply) if is_taken else "", f"inbox with id {ref}")
        if not is_taken:
            notes.append("it waits; take it with next")
        return self._text(shown_post(entry.item), ref, steps, budget, notes)

    def _text(self, shown: ShownPost, ref: str, steps: NextSteps, budget: int, notes: list[str]) -> str:
        return message_text(shown, ref, steps, self._team.now(), self._token(), budget, notes)

    async def _reply(self, arguments: Mapping[str, Any]) -> str | ToolResult:
        team, caller = self._team, self._caller
        body, kind, keep_open = body_of(arguments), kind_of(arguments), bool(arguments.get("keep_open"))
        entry = await waiting.find_claimed(team, caller, arguments.get("id", ""))
        request = entry.item.post
        if request is None or request.pattern is not Pattern.REQUEST:
            raise NotARequest("this message expects no answer", hint="finish it with done; write with send")
        message = MessageIn(
            _payload(body),
            Pattern.RESPONSE,
            correlation_id=request.id,
            metadata={"kind": kind.value} if kind else None,
            lease=None if keep_open else entry.job.lease,
        )
        draft = draft_of(message, team.limits)
        outcome = await posting.reply(team, caller, request.channel_id, request.id, draft)
        if isinstance(outcome, Held):
            return _held(outcome)
        return self._replied_text(outcome, keep_open=keep_open)

    def _replied_text(self, post: Post, *, keep_open: bool) -> str:
        return f"Sent to {post.to} as {_kind_of(post)}{'' if keep_open else ', and finished the message'}."

    async def _done(self, arguments: Mapping[str, Any]) -> str:
        entry = await waiting.find_claimed(self._team, self._caller, arguments.get("id", ""))
        which = (self._team, self._caller, self._caller.agent, entry.job.id, entry.job.lease)
        if arguments.get("release"):
            await claims.release(*which)
            return RELEASED
        await claims.finish(*which)
        return FINISHED

    async def _send(self, arguments: Mapping[str, Any]) -> str | ToolResult:
        team, caller = self._team, self._caller
        seconds, body = wait_of(arguments), body_of(arguments)
        text = body if isinstance(body, str) else ""
        kind = kind_of(arguments) or (Kind.QUESTION if seconds else default_kind(text))
        to = arguments["to"].strip()
        if "," in to:
            raise Invalid("on a server a message goes to one agent", hint="send it to each of them")
        priority, subject = priority_of(arguments), arguments.get("subject", "")
        metadata: dict[str, Any] = {"kind": kind.value}
        if subject:
            metadata["subject"] = subject
        if priority:
            metadata["priority"] = priority.value
        asks = kind.spec.pattern is Pattern.REQUEST
        message = MessageIn(_payload(body), Pattern.REQUEST if asks else Pattern.NOTIFY, to=to, metadata=metadata)
        channel_id = direct_with(caller, to).channel_id
        outcome = await posting.post(team, caller, channel_id, draft_of(message, team.limits))
        return _held(outcome) if isinstance(outcome, Held) else await self._sent_text(outcome, seconds)

    async def _sent_text(self, post: Post, seconds: float) -> str:
        """What was sent, and its answer if that comes in time. The message is delivered: no refusal may hide that."""
        sent = f"Sent [{post.id[-4:]}] to {post.to} as {_kind_of(post)}."
        if not seconds or post.pattern is not Pattern.REQUEST:
            return sent
        try:
            answer = await asking.resume_ask(self._team, self._caller, post.id, seconds)
        except AskTimeout:
            return f"{sent}\n{NO_ANSWER_YET}"
        except ParleyError as error:
            if status_of(error) == INTERNAL:
                raise
            comes_later = isinstance(error, CircularWait | Unavailable)
            return not_waiting(sent, name_tools(refusal_of(error).detail), comes_later=comes_later)
        with suppress(ParleyError):  # then next hands it out once more
            await waiting.finish_answer(self._team, self._caller._replace(saved=None), answer)
        steps = NextSteps("", "", f"inbox with id {answer.id}")
        return f"{sent}\n{self._text(shown_post(FeedItem.of_post(answer)), answer.id[-4:], steps, 0, [])}"

    async def _agents(self, arguments: Mapping[str, Any]) -> str:
        del arguments
        agent = self._caller.agent
        listed = agents.list_page(self._team, self._caller, AgentFilter(None, "", ""))
        connected = await agents.find_connected(self._team, self._caller.tenant)

        def presence(record: AgentRecord, status: AgentStatus) -> str:
            return presence_of(status, connected.last_seen(record), online=connected.is_online(record, status))

        others = [
            f"{other.record.id} ({presence(*other)})"
            async for other in listed
            if other.record.id != agent and other.status is not AgentStatus.DEREGISTERED
        ]
        return f"You are {agent}. Others: {', '.join(others) or 'none'}."

    def _token(self) -> str:
        return self._team.ids.token()


_CALLS: dict[str, Callable[[ServerTools, Mapping[str, Any]], Awaitable[str | ToolResult]]] = {
    "inbox": ServerTools._inbox,
    "next": ServerTools._next,
    "reply": ServerTools._reply,
    "done": ServerTools._done,
    "send": ServerTools._send,
    "agents": ServerTools._agents,
}


def shown_post(item: FeedItem) -> ShownPost:
    """A message as a model reads it. An event that is work says that the agent was assigned to an intent."""
    post = item.post
    if post is None:
        assert item.event is not None  # noqa: S101  # an item is one or the other
        event = item.event
        text = f"You were assigned to the intent {event.intent_id}."
        return ShownPost(event.actor, Kind.NOTIFICATION, DEFAULT_PRIORITY, from_stamp(event.created_at), "", text)
    metadata = _document(post.metadata)
    body, subject, priority = _body(post.payload), metadata.get("subject"), metadata.get("priority")
    return ShownPost(
        post.sender,
        _kind_of(post),
        priority if isinstance(priority, str) and priority in PRIORITIES else DEFAULT_PRIORITY,
        from_stamp(post.created_at),
        subject if isinstance(subject, str) else "",
        body,
    )


def _item_of(entry: ClaimedItem, *, is_alone: bool) -> Item:
    """The line of a message in a list; it has a short name if it is alone with that."""
    shown, job = shown_post(entry.item), entry.job
    text = shown.body if isinstance(shown.body, str) else json.dumps(shown.body, ensure_ascii=False)
    return Item(
        id=job.item_id[-4:] if is_alone else job.item_id,
        sender=shown.sender,
        to=(),
        kind=shown.kind,
        priority=shown.priority,
        created_at=entry.item.post.created_at if entry.item.post is not None else job.queued_at,
        subject=shown.subject or default_subject(text, _SUBJECT_CHARS),
        expires_at="",
        conversation_id="",
        in_reply_to="",
        file=job.id,
        status="claimed" if job.holder else "new",
    )


def _kind_of(post: Post) -> str:
    """The kind that the sender names; what is no kind follows from how the message is answered."""
    kind = _document(post.metadata).get("kind")
    if isinstance(kind, str) and kind in KINDS:
        return kind
    return Kind.QUESTION if post.pattern is Pattern.REQUEST else Kind.NOTIFICATION


def _done_step(ref: str, reply: str) -> str:
    """How to finish a message; its name is long enough to be said once."""
    return "done with that id" if reply else f"done with id {ref}"


def _payload(body: Body) -> dict[str, Any]:
    return {"text": body} if isinstance(body, str) else dict(body)


def _body(payload: bytes) -> Body:
    """What a payload says: its text if it has nothing else, or its fields; as JSON where a body has no such values."""
    document = _document(payload)
    text = document.get("text")
    if isinstance(text, str) and len(document) == 1:
        return text
    if not document or _has_fraction(document):
        return json.dumps(document, ensure_ascii=False, indent=1) if document else ""
    return document


def _has_fraction(value: object) -> bool:
    if isinstance(value, dict):
        return any(map(_has_fraction, value.values()))
    return any(map(_has_fraction, value)) if isinstance(value, list) else isinstance(value, float)


def _document(content: bytes) -> dict[str, Any]:
    document = json.loads(content)
    return document if isinstance(document, dict) else {"value": document}


def _held(outcome: Held) -> ToolResult:
    return held_result(f"{outcome.approval.id}; its answer comes with next")
