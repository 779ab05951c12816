"""A request that nobody could answer is refused at once, where the asker wants that."""

from __future__ import annotations

import pytest

from parley.app.team.channels import asking, posting
from parley.app.team.directory import departure, keys
from parley.app.team.directory.keys import KeyDraft
from parley.domain.channel.channel import MemberPolicy, closed
from parley.domain.channel.post import Post, PostDraft, PostState
from parley.domain.directory.access import AccessPolicy, Permission
from parley.domain.directory.callers import AgentStatus, KeyKind
from parley.domain.errors.errors import NotFound
from parley.domain.errors.team import AgentDeparted, AskTimeout, ChannelClosed, NoResponders, NotMember
from parley.domain.message.message import Pattern
from parley.domain.rules.policy import CrossOrg
from tests.rigs.governed import place, put_policy
from tests.rigs.team import CHANNEL, CREW, Rig, delivered, with_rig

pytestmark = pytest.mark.both_stores


async def stage(rig: Rig, *agents: str) -> None:
    await rig.intent(agents=CREW)
    await rig.channel()
    for agent in agents:
        await rig.agent(agent)


async def asked(rig: Rig, to: str, *, sender: str = "alice", needs: bool = True) -> Post:
    """Post a request that has to have somebody who could answer."""
    request = PostDraft(Pattern.REQUEST, b"{}", to, wait_for_responders=not needs)
    return delivered(await posting.post(rig.team, rig.caller(sender), CHANNEL, request))


async def refusal(rig: Rig, to: str) -> NoResponders:
    with pytest.raises(NoResponders) as refused:
        await asked(rig, to)
    return refused.value


@with_rig
async def test_a_name_that_nobody_knows_is_refused_with_what_was_meant(rig: Rig) -> None:
    await stage(rig, "planner", "writer")

    error = await refusal(rig, "planer")

    assert str(error) == 'no agent "planer" is registered (did you mean "planner"?)'
    assert error.facts == {"to": "planer", "similar": ["planner"]}
    assert (await refusal(rig, "qwertz")).facts["similar"] == []


@pytest.mark.parametrize("status", [AgentStatus.ACTIVE, AgentStatus.DRAINING])
@with_rig
async def test_mail_waits_for_a_registered_agent_however_long_it_is_away(rig: Rig, status: AgentStatus) -> None:
    await stage(rig)
    await rig.agent("bob", status=status, last_heartbeat_at=rig.at())
    rig.clock.pass_by(days=3)

    assert (await asked(rig, "bob")).recipients == ("bob",)


@with_rig
async def test_an_agent_that_was_deregistered_is_refused_as_departed(rig: Rig) -> None:
    await stage(rig, "bob")
    await departure.depart(rig.team, rig.caller("bob"), "bob")

    with pytest.raises(AgentDeparted):
        await asked(rig, "bob")


@pytest.mark.parametrize(
    "draft", [KeyDraft(KeyKind.AGENT, agent_id="bob"), KeyDraft(KeyKind.HUMAN, user_id="bob")], ids=["agent", "person"]
)
@with_rig
async def test_whoever_has_a_key_is_known_also_one_that_is_made_later(rig: Rig, draft: KeyDraft) -> None:
    await stage(rig)
    await rig.tenant()
    await refusal(rig, "bob")  # now the names are in memory

    await keys.create(rig.team, rig.caller("", KeyKind.ADMIN), draft)

    assert (await asked(rig, "bob")).recipients == ("bob",)


@with_rig
async def test_an_agent_that_registers_later_is_known_and_suggested(rig: Rig) -> None:
    await stage(rig)
    assert (await refusal(rig, "libarian")).facts["similar"] == []

    await rig.agent("librarian")

    assert (await refusal(rig, "libarian")).facts["similar"] == ["librarian"]
    assert (await asked(rig, "librarian")).recipients == ("librarian",)


@with_rig
async def test_who_takes_part_is_known_without_being_registered(rig: Rig) -> None:
    await rig.intent(created_by="carol", assignments=(rig.assignment("bob"),), grants=(rig.grant("dave"),))
    await rig.channel(CHANNEL, "erik", created_by="frida")

    for name in ("alice", "bob", "carol", "dave", "erik", "frida"):
        assert (await asked(rig, name)).recipients == (name,)
    await refusal(rig, "mallory")


@with_rig
async def test_a_typing_error_on_a_closed_intent_is_one_too_and_a_known_stranger_is_no_member(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("planner"),))
    await rig.channel(CHANNEL, "planner", policy=MemberPolicy.EXPLICIT)
    await rig.agent("planner")
    await rig.agent("stranger")

    assert (await refusal(rig, "planer")).facts["similar"] == ["planner"]
    with pytest.raises(NotMember):
        await asked(rig, "stranger")


@with_rig
async def test_a_role_that_nobody_here_holds_is_refused_with_similar_roles(rig: Rig) -> None:
    await stage(rig)
    await rig.role("reviewer", "bob")
    await rig.role("reviewed")

    error = await refusal(rig, "role:reviewr")

    assert str(error) == 'nobody holds the role "reviewr" (did you mean "role:reviewer"?)'
    assert error.facts["similar"] == ["role:reviewer"]
    await refusal(rig, "role:reviewed")
    assert (await asked(rig, "role:reviewer")).recipients == ("bob",)


@with_rig
async def test_a_role_whose_holders_cannot_read_the_channel_is_refused(rig: Rig) -> None:
    await rig.intent(agents=CREW)
    await rig.channel(CHANNEL, policy=MemberPolicy.EXPLICIT)
    await rig.agent("bob")
    await rig.role("reviewer", "bob")

    error = await refusal(rig, "role:reviewer")

    assert error.facts["similar"] == []
    assert str(error) == (
        'nobody in this channel holds the role "reviewer" (bob holds it, but not here; bring one:'
        ' PATCH /channels/chan_1 {"add_members": ["bob"]})'
    )


@pytest.mark.parametrize("to", ["role:reviewer", "any:reviewer"])
@with_rig
async def test_the_refusal_names_holders_that_are_not_on_the_intent_and_how_to_bring_one(rig: Rig, to: str) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED)
    await rig.channel()
    for agent in ("bob", "carol", "dave", "erik"):
        await rig.agent(agent)
    await rig.role("reviewer", "bob", "carol", "dave", "erik")

    assert str(await refusal(rig, to)) == (
        'nobody in this channel holds the role "reviewer" (bob and carol and dave hold it, but not here; bring one:'
        " parley intent assign intent_1 bob)"
    )


@with_rig
async def test_the_refusal_of_a_role_that_nobody_holds_says_how_to_give_it(rig: Rig) -> None:
    await stage(rig)

    assert str(await refusal(rig, "role:nobody")) == (
        'nobody holds the role "nobody" (give it to an agent: parley agent register NAME --role nobody)'
    )


@pytest.mark.parametrize("pattern", [Pattern.NOTIFY, Pattern.REQUEST])
@with_rig
async def test_a_job_waits_for_holders_of_a_known_role_and_not_for_ever_because_of_a_typing_error(
    rig: Rig, pattern: Pattern
) -> None:
    await stage(rig)
    await rig.role("coder", "bob")
    await rig.role("retired")

    with pytest.raises(NoResponders) as refused:
        await rig.say("alice", to="any:codr", pattern=pattern)
    assert str(refused.value) == 'nobody holds the role "codr" (did you mean "any:coder"?)'
    for known in ("coder", "retired"):
        assert (await rig.say("alice", to=f"any:{known}", pattern=pattern)).seq
    assert (await rig.say("alice", to="any:codr", pattern=pattern, wait_for_responders=True)).seq


@pytest.mark.parametrize("pattern", [Pattern.NOTIFY, Pattern.REQUEST])
@pytest.mark.parametrize("to", ["nobody", "role:nobody", "any:nobody"])
@with_rig
async def test_whatever_may_not_wait_is_refused_when_nobody_could_get_it(rig: Rig, to: str, pattern: Pattern) -> None:
    await stage(rig)

    with pytest.raises(NoResponders):
        await rig.say("alice", to=to, pattern=pattern, wait_for_responders=False)
    for everyone in ("", "*"):
        await rig.say("alice", to=everyone, wait_for_responders=False)


@with_rig
async def test_several_jobs_of_which_one_is_for_an_unknown_role_are_refused_together(rig: Rig) -> None:
    await stage(rig)
    await rig.role("coder", "bob")
    drafts = [PostDraft(Pattern.NOTIFY, b"{}", to) for to in ("any:coder", "any:codr")]

    with pytest.raises(NoResponders):
        await posting.post_all(rig.team, rig.caller("alice"), CHANNEL, drafts)
    assert (await rig.store.tally("default", CHANNEL)).total == 0


@pytest.mark.parametrize("policy", MemberPolicy)
@with_rig
async def test_a_plain_message_to_a_misspelt_name_that_takes_no_part_names_similar_ones(
    rig: Rig, policy: MemberPolicy
) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("planner"),))
    await rig.channel(CHANNEL, policy=policy)
    await rig.agent("planner")
    await rig.agent("stranger")

    with pytest.raises(NotMember) as misspelt:
        await rig.say("alice", to="planer")
    with pytest.raises(NotMember) as known:
        await rig.say("alice", to="stranger")

    assert (misspelt.value.hint, misspelt.value.facts["similar"]) == ('did you mean "planner"?', ["planner"])
    assert "similar" not in known.value.facts


@with_rig
async def test_a_plain_request_waits_for_somebody_to_come(rig: Rig) -> None:
    await stage(rig)

    assert (await asked(rig, "role:nobody", needs=False)).state is PostState.PENDING
    assert (await asked(rig, "nobody", needs=False)).recipients == ("nobody",)


@with_rig
async def test_an_ask_waits_or_is_refused_as_its_draft_says(rig: Rig) -> None:
    await stage(rig)
    patient = PostDraft(Pattern.REQUEST, b"{}", "nobody")

    with pytest.raises(AskTimeout):
        await asking.ask(rig.team, rig.caller("alice"), CHANNEL, patient, 0.01)
    with pytest.raises(NoResponders):
        await asking.ask(rig.team, rig.caller("alice"), CHANNEL, patient._replace(wait_for_responders=False), 60)


@with_rig
async def test_nothing_about_names_is_said_to_one_who_may_not_write(rig: Rig) -> None:
    await rig.intent(policy=AccessPolicy.CLOSED, grants=(rig.grant("reader", Permission.READ),))
    channel = await rig.channel()
    await rig.agent("planner")

    with pytest.raises(NotMember):
        await asked(rig, "planer", sender="reader")
    with pytest.raises(NotFound):
        await asked(rig, "planer", sender="stranger")
    await rig.put(closed(channel, rig.at(), rig.limits.retention))
    with pytest.raises(ChannelClosed):
        await asked(rig, "planer")


@with_rig
async def test_agents_of_units_that_are_kept_apart_are_not_suggested(rig: Rig) -> None:
    await rig.intent(agents=CREW)
    await rig.channel()
    await place(rig, "alice", org_unit="sales")
    await place(rig, "planner", org_unit="engineering")
    await place(rig, "planter", org_unit="sales")
    await put_policy(rig, cross_org=CrossOrg.DENY)

    assert (await refusal(rig, "planer")).facts["similar"] == ["planter"]
