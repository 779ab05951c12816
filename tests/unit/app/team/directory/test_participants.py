"""Who joins an intent, and that nobody overhears a team that it is no part of."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from parley.app.team.channels import streams
from parley.app.team.channels.streams import Followed
from parley.app.team.directory import access as access_lists
from parley.app.team.directory import departure, roles
from parley.app.team.directory.participants import participation
from parley.app.team.intents import intents
from parley.app.team.intents.intents import AccessDraft, IntentDraft
from parley.domain.channel.channel import MemberPolicy
from parley.domain.channel.feed import FeedItem
from parley.domain.channel.post import Post, PostState
from parley.domain.directory.access import Access, AccessPolicy
from parley.domain.directory.callers import DEFAULT_TENANT, KeyKind
from parley.domain.errors.errors import Forbidden, Invalid, NotFound
from parley.domain.errors.team import NotMember
from parley.domain.message.message import Pattern
from tests.rigs.team import INTENT, Rig, open_rig, with_rig

pytestmark = pytest.mark.both_stores


async def joined(rig: Rig, agent: str, intent_id: str = INTENT) -> bool:
    access = await rig.store.get(Access, DEFAULT_TENANT, intent_id)
    assert access is not None
    return await participation(rig.team, access, agent) is not None


async def stream_of(rig: Rig, agent: str) -> list[str]:
    """The messages that an agent's own stream shows from the beginning."""
    await rig.key(agent)
    head, shown = await rig.store.head(DEFAULT_TENANT), list[str]()
    if not head:
        return shown
    async for batch in streams.follow(rig.team, rig.caller(agent), Followed(agent=agent), 0):
        if batch is not None:
            shown += [item.post.id for item in batch.items if item.post is not None]
            if batch.position >= head:
                break
    return shown


async def is_pushed(rig: Rig, agent: str, post: Post) -> bool:
    """Whether a message that is committed now goes to the agent's own stream, and to its webhooks."""
    return await streams.is_visible(rig.team, rig.caller(agent), Followed(agent=agent), FeedItem.of_post(post))


# ---------------------------------------------------------------- joining


@with_rig
async def test_who_speaks_on_an_open_intent_joins_it_and_hears_what_is_said_from_then_on(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    await rig.say("alice", "before")
    assert not await joined(rig, "bob")

    own = await rig.say("bob", "here I am")
    after = await rig.say("alice", "welcome")

    assert await joined(rig, "bob")
    assert await stream_of(rig, "bob") == [after.id]
    assert own.position < after.position


@with_rig
async def test_who_is_written_to_by_name_on_an_open_intent_gets_it_and_joins(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    await rig.say("alice", "before")

    mail = await rig.say("alice", "for you", to="bob")
    after = await rig.say("alice", "for all")

    assert await stream_of(rig, "bob") == [mail.id, after.id]


@with_rig
async def test_who_may_read_an_open_intent_reads_and_follows_it_but_is_not_told(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    await rig.key("bob")
    said = await rig.say("alice", "for all")

    assert await stream_of(rig, "bob") == []
    for followed in (Followed(channel_id=said.channel_id), Followed(intent_id=INTENT)):
        assert await streams.is_visible(rig.team, rig.caller("bob"), followed, FeedItem.of_post(said))
    assert not await joined(rig, "bob")


@with_rig
async def test_a_message_to_a_role_goes_to_holders_that_take_part_and_waits_where_none_does(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    await rig.role("ops", "bob", "carol")

    waiting = await rig.say("alice", to="role:ops")
    assert (waiting.state, waiting.recipients) == (PostState.PENDING, ())
    await rig.say("carol", "here I am")

    found = await rig.store.post(DEFAULT_TENANT, waiting.id)
    assert found is not None
    assert (found.state, found.recipients) == (PostState.DELIVERED, ("carol",))
    assert (await rig.say("alice", to="role:ops")).recipients == ("carol",)


@with_rig
async def test_a_holder_that_is_let_in_gets_what_waited_for_the_role(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    await rig.channel()
    await rig.role("ops", "bob")
    waiting = await rig.say("alice", to="role:ops")

    await intents.assign(rig.team, rig.caller("alice"), INTENT, "bob")

    found = await rig.store.post(DEFAULT_TENANT, waiting.id)
    assert found is not None
    assert found.recipients == ("bob",)
    assert await stream_of(rig, "bob") == [waiting.id]


@with_rig
async def test_on_a_closed_intent_nobody_joins_and_the_refusal_says_how_to_let_an_agent_in(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    await rig.channel()

    with pytest.raises(NotMember) as refused:
        await rig.say("alice", to="bob")
    with pytest.raises(NotFound):
        await rig.say("bob")

    command, program = f"parley intent assign {INTENT} bob", f'client.assign_agent("{INTENT}", "bob")'
    assert refused.value.hint == f"let it in: {command}, or in Python {program}"
    assert not await joined(rig, "bob")


@with_rig
async def test_many_who_speak_for_the_first_time_at_once_all_join(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    agents = [f"agent-{number}" for number in range(40)]

    await asyncio.gather(*[rig.say(agent) for agent in agents for _ in range(2)])

    assert all([await joined(rig, agent) for agent in agents])


@with_rig
async def test_a_member_speaks_in_an_explicit_channel_and_takes_part_in_the_intent(rig: Rig) -> None:
    await rig.intent()
    await rig.channel("chan_x", "bob", policy=MemberPolicy.EXPLICIT)
    await rig.channel()
    await rig.say("bob", channel_id="chan_x")

    assert (await stream_of(rig, "bob")) == []
    said = await rig.say("alice", "for all")
    assert await stream_of(rig, "bob") == [said.id]


@with_rig
async def test_who_leaves_takes_part_no_more(rig: Rig) -> None:
    await rig.intent()
    await rig.channel()
    await rig.agent("bob")
    await rig.say("bob")

    await departure.depart(rig.team, rig.caller(kind=KeyKind.ADMIN), "bob")

    assert not await joined(rig, "bob")


@with_rig
async def test_on_an_intent_from_before_0_7_everyone_with_access_hears_until_the_list_is_replaced(rig: Rig) -> None:
    await rig.intent()
    await rig.access(reaches_all=True)
    await rig.channel()
    await rig.role("ops", "bob")

    everyone, role = await rig.say("alice", "for all"), await rig.say("alice", to="role:ops")
    assert await stream_of(rig, "bob") == [everyone.id, role.id]
    assert not await joined(rig, "alice")

    await access_lists.replace_all(rig.team, rig.caller("alice"), INTENT, AccessPolicy.OPEN, ())
    assert not await is_pushed(rig, "bob", await rig.say("alice", "for those who take part"))


# ---------------------------------------------------------------- a new intent


@with_rig
async def test_a_new_intent_is_closed_unless_its_creator_or_the_server_says_otherwise(rig: Rig) -> None:
    alice = rig.caller("alice")

    async def policy(wanted: AccessPolicy | None) -> AccessPolicy:
        intent = await intents.create(rig.team, alice, IntentDraft("t"), AccessDraft(wanted))
        return (await access_lists.get(rig.team, alice, intent.id)).policy

    assert await policy(None) is AccessPolicy.CLOSED
    assert await policy(AccessPolicy.OPEN) is AccessPolicy.OPEN
    rig.team.new_intents = AccessPolicy.OPEN
    assert await policy(None) is AccessPolicy.OPEN
    assert await policy(AccessPolicy.CLOSED) is AccessPolicy.CLOSED


@with_rig
async def test_agents_that_a_new_intent_names_may_write_and_take_part_and_may_not_manage(rig: Rig) -> None:
    alice = rig.caller("alice")
    wanted = AccessDraft(AccessPolicy.CLOSED, ("bob", "carol", "bob"))
    intent = await intents.create(rig.team, alice, IntentDraft("t"), wanted)
    await rig.channel(intent_id=intent.id)

    said = await rig.say("bob")

    assert await stream_of(rig, "carol") == [said.id]
    assert [grant.principal_id for grant in (await access_lists.get(rig.team, alice, intent.id)).grants] == [
        "bob",
        "carol",
    ]
    events = await rig.store.events(DEFAULT_TENANT, intent.id)
    assert [event.event_type for event in events] == ["intent_created", "access_granted", "access_granted"]
    with pytest.raises(NotFound):
        await intents.get(rig.team, rig.caller("dave"), intent.id)
    with pytest.raises(Forbidden):
        await intents.assign(rig.team, rig.caller("bob"), intent.id, "dave")


@with_rig
async def test_a_reserved_name_gets_no_access(rig: Rig) -> None:
    with pytest.raises(Invalid):
        await intents.create(rig.team, rig.caller("alice"), IntentDraft("t"), AccessDraft(None, ("system",)))


# ---------------------------------------------------------------- two teams on one server

TEAMS = ("red", "blue")
AGENTS = ("red-1", "red-2", "blue-1", "blue-2", "guest")
ADDRESSES = ("", "*", "role:worker", "role:nobody", *AGENTS)


class Say(NamedTuple):
    """An agent says something on the intent of a team."""

    sender: str
    team: str
    to: str


class Assign(NamedTuple):
    """The owner of a team's intent assigns an agent."""

    agent: str
    team: str


class TakeRole(NamedTuple):
    """An admin grants the role of a worker."""

    agent: str


SAY = st.builds(Say, st.sampled_from(AGENTS), st.sampled_from(TEAMS), st.sampled_from(ADDRESSES))
ASSIGN = st.builds(Assign, st.sampled_from(AGENTS), st.sampled_from(TEAMS))
ACTS = st.lists(st.one_of(SAY, SAY, SAY, ASSIGN, st.builds(TakeRole, st.sampled_from(AGENTS))), max_size=12)


@dataclass
class TeamModel:
    """What is known of a team's intent, said as simply as possible."""

    is_open: bool
    # Those on the list may hear what was said after they could read it; those who joined, what was said after that.
    listed: dict[str, int]
    joined: dict[str, int] = field(default_factory=dict)
    # In the order in which it was said: to everyone, and the roles that nobody here holds.
    broadcasts: list[tuple[int, str, str]] = field(default_factory=list)
    waiting: list[tuple[str, str]] = field(default_factory=list)

    def has_access(self, agent: str) -> bool:
        return self.is_open or agent in self.listed

    def takes_part(self, agent: str) -> bool:
        return agent in self.listed or agent in self.joined

    def hears(self, agent: str, place: int) -> bool:
        return place > self.listed[agent] if agent in self.listed else place > self.joined.get(agent, place)


class World:
    """The model of both teams: who has what in its stream."""

    def __init__(self, teams: dict[str, TeamModel], workers: set[str]) -> None:
        self.teams = teams
        self.workers = workers
        self.direct: dict[str, set[str]] = {agent: set() for agent in AGENTS}
        self.clock = 0

    def may_say(self, act: Say) -> bool:
        team = self.teams[act.team]
        return team.has_access(act.sender) and (act.to not in AGENTS or team.has_access(act.to))

    def say(self, act: Say, message_id: str) -> set[str]:
        """Whom the message is pushed to at this moment."""
        team = self.teams[act.team]
        self.clock += 1
        pushed: set[str] = set()
        if act.to in ("", "*"):
            team.broadcasts.append((self.clock, act.sender, message_id))
            pushed = {agent for agent in AGENTS if agent != act.sender and team.hears(agent, self.clock)}
        elif act.to in AGENTS:
            self.direct[act.to].add(message_id)
            pushed = {act.to}
        else:
            holders = {agent for agent in self.workers if act.to == "role:worker" and team.takes_part(agent)}
            pushed = holders - {act.sender}
            if not holders:
                team.waiting.append((act.sender, message_id) if act.to == "role:worker" else ("", message_id))
            for agent in pushed:
                self.direct[agent].add(message_id)
        for agent in (act.sender, act.to if act.to in AGENTS else act.sender):
            if agent not in team.listed:
                team.joined.setdefault(agent, self.clock)
        self.deliver_waiting()
        return pushed

    def assign(self, act: Assign) -> None:
        team = self.teams[act.team]
        self.clock += 1
        team.listed.setdefault(act.agent, 0 if team.is_open else self.clock)
        self.deliver_waiting()

    def take_role(self, agent: str) -> None:
        self.workers.add(agent)
        self.deliver_waiting()

    def deliver_waiting(self) -> None:
        for team in self.teams.values():
            holders = {agent for agent in self.workers if team.takes_part(agent)}
            for sender, message_id in team.waiting if holders else ():
                for agent in holders - {sender} if sender else ():
                    self.direct[agent].add(message_id)
            if holders:
                team.waiting = [(sender, message_id) for sender, message_id in team.waiting if not sender]

    def stream(self, agent: str) -> set[str]:
        heard = {
            message_id
            for team in self.teams.values()
            for place, sender, message_id in team.broadcasts
            if sender != agent and team.takes_part(agent) and team.hears(agent, place)
        }
        return heard | self.direct[agent]


async def play(
    rig: Rig,
    is_open: dict[str, bool],
    crews: dict[str, set[str]],
    workers: set[str],
    acts: list[Say | Assign | TakeRole],
) -> None:
    for team in TEAMS:
        policy = AccessPolicy.OPEN if is_open[team] else AccessPolicy.CLOSED
        grants = tuple(rig.grant(agent) for agent in sorted(crews[team]))
        await rig.intent(f"intent_{team}", f"owner-{team}", policy=policy, grants=grants)
        await rig.channel(f"chan_{team}", intent_id=f"intent_{team}", created_by=f"owner-{team}")
    await rig.role("worker", *sorted(workers))
    teams = {team: TeamModel(is_open[team], dict.fromkeys(crews[team], 0)) for team in TEAMS}
    world = World(teams, set(workers))
    for act in acts:
        if isinstance(act, Assign):
            await intents.assign(rig.team, rig.caller(f"owner-{act.team}"), f"intent_{act.team}", act.agent)
            world.assign(act)
        elif isinstance(act, TakeRole):
            await roles.grant(rig.team, rig.caller(kind=KeyKind.ADMIN), "worker", act.agent)
            world.take_role(act.agent)
        elif not world.may_say(act):
            with pytest.raises((NotFound, NotMember)):
                await rig.say(act.sender, to=act.to, channel_id=f"chan_{act.team}")
        else:
            pattern = Pattern.BROADCAST if act.to == "*" else Pattern.NOTIFY
            said = await rig.say(act.sender, to=act.to, channel_id=f"chan_{act.team}", pattern=pattern)
            expected = world.say(act, said.id)
            assert {
                agent for agent in AGENTS if agent != act.sender and await is_pushed(rig, agent, said)
            } == expected - {act.sender}, act
    for agent in AGENTS:
        assert set(await stream_of(rig, agent)) == world.stream(agent), agent


EVERYTHING = [Say(sender, "red", to) for sender in ("red-1", "guest") for to in ADDRESSES]


@settings(deadline=None)
@example({"red": True, "blue": True}, {"red": {"red-1"}, "blue": {"blue-1"}}, set(AGENTS), EVERYTHING[:4])
@example({"red": True, "blue": False}, {"red": {"red-1"}, "blue": set()}, {"blue-1", "guest"}, EVERYTHING)
@example({"red": False, "blue": True}, {"red": {"red-1", "red-2"}, "blue": set()}, set(AGENTS), EVERYTHING)
@given(
    st.fixed_dictionaries({team: st.booleans() for team in TEAMS}),
    st.fixed_dictionaries({team: st.sets(st.sampled_from(AGENTS), max_size=3) for team in TEAMS}),
    st.sets(st.sampled_from(AGENTS)),
    ACTS,
)
def test_of_two_teams_on_one_server_nobody_hears_a_message_that_is_not_for_it_and_nobody_misses_one(
    is_open: dict[str, bool], crews: dict[str, set[str]], workers: set[str], acts: list[Say | Assign | TakeRole]
) -> None:
    async def story() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with open_rig(Path(folder)) as rig:
                await play(rig, is_open, crews, workers, acts)

    asyncio.run(story())
