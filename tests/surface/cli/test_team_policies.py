"""`parley policy` against a real server, and policy files that somebody edits while it runs."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.surface.cli.team_stage import PATIENCE, Team, typed_on_terminal


@pytest.fixture
def team(ruled_team: Team) -> Team:
    """These tests change the rules: those of other tests stay as they were."""
    return ruled_team


pytestmark = pytest.mark.slow

SALES = "agent-to-agent:\n  max_rounds: 2\n"
BROKEN = "agent-to-agent:\n  max_rounds: 2\n  hop_limt: 4\n"


def until(condition: Callable[[], bool]) -> None:
    """Ask the server again and again: its clock is not ours."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.05)


def listed(team: Team) -> Any:  # noqa: ANN401  # what the server says
    return team.said("policy", "list")


def folder(team: Team) -> Path:
    return team.server.data / "policies" / "default"


def mirrored(team: Team) -> Path:
    """The folder, once the server has written its policies there and noted what it wrote."""
    until((folder(team) / ".written").exists)
    return folder(team)


def edit(team: Team, file: str, text: str) -> None:
    """As an editor does it: at no moment half of it is there. The server looks every second."""
    path, aside = folder(team) / file, team.stage.here / "edited"
    path.parent.mkdir(exist_ok=True)
    aside.write_text(text)
    os.replace(aside, path)


def test_a_setting_is_changed_with_a_look_at_what_it_changes(lone_team: Team) -> None:
    team = lone_team
    before = team.run("policy", "show", "enterprise/default").out
    label = listed(team)["label"]

    asked = team.run("policy", "set", "enterprise/default", "cross_org=true")
    wrong = team.run("policy", "set", "enterprise/default", "cros_org=true", "--yes")
    done = team.run("policy", "set", "enterprise/default", "cross_org=true", "--yes")

    assert (asked.code, asked.err) == (
        2,
        "error: this changes the policy enterprise/default [invalid]\nhint: to confirm, add --yes\n",
    )
    assert (wrong.code, "cros_org: is not known (did you mean cross_org?)" in wrong.err) == (2, True)
    assert ["enterprise/default", "cross_org", "false", "true"] in [line.split() for line in done.out.splitlines()]
    assert done.out.endswith(f"Policy enterprise/default is in force (version {listed(team)['label']})\n")
    assert team.run("policy", "show", "enterprise/default").out == before.replace("cross_org: false", "cross_org: true")
    assert team.run("policy", "show", "enterprise/default", "--at", label).out == before
    assert team.run("policy", "show", "enterprise/default", "--at", "0s").out != before
    unknown = team.run("policy", "show", "enterprise/default", "--at", "2020-01-01")
    assert "no policies were in force at 2020-01-01" in unknown.err


def test_a_policy_is_put_shown_and_removed(lone_team: Team) -> None:
    team = lone_team
    (team.stage.here / "sales.yaml").write_text(SALES)

    put = team.run("policy", "put", "org/sales", "sales.yaml")

    label = listed(team)["label"]
    assert (put.code, put.out) == (0, f"Policy org/sales is in force (version {label})\n")
    assert team.run("policy", "show", "org/sales").out == SALES
    assert team.run("policy", "list").out.splitlines()[-1].split() == ["org", "sales", "max_rounds"]
    removed = team.run("policy", "remove", "org/sales", "--yes")
    assert removed.out.startswith("Removed policy org/sales (version 3-")
    assert (team.run("policy", "show", "org/sales").code, len(listed(team)["policies"])) == (3, 1)


def test_a_policy_comes_from_standard_input_too(lone_team: Team) -> None:
    assert lone_team.said("policy", "put", "org/sales", "-", stdin=SALES.encode())["keys"] == {"max_rounds": 2}


def test_a_broken_policy_is_refused_with_the_line_of_the_file_that_lies_here(lone_team: Team) -> None:
    before = listed(lone_team)["label"]
    (lone_team.stage.here / "mine.yaml").write_text(BROKEN)

    ran = lone_team.run("policy", "put", "org/sales", "mine.yaml")

    assert (ran.code, ran.error) == (2, "policy_invalid")
    assert "mine.yaml:3: hop_limt: is not known (did you mean hop_limit?)" in ran.err
    assert listed(lone_team)["label"] == before


def test_that_nothing_is_allowed_any_more_is_said_with_what_to_do(lone_team: Team) -> None:
    channel = lone_team.channel()
    lone_team.said("agent", "register", "codex")
    lone_team.said("policy", "remove", "enterprise/default", "--yes")

    refused = lone_team.run("post", channel, "--agent", "claude", "--to", "codex", "--field", "a=b")

    hint = "parley policy put enterprise/default FILE"
    listed = lone_team.run("policy", "list").out
    assert "No enterprise policy: no governed message is delivered" in listed
    assert hint in listed
    assert (refused.code, refused.error) == (7, "policy_unavailable")
    assert hint in refused.err


def test_the_last_policy_of_the_enterprise_is_not_removed_by_accident(lone_team: Team) -> None:
    team = lone_team
    word = ("policy", "remove", "enterprise/default")
    refused = team.run(*word)
    declined = typed_on_terminal("n\n", *word)
    team.said("policy", "put", "enterprise/second", "-", stdin=SALES.encode())

    assert (refused.code, refused.error, "--yes" in refused.err) == (2, "invalid", True)
    assert (declined[0], "No change was made." in declined[1]) == (1, True)
    assert team.run(*word).err.startswith(
        "error: this removes the policy enterprise/default [invalid]\nhint: to confirm, add --yes"
    )
    assert typed_on_terminal("y\n", *word)[0] == 0
    agreed = typed_on_terminal("y\n", "policy", "remove", "enterprise/second")
    assert (agreed[0], "no governed message is delivered. Remove it? [y/N]" in agreed[1]) == (0, True)
    assert listed(team)["policies"] == []


def test_a_policy_for_whom_nobody_knows_is_put_with_a_note(lone_team: Team) -> None:
    lone_team.said("agent", "register", "claude", "--user", "ann", "--org-unit", "sales", "--team", "west")
    path = lone_team.stage.here / "sales.yaml"
    path.write_text(SALES)

    def noted(document: str) -> str:
        ran = lone_team.run("policy", "put", document, str(path))
        assert ran.code == 0
        return ran.err

    assert [noted(one) for one in ("org/sales", "team/west", "user/ann", "org/default", "enterprise/x")] == [""] * 5
    assert noted("org/slaes") == "note: no registered agent in org unit slaes\nhint: did you mean sales?\n"
    assert noted("team/wets") == "note: no registered agent in team wets\nhint: did you mean west?\n"
    assert noted("user/anne") == "note: no registered agent acting for anne\nhint: did you mean ann?\n"


def test_what_was_in_force_is_compared_by_its_labels(lone_team: Team) -> None:
    team = lone_team
    first = listed(team)["label"]
    second = team.said("policy", "put", "org/sales", "-", stdin=SALES.encode())["label"]
    team.said("policy", "remove", "org/sales", "--yes")

    found = team.said("policy", "diff", first, second)
    back = team.said("policy", "diff", second, "current")

    row = {"document": "org/sales", "key": "max_rounds", "old": None, "new": 2}
    assert found["documents"] == [row]
    assert back["documents"] == [{**row, "old": 2, "new": None}]
    history = team.said("policy", "list", "--history")
    assert [one["label"] for one in history][1:] == [second, first]
    assert team.run("policy", "list", "--history").out.splitlines()[0].split() == ["LABEL", "SINCE", "BY", "DOCUMENTS"]


def test_a_file_is_compared_with_what_is_in_force_before_it_is_put(lone_team: Team) -> None:
    (lone_team.stage.here / "default.yaml").write_text("agent-to-agent:\n  max_rounds: 1\n")

    found = lone_team.said("policy", "diff", "current", "default.yaml")

    assert found["effective"] == [{"for": "enterprise", "key": "max_rounds", "old": 3, "new": 1}]


def test_a_file_may_be_said_to_be_another_document_than_its_name_says(lone_team: Team) -> None:
    (lone_team.stage.here / "d2.yaml").write_text("agent-to-agent:\n  max_rounds: 1\n")

    guessed = lone_team.run("policy", "diff", "current", "d2.yaml")
    said = lone_team.said("policy", "diff", "current", "d2.yaml", "--as", "enterprise/default")
    replayed = lone_team.run("policy", "replay", "d2.yaml")
    meant = lone_team.run("policy", "replay", "d2.yaml", "--as", "enterprise/default")

    advice = "to replace another one, add --as enterprise/default"
    note = f"note: d2.yaml is read as a new document enterprise/d2; {advice}\n"
    assert guessed.err == replayed.err == note
    assert {one["document"] for one in said["documents"]} == {"enterprise/default"}
    assert (meant.err, "Tried as document enterprise/default." in meant.out) == ("", True)
    for words in (("diff", "current", "d2.yaml"), ("replay", "d2.yaml")):
        assert lone_team.run("policy", *words, "--as", "default").code == 2
    assert lone_team.run("policy", "diff", "current", "current", "--as", "enterprise/default").code == 2
    assert lone_team.run("policy", "replay", ".", "--as", "enterprise/default").code == 2


def test_a_file_edited_by_hand_comes_into_force_and_a_broken_one_changes_nothing(lone_team: Team) -> None:
    team = lone_team
    mirrored(team)

    edit(team, "org/sales.yaml", SALES)
    until(lambda: any(one["name"] == "sales" for one in listed(team)["policies"]))
    good = listed(team)
    edit(team, "org/sales.yaml", BROKEN)
    until(lambda: bool(listed(team)["broken"]))
    status = team.run("status")
    assert (status.code, "No problems." in status.out) == (1, False)
    assert "policy_broken: " in status.out
    assert "its previous version stays in force" in status.out

    shown = team.run("policy", "list").out
    assert good["made_by"] == "policy-file"
    assert listed(team)["label"] == good["label"]
    assert "  org/sales.yaml:3: hop_limt: is not known (did you mean hop_limit?)" in shown.splitlines()
    edit(team, "org/sales.yaml", "agent-to-agent:\n  max_rounds: 1\n")
    until(lambda: not listed(team)["broken"])
    assert team.said("policy", "show", "org/sales")["keys"] == {"max_rounds": 1}


def test_a_hangup_makes_it_look_at_once_and_not_end(lone_team: Team) -> None:
    team = lone_team
    assert (mirrored(team) / "enterprise" / "default.yaml").exists()
    assert team.server.process is not None

    edit(team, "enterprise/default.yaml", SALES)
    team.server.process.send_signal(signal.SIGHUP)

    until(lambda: bool(team.said("policy", "show", "enterprise/default")["keys"] == {"max_rounds": 2}))


def test_what_was_edited_while_it_was_down_comes_into_force_when_it_is_up(lone_team: Team) -> None:
    team = lone_team
    assert (mirrored(team) / "enterprise" / "default.yaml").exists()
    team.said("policy", "put", "org/sales", "-", stdin=SALES.encode())
    team.server.kill()
    edit(team, "enterprise/default.yaml", "agent-to-agent:\n  max_rounds: 1\n")

    team.server.start()

    until(lambda: bool(team.said("policy", "show", "enterprise/default")["keys"] == {"max_rounds": 1}))
    assert team.said("policy", "show", "org/sales")["text"] == SALES


def test_put_takes_yes_as_set_does_and_remove_asks_with_what_it_changes(lone_team: Team) -> None:
    lone_team.stage.here.joinpath("sales.yaml").write_text(SALES)
    assert lone_team.run("policy", "put", "org/sales", str(lone_team.stage.here / "sales.yaml"), "--yes").code == 0

    refused = lone_team.run("policy", "remove", "org/sales")
    declined = typed_on_terminal("n\n", "policy", "remove", "org/sales")

    assert refused.err == "error: this removes the policy org/sales [invalid]\nhint: to confirm, add --yes\n"
    assert (declined[0], "This removes the policy org/sales. Remove it? [y/N]" in declined[1]) == (1, True)
    assert "max_rounds" in declined[1]


def test_an_explanation_says_who_is_suspended_and_whom_nobody_knows(lone_team: Team) -> None:
    lone_team.said("agent", "register", "sally", "--user", "ann", "--org-unit", "sales")
    lone_team.said("agent", "register", "erik", "--user", "bob", "--org-unit", "sales")
    words = ("policy", "explain", "--from", "sally", "--to")
    assert "suspended" not in lone_team.run(*words, "erik").out.splitlines()[-1]

    lone_team.said("suspend", "agent", "sally", "--reason", "a test")
    suspended = lone_team.run(*words, "erik").out.splitlines()
    unknown = lone_team.run(*words, "erk").err
    agents = lone_team.run("agent", "list", "--server").out

    assert suspended[-1] == "suspended: the agent sally (a test); nothing is sent until it is resumed"
    assert unknown == "note: no registered agent erk\nhint: did you mean erik?\n"
    assert [line.split()[:2] for line in agents.splitlines()[1:]] == [["erik", "never"], ["sally", "suspended"]]
