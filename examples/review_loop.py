"""A review loop between two agents at file mailboxes: request, findings, addressed, approved. No server at all.

    python examples/review_loop.py

Claude asks for a review. Codex answers with findings, in a file that its answer points to. Claude mends what blocks and
says so. Codex approves. What a handler returns is the answer, and its fields say of which kind it is. Every message is
a YAML file in a folder, as `parley` and `oacp-cli` write them: a person could play either side, and `parley review
status` shows where it stands.

The mailboxes are in a folder that goes away. At real ones the classes stay as they are: `Claude().run("mailbox:demo")`.
"""

from pathlib import Path

from parley import Agent, BaseAgent, ChannelMessage, on_message
from parley.testing import mailboxes

PACKET = "packets/findings/pr-55-round-1.yaml"
FINDINGS = """\
findings:
  - {id: finding-001, severity: P1, status: open, summary: The counter is read outside the lock}
  - {id: finding-002, severity: P3, status: open, summary: Name the constant}
"""


def say(who: str, what: str) -> None:
    """A line in one piece: the agents are threads here."""
    print(f"{who:<8}{what}\n", end="")


@Agent("codex")
class Codex(BaseAgent):
    """Reviews."""

    def __init__(self, project: Path) -> None:
        self.project = project

    @on_message(kind="review_request")
    def review(self, message: ChannelMessage) -> dict[str, object]:
        (self.project / PACKET).write_text(FINDINGS)
        say("codex", f"reviews {message.payload['pr']} of {message.sender}, and finds two things, one that blocks")
        return {"findings_packet": PACKET, "round": 1, "blocking_count": 1}  # a review_feedback

    @on_message(kind="review_addressed")
    def look_again(self, message: ChannelMessage) -> dict[str, object]:
        say("codex", f"sees {message.payload['addressed_finding_ids']} addressed in {message.payload['commit_sha']}")
        return {"quality_gate_result": "pass", "merge_ready": True}  # a review_lgtm


@Agent("claude")
class Claude(BaseAgent):
    """Wrote the change."""

    def __init__(self) -> None:
        self.approved = False

    @on_message(kind="review_feedback")
    def mend(self, message: ChannelMessage) -> dict[str, object]:
        say("claude", f"reads {message.payload['findings_packet']}, and takes the lock first")
        return {  # a review_addressed
            "commit_sha": "a1b2c3d",
            "changes_summary": "Take the lock first",
            "round": message.payload["round"],
            "touched_files": ["bucket.py"],
            "addressed_finding_ids": ["finding-001"],
        }

    @on_message(kind="review_lgtm")
    def merge(self, message: ChannelMessage) -> None:
        say("claude", f"may merge: the gate says {message.payload['quality_gate_result']}")
        self.approved = True


def main() -> None:
    claude = Claude()
    with mailboxes("claude", "codex") as project:
        project.start(claude, Codex(Path(project.address)))
        mailbox = project.mailbox("claude")
        change = {"pr": "#55", "branch": "rate-limit", "diff_summary": "A token bucket per key"}
        asked = mailbox.send("codex", "review_request", "Review #55", change)
        project.wait_until(lambda: claude.approved, timeout=30)

        review = mailbox.review(asked)
        say("review", f"is {review.state} in round {review.round} of {review.rounds_allowed}")
        for finding in review.findings:
            say("", f"{finding.id} {finding.severity} {'resolved' if finding.resolved else 'open'}: {finding.summary}")
        for number, message in enumerate(mailbox.thread(asked), 1):
            say("", f"{number}. {message.kind} from {message.sender}")


if __name__ == "__main__":
    main()
