"""claude gives codex a task, codex hands it on to gemini, gemini reports to claude: one conversation, four inboxes."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.shell import agents


def test_three_agents_hand_work_over_until_it_is_reported_done(tmp_path: Path) -> None:
    claude, codex, gemini = agents(tmp_path, "claude", "codex", "gemini")

    # Given a task from claude to codex
    task = claude.say("send", "--to", "codex", "--type", "task_request", "--subject", "Rate limit", body="Add it.\n")

    # When codex takes it, hands it over to gemini and is done with it
    taken = codex.say("next")
    assert taken["id"] == task["id"]
    fields = {
        "source_agent": "codex",
        "target_agent": "gemini",
        "intent": "Finish the rate limit",
        "artifacts_to_review": "PR #42",
        "definition_of_done": "All tests pass",
        "context_bundle.files_touched": "limit.py",
        "context_bundle.decisions_made": "Token bucket",
        "context_bundle.blockers_hit": "none",
        "context_bundle.suggested_next_steps": "Write the tests",
    }
    choices = [word for name, value in fields.items() for word in ("--set", f"{name}={value}")]
    handed = codex.say("reply", taken["id"], "--to", "gemini", "--type", "handoff", *choices)
    codex.say("done", taken["id"])

    # And gemini takes it, does it and answers claude
    work = gemini.say("next")
    assert work["id"] == handed["id"]
    assert work["body"]["intent"] == "Finish the rate limit"
    report = gemini.say("reply", work["id"], "--to", "claude", "--type", "notification", body="Done, all tests pass.\n")
    gemini.say("done", work["id"])

    # Then claude reads the report in the same conversation, and nobody has anything left to do
    news = claude.say("next")
    assert (news["id"], news["body"]) == (report["id"], "Done, all tests pass.\n")
    assert news["conversation_id"] == work["conversation_id"] == taken["conversation_id"]
    assert news["parent_message_id"] == work["id"]
    claude.say("done", news["id"])
    for agent in (claude, codex, gemini):
        assert agent.say("next") is None
        assert agent.files("inbox") == agent.files("dead_letter") == []
        assert len(agent.files("outbox")) == len(agent.files("inbox", "archive")) == 1
