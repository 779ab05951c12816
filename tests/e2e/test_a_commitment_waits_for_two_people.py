"""Two agents of two people: a commitment is held, a person approves it, another answers it, both ledgers agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.shell import Shell, agents

HELD = 9
FILE = "oacp/projects/demo/.parley/governance.yaml"


def held(shell: Shell, *words: str) -> dict[str, Any]:
    ran = shell.run(*words, "--json")
    assert (ran.returncode, ran.stderr) == (HELD, ""), ran
    said: dict[str, Any] = json.loads(ran.stdout)
    return said


def test_a_commitment_goes_from_agent_to_agent_only_through_their_people(tmp_path: Path) -> None:
    # Given two agents, each of which acts for a person with a key of its own
    alice, bob = agents(tmp_path, "alice", "bob")
    assert alice.run("governance", "init", "--tenant", "acme").returncode == 0
    path = tmp_path / FILE
    first, _, second = path.read_text().partition("  bob:")
    path.write_text(first.replace("unassigned", "ann") + "  bob:" + second.replace("unassigned", "ben"))
    ann, ben = [
        one._replace(key=one.say("governance", "add-human", user)["key"])
        for one, user in ((alice, "ann"), (bob, "ben"))
    ]

    # When alice asks for a commitment, nothing leaves until ann has approved exactly that
    ask = ("send", "--to", "bob", "--type", "question", "--subject", "Two engineers", "--purpose", "commitment_request")
    waits = held(alice, *ask, "--body", "Can you allocate two engineers to us?")
    assert waits["detectedKeywords"] == ["allocate"]
    assert bob.files("inbox") == alice.files("outbox") == []
    assert bob.say("next") is None
    ann.say("approvals", "approve", waits["approval"], "--yes")

    # And bob gets it, his answer waits for ben, and ben says it himself
    asked = bob.say("next")
    assert (asked["ocip"]["message_type"], asked["ocip_ext"]["approval"]["by"]) == ("agent-assisted", "ann")
    waits = held(bob, "reply", asked["id"], "--body", "Yes, we commit to it.")
    assert alice.say("next") is None
    ben.say("approvals", "answer", waits["approval"], "One now, the other one in May.")
    bob.say("done", asked["id"])

    # Then alice has a person's answer, the exchange stands at the second round on both sides
    answer = alice.say("next")
    assert (answer["body"], answer["ocip"]["message_type"]) == ("One now, the other one in May.", "human")
    assert "disclosure" not in answer
    alice.say("done", answer["id"])
    rounds = [[turn["round"] for turn in one.say("exchange", "list")[0]["transcript"]] for one in (alice, bob)]
    assert rounds == [[1, 2], [1, 2]]

    # And what each of them wrote down for itself is whole, and the same
    assert [one.say("audit", "verify", one.agent)["valid"] for one in (alice, bob)] == [True, True]
    assert alice.say("audit", "reconcile", "alice", "bob") == {"equal": True, "paired": 2, "differences": []}
