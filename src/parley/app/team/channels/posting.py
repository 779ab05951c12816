"""Say something in a channel: load, decide, commit, wake. The one way a channel message is written."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from parley.app.team.rules import governing, holding
from parley.app.team.rules import in_force as rules
from parley.app.team.rules.proposed import Message
from parley.app.team.system_posts import audited
from parley.app.team.team import ATTEMPTS
from parley.domain.agents.agent import AgentRecord
from parley.domain.channel.channel import Channel, lifetime_end, view
from parley.domain.channel.post import Post, PostDraft, check_answerable, place
from parley.domain.directory.access import Access
from parley.domain.directory.callers import ROLE_PREFIX, TENANT_MARK, Role
from parley.domain.errors.errors import Conflict, Invalid, NotFound, Problem, Stale
from parley.domain.errors.rules import Overspent
from parley.domain.errors.team import AgentDeparted, AskTimeout, ChannelClosed, NameTaken
from parley.domain.exchange.exchange import Exchange
from parley.domain.hashes import digest
from parley.domain.message.message import Pattern
from parley.domain.record import Expect, expecting
from parley.domain.store.changes import TeamChanges
from parley.domain.times import stamp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from contextlib import AbstractAsyncContextManager

    from parley.app.team.rules.proposed import Governed
    from parley.app.team.team import Team
    from parley.domain.channel.event import EventDraft
    from parley.domain.directory.callers import Caller
    from parley.domain.errors.errors import ParleyError
    from parley.domain.exchange.approval import Approval


_ONE_BY_ONE = Problem("governed", "messages", "messages under the rules are sent one by one")

_NO_QUEUE = nullcontext()


class Held(NamedTuple):
    """What became of a message that waits for a person: nobody has it yet."""

    approval: Approval


class Decided(NamedTuple):
    """What a decision writes. A refusal is raised, and a held message told of, after it is written."""

    changes: TeamChanges
    held: Approval | None = None
    refusal: ParleyError | None = None
    # The one message that the rules concern, to decide about it anew when a budget turns out to be spent.
    message: Message | None = None


async def post(team: Team, caller: Caller, channel_id: str, draft: PostDraft, message_id: str = "") -> Post | Held:
    """Post one message; on return it is durable, and its recipients can read it, or it waits for a person."""
    ids = (message_id or team.new_id("msg"),)
    check_speaks(caller)
    async with queued(team, caller, draft):
        return await settled(team, caller, lambda: decide(team, caller, channel_id, (draft,), ids))


async def post_all(team: Team, caller: Caller, channel_id: str, drafts: Sequence[PostDraft]) -> tuple[Post, ...]:
    """Post several messages in one transaction: all of them, or none."""
    check_speaks(caller)
    ids = tuple([team.new_id("msg") for _ in drafts])
    for _ in range(ATTEMPTS):
        decided = await decide(team, caller, channel_id, drafts, ids)
        if decided.held is not None:
            raise Invalid.because([_ONE_BY_ONE])
        try:
            if decided.refusal is not None:
                await team.store.commit(decided.changes)
                raise decided.refusal
            # What the server itself says about it comes behind.
            return (await team.commit(caller, decided.changes)).posts[: len(drafts)]
        except Stale as stale:
            if "kind" not in stale.facts:
                raise
    raise Conflict("the channel changes too often at this moment", hint="try again")


async def settled(team: Team, caller: Caller, decide: Callable[[], Awaitable[Decided]]) -> Post | Held:
    """Decide about one message and commit what was decided; again when somebody else was faster, a few times."""
    for _ in range(ATTEMPTS):
        decided = await decide()
        try:
            return await _committed(team, caller, decided)
        except Overspent as error:
            if decided.message is None:
                raise
            spent = await governing.overspent(team, decided.message, error)
            try:
                return await _committed(team, caller, _in_its_place(decided, spent))
            except (Stale, NameTaken):
                continue
        except NameTaken:
            # The same channel, exchange or escalation began at this moment: go on with that one.
            team.governance.forget(caller.tenant, decided.changes.puts)
        except Stale as stale:
            if "kind" not in stale.facts:
                raise
    raise Conflict("the channel changes too often at this moment", hint="try again")


async def _committed(team: Team, caller: Caller, decided: Decided) -> Post | Held:
    if decided.refusal is not None:
        # A refusal uses up no idempotency key: whoever mends what was wrong may send it again.
        await team.store.commit(decided.changes)
        raise decided.refusal
    held = decided.held
    done = await team.commit(caller, decided.changes, held.id if held else "")
    return Held(held) if held is not None else done.posts[0]


def _in_its_place(decided: Decided, governed: Governed) -> Decided:
    """The decision with what the rules make of the message now; what it depended on stays."""
    changes = TeamChanges(
        decided.changes.tenant,
        expects=tuple(one for one in decided.changes.expects if one.kind != Exchange.kind),
        puts=governed.puts,
        audits=governed.audits,
        spends=governed.spends,
    )
    return Decided(changes, governed.held, governed.refusal)


def queued(team: Team, caller: Caller, draft: PostDraft) -> AbstractAsyncContextManager[None]:
    """Wait for whoever else speaks in the same conversation at this moment."""
    asked = draft.wishes
    conversation = draft.in_reply_to
    if asked is not None:
        claimed = asked.envelope.conversation_id if asked.envelope else ""
        conversation = asked.conversation_id or claimed or conversation
    return team.governance.queue(caller.tenant, conversation) if conversation else _NO_QUEUE


async def decide(
    team: Team,
    caller: Caller,
    channel_id: str,
    drafts: Sequence[PostDraft],
    ids: Sequence[str],
    *,
    approval: Approval | None = None,
    instead_of: Approval | None = None,
) -> Decided:
    """What these drafts would write now. An approved one was held before; another is said instead of one that was."""
    for draft, message_id in zip(drafts, ids, strict=True):
        if leaves_tenant(caller, draft):
            blocked = governing.blocked(team, caller, draft, message_id)
            return Decided(TeamChanges(caller.tenant, audits=blocked.audits), refusal=blocked.refusal)
    channel = await team.store.get(Channel, caller.tenant, channel_id)
    access = await team.store.get(Access, caller.tenant, channel.intent_id) if channel else None
    if channel is None or access is None:
        raise NotFound("there is no such channel")
    if channel.options.ttl_seconds is not None:
        await _check_alive(team, channel)
    expects = [expecting(channel), expecting(access)]
    about = (approval, instead_of)
    return await decide_in(team, caller, channel, access, drafts, ids, expects, about)


async def decide_in(  # everything that a message depends on
    team: Team,
    caller: Caller,
    channel: Channel,
    access: Access,
    drafts: Sequence[PostDraft],
    ids: Sequence[str],
    expects: list[Expect],
    about: tuple[Approval | None, Approval | None] = (None, None),
) -> Decided:
    """What these drafts would write in a channel that is there, or is about to be."""
    tenant = caller.tenant
    now = team.now()
    seen = view(channel, access, caller, stamp(now))
    record = await check_present(team, tenant, caller.agent, expects)
    posts: list[Post] = []
    for given, message_id in zip(drafts, ids, strict=True):
        draft = given._replace(to=given.to.partition(TENANT_MARK)[0]) if TENANT_MARK in given.to else given
        role = await addressed_role(team, tenant, draft, expects)
        request = await _request(team, tenant, draft)
        placed = place(
            draft,
            message_id,
            now,
            caller.agent,
            seen,
            channel,
            access,
            role=role,
            request=request,
            longest=team.limits.longest_expiry if draft.expires_at else timedelta(0),
        )
        addressee = await check_reachable(team, tenant, placed, expects) if placed.recipients else None
        message = Message(caller, channel, access, draft, placed, request, record, *about, addressee)
        governed = await governing.govern(team, message, expects)
        if governed is None:
            posts.append(placed)
        elif governed.post is not None and not governed.audits:
            posts.append(governed.post)
        elif len(drafts) > 1:
            raise Invalid.because([_ONE_BY_ONE])
        else:
            return await _governed(team, channel, message, governed, expects)
    events: tuple[EventDraft, ...] = ()
    if channel.options.audit:
        # Everybody with access to the intent reads its log, of whichever org unit.
        apart = await rules.several_units(team, tenant, expects)
        shown = [_unread(one) if apart and one.recipients is not None else one for one in posts]
        events = tuple(audited(team, channel, one, draft) for one, draft in zip(shown, drafts, strict=True))
    return Decided(TeamChanges(tenant, tuple(posts), tuple(expects), events=events))


def leaves_tenant(caller: Caller, draft: PostDraft) -> bool:
    """Whether a message is for another tenant. Looked at before anything else, and nothing overrides it."""
    return TENANT_MARK in draft.to and draft.to.partition(TENANT_MARK)[2] != caller.tenant


def _unread(post: Post) -> Post:
    """The message with only the digest of what it says."""
    return post._replace(payload=b'{"sha256":"%b"}' % digest(post.payload).encode())


async def _governed(
    team: Team, channel: Channel, message: Message, governed: Governed, expects: list[Expect]
) -> Decided:
    post = governed.post
    events: tuple[EventDraft, ...] = ()
    if post is not None and channel.options.audit:
        # Everybody with access to the intent reads its log: what was for one of them only is not told there.
        events = (audited(team, channel, _unread(post), message.draft),)
    # What is put carries the version that it replaces: it need not be expected as well.
    put = {(one.kind, one.id) for one in governed.puts if one.version}
    changes = TeamChanges(
        message.caller.tenant,
        (post,) if post is not None else (),
        tuple([one for one in expects if (one.kind, one.id) not in put] if put else expects),
        puts=governed.puts,
        events=events,
        audits=governed.audits,
        spends=governed.spends,
    )
    over = holding.decided_of(governed.puts)
    if over:
        changes = await holding.told(team, changes, *over)
    return Decided(changes, governed.held, governed.refusal, message)


def check_speaks(caller: Caller) -> None:
    """A message has a sender."""
    if not caller.agent:
        detail = "name the agent that speaks, by sender or X-Agent-ID"
        raise Invalid.because([Problem("required", "sender", detail)])


async def check_present(team: Team, tenant: str, agent: str, expects: list[Expect] | None = None) -> AgentRecord | None:
    """Refuse an agent that has left. One that never registered is as good as any."""
    record = await team.store.get(AgentRecord, tenant, agent)
    if record is None:
        return None
    if record.gone:
        raise AgentDeparted(f"{agent} has left", hint="register it again")
    if expects is not None:
        expects.append(expecting(record))
    return record


async def check_reachable(team: Team, tenant: str, said: Post, expects: list[Expect]) -> AgentRecord | None:
    """Refuse what is said to one agent that has left; else the agent's record, if it has one."""
    if said.recipients and not said.to.startswith(ROLE_PREFIX):
        return await check_present(team, tenant, said.to, expects)
    return None


async def _check_alive(team: Team, channel: Channel) -> None:
    """A channel whose time has run out is closed, whether or not the sweep has been here."""
    if channel.is_open:
        end = lifetime_end(channel, await team.store.tally(channel.tenant_id, channel.id))
        if end and end <= team.at():
            raise ChannelClosed(f"the channel {channel.label} is closed: its time ran out")


async def addressed_role(team: Team, tenant: str, draft: PostDraft, expects: list[Expect]) -> Role | None:
    """The role that a draft is for, noted as something the decision depends on."""
    if not draft.to.startswith(ROLE_PREFIX):
        return None
    role_id = draft.to.removeprefix(ROLE_PREFIX)
    role = await team.store.get(Role, tenant, role_id)
    expects.append(expecting(role) if role else Expect(Role.kind, role_id, 0))
    return role


async def _request(team: Team, tenant: str, draft: PostDraft) -> Post | None:
    if draft.pattern is not Pattern.RESPONSE or not draft.in_reply_to:
        return None
    return await team.requests.get(tenant, draft.in_reply_to)


async def reply(team: Team, caller: Caller, channel_id: str, request_id: str, draft: PostDraft) -> Post | Held:
    """Answer a request: whom it goes to and what it answers follow from the request."""
    check_speaks(caller)
    channel = await team.store.get(Channel, caller.tenant, channel_id)
    access = await team.store.get(Access, caller.tenant, channel.intent_id) if channel else None
    if channel is None or access is None:
        raise NotFound("there is no such channel")
    seen = view(channel, access, caller, team.at())
    request = await team.requests.get(caller.tenant, request_id)
    if request is None or request.channel_id != channel_id:
        raise NotFound("there is no such message")
    # Of what it may not see an agent learns only that a request was not for it.
    if request.pattern is not Pattern.REQUEST and not request.visible_to(seen):
        raise NotFound("there is no such message")
    if channel.is_open and seen.takes_part:
        check_answerable(request, caller.agent, team.at())
    answer = draft._replace(pattern=Pattern.RESPONSE, in_reply_to=request_id, to="")
    return await post(team, caller, channel_id, answer)


async def ask(team: Team, caller: Caller, channel_id: str, draft: PostDraft, patience: float) -> Post | Held:
    """Post a request and wait so many seconds for its first answer. `AskTimeout` when none comes in time.

    What waits for a person is not waited for.
    """
    check_speaks(caller)
    if draft.pattern is not Pattern.REQUEST:
        raise Invalid.because([Problem("invalid", "message_type", "only a request can be waited for")])

    def bounded() -> PostDraft:
        """Our patience counts from when it is posted: what came before may have taken longer than all of it."""
        return draft._replace(expires_at=draft.expires_at or team.now() + timedelta(seconds=patience))

    message_id = team.new_id("msg")
    first = await decide(team, caller, channel_id, (bounded(),), (message_id,))
    if not first.changes.posts:
        # A person takes longer than anybody waits here: what is held is held without the end of our patience.
        return await post(team, caller, channel_id, draft, message_id)
    answer = team.waits.begin(caller.tenant, first.changes.posts[0])
    try:
        request = await post(team, caller, channel_id, bounded(), message_id)
        return request if isinstance(request, Held) else await _answer(request, answer, patience)
    finally:
        team.waits.end(message_id, answer)


async def ask_again(team: Team, caller: Caller, request_id: str, patience: float) -> Post:
    """Wait on for the first answer to a request that was posted before, as one whose connection broke would."""
    request = await team.requests.get(caller.tenant, request_id)
    if request is None:
        raise NotFound("there is no such message")
    answer = team.waits.begin(caller.tenant, request)
    try:
        # Begun before we look: what is answered from now on wakes us.
        answers = await team.store.answers(caller.tenant, request_id)
        return answers[0] if answers else await _answer(request, answer, patience)
    finally:
        team.waits.end(request_id, answer)


async def _answer(request: Post, answer: asyncio.Future[Post], patience: float) -> Post:
    try:
        async with asyncio.timeout(patience):
            return await answer
    except TimeoutError:
        raise AskTimeout(
            f"{request.to} did not answer {request.id} within {patience:g} s",
            facts={"request_id": request.id},
        ) from None
