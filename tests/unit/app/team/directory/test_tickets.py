"""Tickets for streams: one use, one path, half a minute."""

from __future__ import annotations

import asyncio

import pytest

from parley.app.team.directory import tickets
from parley.domain.directory.callers import NO_TENANT
from parley.domain.errors.errors import Invalid
from parley.domain.errors.team import Unauthorized
from tests.rigs.team import Rig, with_rig

pytestmark = pytest.mark.both_stores


@with_rig
async def test_a_ticket_stands_for_its_key_and_agent_once(rig: Rig) -> None:
    await rig.key("bob")
    issued = await tickets.issue(rig.team, rig.caller("bob"), "/x")

    holder = await tickets.redeem(rig.team, issued.secret, "/x")

    assert (holder.key.id, holder.agent) == (rig.caller("bob").key_id, "bob")
    assert issued.expires_at == rig.clock.at + tickets.LIFETIME
    with pytest.raises(Unauthorized):
        await tickets.redeem(rig.team, issued.secret, "/x")


@with_rig
async def test_a_ticket_that_does_not_fit_is_not_used_up(rig: Rig) -> None:
    await rig.key("bob")
    issued = await tickets.issue(rig.team, rig.caller("bob"), "/x")

    for secret, path in ((issued.secret, "/y"), (issued.secret + "z", "/x"), ("", "/x")):
        with pytest.raises(Unauthorized):
            await tickets.redeem(rig.team, secret, path)

    assert (await tickets.redeem(rig.team, issued.secret, "/x")).agent == "bob"


@with_rig
async def test_a_ticket_lasts_less_than_thirty_seconds(rig: Rig) -> None:
    await rig.key("bob")
    first = await tickets.issue(rig.team, rig.caller("bob"), "/x")
    second = await tickets.issue(rig.team, rig.caller("bob"), "/x")

    rig.clock.pass_by(seconds=29)
    assert (await tickets.redeem(rig.team, first.secret, "/x")).agent == "bob"
    rig.clock.pass_by(seconds=1)
    with pytest.raises(Unauthorized):
        await tickets.redeem(rig.team, second.secret, "/x")


@with_rig
async def test_of_those_who_use_a_ticket_at_once_one_is_the_first(rig: Rig) -> None:
    await rig.key("bob")
    issued = await tickets.issue(rig.team, rig.caller("bob"), "/x")

    results = await asyncio.gather(
        *[tickets.redeem(rig.team, issued.secret, "/x") for _ in range(8)], return_exceptions=True
    )

    assert len([result for result in results if not isinstance(result, BaseException)]) == 1


@with_rig
async def test_only_the_digest_of_a_ticket_is_stored(rig: Rig) -> None:
    await rig.key("bob")
    issued = await tickets.issue(rig.team, rig.caller("bob"), "/x")

    assert await rig.store.saved(f"ticket\n{issued.secret}") is None
    assert await rig.store.head(NO_TENANT) == 0
    with pytest.raises(Invalid):
        await tickets.issue(rig.team, rig.caller("bob"), "x")
