"""Governance: policy. Four scopes that only narrow, read strictly, swapped as a whole, named in every record."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import pytest

from parley.adapters.data.policy_files import PolicyFiles
from parley.adapters.outside.rego import RegoRules
from parley.app.team.decisions import policy_files
from parley.app.team.state.outside import PolicyState
from parley.domain.agents.party import Attributes, Party
from parley.domain.content.classification import Classification
from parley.domain.content.envelope import Origin, Purpose, ReplyPolicy
from parley.domain.errors.rules import PolicyDenied, PolicyUnavailable
from parley.domain.exchange.approval import Cause
from parley.domain.rules.judge import Allow, Case, Deny, Hold, judge
from parley.domain.rules.meet import effective
from parley.domain.rules.policy import KEYS, SHORTEST, CrossOrg, Fragment, Policy
from parley.domain.rules.ruling import Proposal, Ruling
from tests.conformance.ocip.governed import (
    admin_of,
    audit_of,
    envelope_of,
    ext_of,
    inbox,
    pair,
    place,
    put_policy,
    refused,
    said,
    shown,
    tell,
)
from tests.rigs.team import LiveServer, with_server
from tests.samples.policies import snapshot_of


@pytest.mark.requirement("GOV-POLICY-SCOPES", "GOV-POLICY-NARROW")
@with_server
async def test_enterprise_org_team_and_user_each_narrow_the_one_above(server: LiveServer) -> None:
    alice = await place(server, "alice", org_unit="sales", team="north", user_id="ann")
    await place(server, "bob", org_unit="sales")
    rounds = []

    for document, most in (
        ("enterprise/default", 9),
        ("org/sales", 7),
        ("team/north", 5),
        ("user/ann", 2),
        # Whoever comes later widens nothing.
        ("user/ann", 50),
        ("team/north", 50),
    ):
        await put_policy(server, f"max_rounds: {most}", document)
        rounds.append(envelope_of(await said(alice, "bob"))["max_rounds"])

    assert rounds == [9, 7, 5, 2, 5, 7]


@pytest.mark.requirement("GOV-POLICY-MEET")
def test_every_key_has_its_meet() -> None:
    wide = Fragment(
        enabled=True,
        max_rounds=9,
        max_classification=Classification.RESTRICTED,
        cross_org=CrossOrg.ALLOW,
        exchange_types=(Purpose.INFORMATION_QUERY, Purpose.MEETING_SCHEDULING),
        self_approval=True,
    )
    narrow = Fragment(
        enabled=False,
        max_rounds=4,
        max_classification=Classification.INTERNAL,
        cross_org=CrossOrg.APPROVAL,
        exchange_types=(Purpose.COMMITMENT_REQUEST, Purpose.INFORMATION_QUERY),
        self_approval=False,
    )

    both = effective(snapshot_of(enterprise__default=wide, org__sales=narrow), "sales")
    turned = effective(snapshot_of(enterprise__default=narrow, org__sales=wide), "sales")

    assert both == turned
    assert both is not None
    assert (both.enabled, both.max_rounds, both.max_classification) == (False, 4, Classification.INTERNAL)
    assert (both.cross_org, both.self_approval) == (CrossOrg.APPROVAL, False)
    assert both.exchange_types == (Purpose.INFORMATION_QUERY,)
    assert all(key.meet for key in KEYS.values())


@pytest.mark.requirement("GOV-POLICY-STRICT")
@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("max_round: 3", "max_round"),
        ("max_rounds: three", "max_rounds"),
        ("max_rounds: 0", "max_rounds"),
        ("enabled: maybe", "enabled"),
        ("cross_org: [true]", "cross_org"),
        ("max_classification: secret", "max_classification"),
        ("exchange_types: information_query", "exchange_types"),
        ("commitments: off", "commitments"),
    ],
)
@with_server
async def test_what_a_policy_does_not_know_is_refused_with_its_line(server: LiveServer, line: str, key: str) -> None:
    admin = await admin_of(server)
    before = (await shown(admin, "/policies"))["label"]

    answer = await admin.request("PUT", "/policies/org/sales", {"text": f"agent-to-agent:\n  {line}\n"})

    assert refused(answer) == (422, "policy_invalid")
    assert [(one["line"], one["key"]) for one in answer.json["flaws"]] == [(2, key)]
    assert (await shown(admin, "/policies"))["label"] == before


@pytest.mark.requirement("GOV-POLICY-NONE")
@with_server
async def test_without_an_enterprise_policy_an_ordinary_message_is_denied_too(server: LiveServer) -> None:
    alice, bob = await pair(server)
    await put_policy(server, "max_rounds: 2", "org/engineering")
    await (await admin_of(server)).delete("/policies/enterprise/default")

    plain = await alice.post("/channels/chan_1/messages", {"to": "bob", "payload": {"text": "hello"}})

    assert refused(plain) == refused(await tell(alice, "bob")) == (503, "policy_unavailable")
    assert await inbox(bob) == []


@pytest.mark.requirement("GOV-POLICY-LAST-GOOD", "GOV-POLICY-ATOMIC")
@with_server
async def test_a_broken_file_leaves_the_last_good_policy_in_force_and_says_where(server: LiveServer) -> None:
    alice, _ = await pair(server)
    files = PolicyFiles(str(server.rig.path.parent / "policies"))
    server.rig.team.policies = PolicyState(SHORTEST, files)
    await server.rig.tenant()
    await policy_files.follow(server.rig.team, files)
    path = server.rig.path.parent / "policies" / "default" / "enterprise" / "default.yaml"

    path.write_text("agent-to-agent:\n  max_rounds: 2\n")
    await policy_files.follow(server.rig.team, files)
    good = ext_of(await said(alice, "bob"))["policy_version"]
    path.write_text("agent-to-agent:\n  max_rounds: 9\n  cross_org: perhaps\n")
    await policy_files.follow(server.rig.team, files)
    after = await said(alice, "bob")

    assert (envelope_of(after)["max_rounds"], ext_of(after)["policy_version"]) == (2, good)
    (broken,) = (await shown(await admin_of(server), "/policies"))["broken"]
    assert "enterprise/default.yaml" in broken["file"]
    assert broken["flaws"][0]["line"] == 3


@pytest.mark.requirement("GOV-POLICY-VERSION", "GOV-POLICY-ATOMIC")
@with_server
async def test_every_record_names_the_whole_policy_that_it_was_made_under(server: LiveServer) -> None:
    alice, bob = await pair(server)
    labels = []
    for rounds in (2, 3):
        labels.append(await put_policy(server, f"max_rounds: {rounds}"))
        await said(alice, "bob")
        await tell(alice, "bob", "I promise.")
        await tell(alice, "bob", classification="restricted")

    # What is denied has two entries: the message, and the end of its exchange.
    assert [one["policy"] for one in await audit_of(alice)] == [labels[0]] * 4 + [labels[1]] * 4
    assert [ext_of(one)["policy_version"] for one in await inbox(bob)] == labels
    # What was in force then can be looked at again.
    first = await shown(await admin_of(server), "/policies", label=labels[0], texts="true")
    assert "max_rounds: 2" in str(first)


@pytest.mark.requirement("GOV-POLICY-PURE")
def test_a_decision_is_plain_python_and_takes_microseconds() -> None:
    parties = Party("alice", Attributes()), Party("bob", Attributes())
    case = Case(
        *parties,
        Purpose.INFORMATION_QUERY,
        ReplyPolicy.AGENT_OK,
        False,
        Origin.AGENT,
        Classification.INTERNAL,
        1,
        3,
        True,
    )
    policy = Policy()
    best = 1.0
    for _ in range(20):
        start = time.perf_counter()
        for _ in range(200):
            judge(case, policy)
        best = min(best, (time.perf_counter() - start) / 200)

    assert judge(case, policy) == Allow()
    assert best < 20e-6


# ---------------------------------------------------------------- an organisation's own rules


class OwnRules:
    """Rules that hold or deny by a word in the body, or break."""

    async def tighten(self, proposal: Proposal, ruling: Ruling) -> Ruling:
        text = str(proposal.body)
        if "broken" in text:
            raise PolicyUnavailable("the rules cannot be evaluated")
        if "look" in text:
            return ruling._replace(verdict=Hold(Cause.RULE, "somebody should look"))
        if "never" in text:
            return ruling._replace(verdict=Deny(PolicyDenied("not here"), ends=False))
        return ruling


@pytest.mark.requirement("GOV-POLICY-TIGHTENED", "GOV-POLICY-FAILED-RULES")
@with_server
async def test_own_rules_tighten_and_what_fails_in_them_denies(server: LiveServer) -> None:
    alice, bob = await pair(server)
    server.rig.team.governance.extension = OwnRules()

    assert (await tell(alice, "bob", "fine")).status == 201
    assert refused(await tell(alice, "bob", "never")) == (403, "policy_denied")
    assert refused(await tell(alice, "bob", "broken")) == (503, "policy_unavailable")
    # What our own rules deny is not even asked for.
    assert refused(await tell(alice, "bob", "fine", classification="restricted")) == (403, "classification_exceeded")
    assert [one["payload"]["text"] for one in await inbox(bob)] == ["fine"]
    outcomes = [(one["outcome"], one.get("code")) for one in await audit_of(alice)]
    assert outcomes[1:3] == [("denied", "policy_denied"), ("denied", "policy_unavailable")]


REGO = """
package parley
import rego.v1
deny contains "not while it is a draft" if input.level == "public"
hold contains "somebody looks first" if input.sender.org_unit == "sales"
"""


@pytest.mark.requirement("GOV-POLICY-REGO", "GOV-POLICY-TIGHTENED")
@with_server
async def test_rego_denies_and_holds_whoever_asks_at_once_and_allows_nothing(server: LiveServer) -> None:
    pytest.importorskip("regopy")
    path = server.rig.path.parent / "own.rego"
    path.write_text(REGO)
    rules = RegoRules(str(path), time.monotonic, seconds=30.0)  # on a busy machine, too
    rules.start()
    try:
        alice, bob = await pair(server)
        carol = await place(server, "carol", org_unit="sales")
        await put_policy(server, "cross_org: true\nmax_rounds: 50\npair_budget: 600")
        server.rig.team.governance.extension = rules
        senders = [await server.client("alice") for _ in range(32)]

        answers = await asyncio.gather(
            *[tell(one, "bob", classification="public" if n % 2 else "internal") for n, one in enumerate(senders)]
        )

        assert Counter(one.status for one in answers) == {201: 16, 403: 16}
        assert {envelope_of(one)["classification"] for one in await inbox(bob)} == {"internal"}
        assert (await tell(carol, "bob")).status == 202
        # What we deny, no rule of theirs allows.
        assert refused(await tell(alice, "bob", classification="restricted")) == (403, "classification_exceeded")
    finally:
        rules.close()
    assert refused(await tell(alice, "bob")) == (503, "policy_unavailable")
