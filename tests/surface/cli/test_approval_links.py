"""`parley approvals link`: the address and its end, and what the server refuses."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import pytest

from parley.domain.times import from_stamp, local_time
from tests.surface.cli.team_stage import Team

HELD = 9


class Held:
    """A server that may allow links, with a message that waits for ann."""

    def __init__(self, team: Team) -> None:
        self.team = team
        team.said("agent", "register", "alice", "--user", "ann")
        team.said("agent", "register", "bob", "--user", "ben")
        self.agent_key: str = team.said("key", "create", "--agent", "alice")["key"]
        self.ann: str = team.said("key", "create", "--kind", "human", "--user", "ann")["key"]
        words = ["--to", "bob", "--purpose", "information_query", "--field", "text=I commit to it.", "--json"]
        ran = team.run("post", team.channel(), "--type", "request", *words, "--key", self.agent_key)
        assert ran.code == HELD, ran
        self.approval: str = ran.json["approval"]

    def link(self, *words: str, key: str = "") -> Any:  # noqa: ANN401  # what the command printed
        return self.team.run("approvals", "link", *words, "--key", key or self.ann)


@pytest.fixture
def waiting(lone_team: Team) -> Held:
    server = lone_team.server
    server.stop()
    server.variables["PARLEY_APPROVAL_LINKS"] = "decide"
    server.start()
    return Held(lone_team)


def test_a_link_is_printed_with_when_it_ends_and_opens_the_message(waiting: Held) -> None:
    printed = waiting.link("--json")
    document = printed.json

    assert printed.code == 0
    assert document.keys() == {"url", "approval", "expires_at"}
    assert document["approval"] == waiting.approval
    assert document["url"].startswith(f"{waiting.team.server.url}/console/a/pal_")
    with urllib.request.urlopen(document["url"]) as page:
        assert "I <mark" in page.read().decode()

    for name in (waiting.approval, waiting.approval[-6:]):
        printed = waiting.link(name)
        first, rest = printed.out.split("\n", 1)
        assert first.startswith(f"Open {waiting.team.server.url}/console/a/pal_")
        assert "Give it to nobody else." in " ".join(rest.split())
        assert local_time(from_stamp(document["expires_at"]))[:10] in rest


def test_a_link_is_refused_with_the_code_of_the_reason(waiting: Held) -> None:
    for key in (waiting.agent_key, waiting.team.server.key):
        assert "[human_required]" in waiting.link(waiting.approval, key=key).err
    assert "[not_found]" in waiting.link("appr_none").err
    waiting.team.said("approvals", "reject", waiting.approval, "--key", waiting.ann)
    assert "[approval_decided]" in waiting.link(waiting.approval).err
    refused = waiting.link(waiting.approval, "--json")
    assert json.loads(refused.err)["error"]["code"] == "approval_decided"


def test_a_server_allows_no_links_unless_it_is_set_up_so(lone_team: Team) -> None:
    held = Held(lone_team)

    refused = held.link(held.approval)

    assert "[approval_links_off]" in refused.err
    assert 'approval_links = "decide"' in " ".join(refused.err.split())


def test_the_setting_is_off_or_decide(lone_team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lone_team.said("config")["approval_links"]["value"] == "off"
    monkeypatch.setenv("PARLEY_APPROVAL_LINKS", "always")

    assert "approval_links" in lone_team.run("config").err
