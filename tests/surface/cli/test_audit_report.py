"""`parley audit report|explain`: who told whom what on a day, and why it was allowed."""

from __future__ import annotations

import re
import time

import pytest

from tests.surface.cli.team_stage import Team

pytestmark = pytest.mark.slow


def untimed(text: str) -> list[str]:
    """The lines without what differs from run to run."""
    return [
        re.sub(r"^\d{4}-\d\d-\d\d[T ][\d:]+Z?  ", "", re.sub(r"\b\d-[0-9a-f]{12}\b", "LABEL", line))
        for line in text.splitlines()
    ]


@pytest.fixture
def told(lone_team: Team) -> tuple[Team, str]:
    """A denied, a delivered, and a held and approved message; and the approval's id."""
    team = lone_team
    team.said("agent", "register", "sally", "--user", "ann", "--org-unit", "sales")
    team.said("agent", "register", "erik", "--user", "bob", "--org-unit", "engineering")
    ann = team.said("key", "create", "--user", "ann")["key"]
    assert team.run("post", "erik", "How is it?", "--agent", "sally").code == 6
    team.run("policy", "set", "enterprise/default", "cross_org=true", "--yes")
    assert team.run("post", "erik", "How is ENG-1234?", "--agent", "sally").code == 0
    held = team.run("post", "erik", "We promise ten seats.", "--agent", "sally")
    (approval,) = re.findall(r"appr_\w+", held.out)
    approved = team.run("approvals", "approve", approval, "--yes", "--note", "as planned", "--key", ann)
    assert approved.code == 0
    return team, approval


def test_a_report_says_who_told_whom_what_with_which_outcome_and_by_which_rule(told: tuple[Team, str]) -> None:
    team, approval = told

    report = team.run("audit", "report", "1h..")

    way = "sally (ann, sales) -> erik (engineering)"
    state = "    internal, round 1 of 3, policies LABEL"
    allowed = ["    allowed by cross_org: true in enterprise/default", state]
    assert untimed(report.out) == [
        f"{way}  denied",
        "    the policy allows nothing from sales to engineering [policy_denied]",
        "    denied by cross_org: false in enterprise/default",
        state,
        f"{way}  delivered",
        '    "How is ENG-1234?"',
        *allowed,
        f"{way}  delivered",
        '    "We promise ten seats."',
        *allowed,
        "    approved by ann (as planned), held for commitment",
        "3 messages: 2 delivered, 1 denied",
    ]
    documents = team.said("audit", "report", "1h..")
    assert [(one["outcome"], one["approved_by"], one["approval"]) for one in documents[1:]] == [
        ("delivered", None, None),
        ("delivered", "ann", approval),
    ]


def test_one_message_is_explained_and_what_nobody_said_is_not(told: tuple[Team, str]) -> None:
    team, _ = told
    _, asked, promised = team.said("audit", "report", "1h..")

    one = team.run("audit", "explain", promised["message_id"])
    exchange = team.run("audit", "explain", asked["exchange_id"])
    unknown = team.run("audit", "explain", "msg_01M7JZ32CNP1XX48V1HCYGV75R")
    short = team.run("audit", "explain", promised["message_id"][-6:])
    by_exchange = team.run("audit", "explain", asked["exchange_id"][-6:])

    assert untimed(one.out)[1] == '    "We promise ten seats."'
    assert untimed(one.out)[4:] == ["    approved by ann (as planned), held for commitment", "1 message: 1 delivered"]
    assert untimed(exchange.out)[1] == '    "How is ENG-1234?"'
    assert (short.out, by_exchange.out) == (one.out, exchange.out)
    assert unknown.code == 3
    assert 'no message or exchange "msg_01M7JZ32CNP1XX48V1HCYGV75R"' in unknown.err
    assert "parley audit report 1d.." in unknown.err


def test_a_report_is_of_a_day_or_of_a_period_and_of_one_agent(told: tuple[Team, str]) -> None:
    team, _ = told
    day = team.said("audit", "report", "1h..")[0]["at"][:10]

    assert len(team.said("audit", "report", f"{day}..")) == 3
    assert len(team.said("audit", "report", "1h..", "--agent", "erik")) == 3
    nothing = "No message was sent or received in this time.\n"
    assert team.run("audit", "report", "2020-01-01", "--agent", "erik").out == nothing
    assert team.run("audit", "report", "2020-01-01").out == nothing
    assert team.run("audit", "report", "2020-01-01..2020-02-01").out == nothing
    assert team.run("audit", "report", "someday").code == 2
    assert team.run("audit", "report").out == team.run("audit", "report", "today").out
    backwards = team.run("audit", "report", "2020-02-01..2020-01-01")
    hint = "write the earlier time first"
    assert (backwards.code, hint in backwards.err) == (2, True)
    assert "the period 2020-02-01..2020-01-01 ends before it begins" in backwards.err


def test_a_person_sees_in_the_report_what_their_agent_received(told: tuple[Team, str]) -> None:
    team, _ = told
    bob = team.said("key", "create", "--user", "bob")["key"]

    report = team.run("audit", "report", "--key", bob)
    received = team.said("audit", "report", "--key", bob)
    explained = team.run("audit", "explain", received[0]["message_id"], "--key", bob)

    assert untimed(report.out)[:2] == ["sally (ann, sales) -> erik (engineering)  delivered", '    "How is ENG-1234?"']
    assert untimed(report.out)[-1] == "2 messages: 2 delivered"
    assert untimed(explained.out)[0] == "sally (ann, sales) -> erik (engineering)  delivered"
    assert untimed(explained.out)[-1] == "1 message: 1 delivered"


def test_every_message_of_a_suspended_agent_is_recorded_whoever_sends_it(told: tuple[Team, str]) -> None:
    team, _ = told
    own = team.said("key", "create", "--agent", "sally")["key"]
    ann = team.said("key", "create", "--user", "ann")["key"]
    team.said("suspend", "agent", "sally", "--reason", "a test")
    before = len(team.said("audit", "list", "--all", "--outcome", "denied"))

    refused = [
        team.run("post", "erik", "Hello?", "--agent", "sally"),
        team.run("post", "erik", "Hello?", "--key", own),
        team.run("post", "erik", "Hello?", "--agent", "sally", "--key", ann),
        team.run("ask", "erik", "Hello?", "--agent", "sally"),
    ]

    assert [(ran.code, ran.error) for ran in refused] == [(6, "suspended")] * 4
    entries = team.said("audit", "list", "--all", "--side", "sally", "--outcome", "denied")[-4:]
    assert [(entry["document"]["code"], entry["document"]["actor"]) for entry in entries] == [
        ("suspended", "sally"),
        ("suspended", "sally"),
        ("suspended", "ann"),
        ("suspended", "sally"),
    ]
    assert len(team.said("audit", "list", "--all", "--outcome", "denied")) == before + 4
    assert "    the agent sally is suspended: a test [suspended]" in untimed(team.run("audit", "report").out)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("report", "1h"), 2, "hint: everything since then is 1h.."),
        (("report", "2020-01-01 10:00:00"), 2, "neither a day nor FROM..TO"),
        (("report", "tomorrow"), 2, "the period: tomorrow is in the future"),
        (
            ("report", "--agent", "saly"),
            3,
            'error: --agent: no agent "saly", and no entries of it (did you mean sally?)',
        ),
        (("list", "--side", "saly"), 3, 'error: --side: no agent "saly", and no entries of it (did you mean sally?)'),
        (("list", "--outcome", "deliverd"), 2, '--outcome: no entry has "deliverd" (did you mean delivered?)'),
        (("list", "--action", "nonsense"), 2, '--action: no entry has "nonsense"'),
    ],
)
def test_a_typing_error_is_an_error_and_not_an_empty_report(
    told: tuple[Team, str], words: tuple[str, ...], code: int, said: str
) -> None:
    team, _ = told

    ran = team.run("audit", *words)

    assert (ran.code, ran.out) == (code, "")
    assert said in ran.err


def test_times_are_in_utc_and_are_accepted_as_they_are_printed(
    told: tuple[Team, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    team, _ = told
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        first = team.run("audit", "report").out[:20]
        listed = team.run("audit", "list", "--side", "sally").out
        versions = team.run("policy", "list", "--history").out
        label, since = versions.splitlines()[1].split()[0], " ".join(versions.splitlines()[1].split()[1:3])
        shown = team.run("policy", "show", "enterprise/default", "--at", since)

        assert first.endswith("Z")
        assert first.replace(" ", "T")[:19] == team.said("audit", "report")[0]["at"][:19]
        assert first in listed
        for begin in (first, first.removesuffix("Z"), f"{first[:-1]} UTC", first[11:16]):
            assert len(team.said("audit", "report", f"{begin}..")) == 3, begin
        assert (shown.code, shown.err) == (0, f"note: version {label}, in force since {since}\n")
        future = team.run("policy", "show", "enterprise/default", "--at", "2999-01-01 10:00:00")
        assert (future.code, "--at: 2999-01-01 10:00:00 is in the future" in future.err) == (2, True)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_an_export_as_csv_is_refused_with_the_form_that_can_be_verified(told: tuple[Team, str]) -> None:
    team, _ = told
    path = team.stage.here / "audit.csv"
    path.write_text(team.run("audit", "export", "--format", "csv").out)

    refused = team.run("audit", "verify", str(path))

    assert (refused.code, refused.error) == (2, "invalid")
    assert "make one with: parley audit export; it is in JSON lines (CSV cannot be verified)" in refused.err


def test_the_log_is_intact_and_an_entry_is_explained_by_every_check_of_its_time(told: tuple[Team, str]) -> None:
    team, _ = told
    (denied,) = [entry["number"] for entry in team.said("audit", "list", "--code", "policy_denied")]

    state = team.run("audit", "state")
    explained = team.run("audit", "explain", "--entry", str(denied))

    assert state.code == 0
    assert "intact" in state.out
    lines = explained.out.splitlines()
    assert lines[0].endswith(f"entry {denied}  denied")
    # In force then; it is true now.
    assert re.search(r"cross_org +deny ", explained.out)
    assert len(team.said("audit", "list", "--pair", "erik,sally", "--outcome", "held")) == 1
    exchanges = team.said("exchange", "list", "--pair", "sally,erik", "--since", "1h", "--user", "bob")
    (first,) = [exchange for exchange in exchanges if exchange["outcome"] == "denied"]
    shown = team.run("exchange", "show", first["exchangeId"])
    assert "denied: the policy allows nothing from sales to engineering" in " ".join(shown.out.split())
    assert f"audit {denied}" in shown.out
    assert team.run("audit", "explain").code == 2
