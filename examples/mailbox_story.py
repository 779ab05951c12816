"""A short story between three agents, told with the real `parley` commands on a temporary workspace.

make story
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

BIN = Path(sys.executable).parent
COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
# Takes a message for as long as it lives, then waits for an end that comes as kill -9.
READER = """
import sys, parley
mailbox = parley.Mailbox("demo", agent="gemini")
print(mailbox.next(lease=None).id, flush=True)
sys.stdin.read()
"""
PACKET = """\
findings:
  - id: finding-001
    severity: P1
    status: open
    summary: The counter is read outside the lock
  - id: finding-002
    severity: P3
    status: open
    summary: Name the constant
"""
# The exit code of `parley next` when there is no message.
NO_MESSAGE = 14
BAD_FILE = """\
id: "msg-20260313T1430Z-codex-zz99"
from: "codex"
from: "claude"
"""


class Story:
    """Says what happens, runs the commands and shows them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        foreign = ("PARLEY_", "OACP_", "AGENT_NAME", "CLAUDE", "CODEX_", "GEMINI_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        self._environment = {**kept, "PARLEY_HOME": str(home), "PATH": f"{BIN}:{kept.get('PATH', '')}"}

    @property
    def project(self) -> Path:
        return self.home / "projects" / "demo"

    def chapter(self, title: str) -> None:
        print("\n" + paint(f"== {title} ==", "1"))

    def say(self, text: str) -> None:
        print("\n" + textwrap.fill(" ".join(text.split()), 100), flush=True)

    def parley(self, *words: str, code: int = 0, or_code: int = 0) -> str:
        """Run one command that ends with one of the codes, show it as a shell line, and show and return its output."""
        print(paint("$ " + shlex.join(["parley", *words]), "32"), flush=True)
        done = subprocess.run(
            [str(BIN / "parley"), *words], env=self._environment, capture_output=True, text=True, check=False
        )
        self.show(done.stdout + done.stderr)
        if done.returncode not in (code, or_code or code):
            sys.exit(f"the story broke: exit code {done.returncode}")
        return done.stdout

    def send(self, *words: str) -> str:
        """Run a command that sends, and return the id of its message."""
        sent = re.match(r"Sent (\S+) ", self.parley(*words))
        return sent[1] if sent else sys.exit("the story broke: nothing was sent")

    def show(self, text: str) -> None:
        print(textwrap.indent(text.rstrip("\n").replace(str(self.home), "~/oacp"), "  "), flush=True)

    def killed_reader(self) -> None:
        """Start a reader that claims a message, and kill it while it works."""
        command = [sys.executable, "-c", READER]
        print(paint("$ python reader.py & kill -9 $!", "32"), flush=True)
        with subprocess.Popen(
            command, env=self._environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as reader:
            claimed = reader.stdout.readline().strip() if reader.stdout else ""
            reader.kill()
        self.show(f"the reader had claimed {claimed}")

    def tree(self) -> None:
        for agent in sorted((self.project / "agents").iterdir()):
            self.show(f"{agent.name}/")
            for folder in ("inbox", "inbox/archive", "outbox", "dead_letter"):
                files = sorted(path.name for path in (agent / folder).iterdir() if path.suffix in {".yaml", ".json"})
                self.show(f"  {folder}/" + "".join(f"\n    {file}" for file in files))


def paint(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if COLOUR else text


def beginning(story: Story) -> None:
    story.chapter("Three agents, no server")
    story.say("A project is a folder. Each agent has an inbox and an outbox in it.")
    story.parley("init", "demo", "--agents", "claude,codex,gemini")


def question(story: Story) -> None:
    story.chapter("A question and its answer")
    story.say("Claude asks Codex. When the command returns, the message is on disk in Codex's inbox.")
    asked = story.send(
        *("send", "--from", "claude", "--to", "codex", "--type", "question"),
        *("--subject", "mTLS or JWT?", "--body", "For the calls between our services."),
    )
    story.say("Codex looks (which consumes nothing), takes the message, answers, and finishes it.")
    story.parley("inbox", "--agent", "codex")
    story.parley("next", "--agent", "codex")
    story.parley("reply", asked, "--agent", "codex", "--body", "Signed JWTs; they pass through the proxy.")
    story.parley("done", asked, "--agent", "codex")
    story.say("The whole conversation, as Claude sees it:")
    story.parley("thread", asked, "--agent", "claude")


def priorities(story: Story) -> None:
    story.chapter("What comes first")
    story.say("Three messages for Gemini. Urgency decides, then requests for work, then age.")
    for kind, priority, subject in (
        ("notification", "P2", "The build is green"),
        ("task_request", "P2", "Write the release notes"),
        ("task_request", "P0", "The login page is down"),
    ):
        words = ("--type", kind, "--priority", priority, "--subject", subject, "--body", "See the dashboard.")
        story.send("send", "--from", "claude", "--to", "gemini", *words)
    story.parley("inbox", "--agent", "gemini")


def review(story: Story) -> None:
    story.chapter("A code review")
    story.say("Claude asks for a review. A review's body has named fields; what is missing would be named.")
    asked = story.send(
        *("send", "--from", "claude", "--to", "codex", "--type", "review_request", "--subject", "Review #55"),
        *("--set", "pr=#55", "--set", "branch=rate-limit", "--set", "diff_summary=A token bucket per key"),
    )
    story.say("Codex writes its findings into a packet and points to it. The reply's type follows from the request's.")
    packet = "packets/findings/pr-55-round-1.yaml"
    (story.project / packet).write_text(PACKET)
    feedback = story.send(
        *("reply", asked, "--agent", "codex", "--set", f"findings_packet={packet}"),
        *("--set", "round=1", "--set", "blocking_count=1"),
    )
    story.parley("done", asked, "--agent", "codex")
    story.parley("review", "status", asked, "--agent", "claude")
    story.say("Claude mends what blocks, Codex approves. The small finding stays as a nit.")
    addressed = story.send(
        *("reply", feedback, "--agent", "claude", "--set", "commit_sha=a1b2c3d", "--set", "round=1"),
        *("--set", "changes_summary=Take the lock first", "--set", "touched_files=bucket.py"),
        *("--set", "addressed_finding_ids=finding-001"),
    )
    story.parley("done", feedback, "--agent", "claude")
    words = ("--set", "quality_gate_result=pass", "--set", "merge_ready=true")
    story.send("reply", addressed, "--agent", "codex", "--type", "review_lgtm", *words)
    story.parley("done", addressed, "--agent", "codex")
    story.parley("review", "status", asked, "--agent", "claude")


def crash(story: Story) -> None:
    story.chapter("A crash")
    story.say("A reader of Gemini's takes the most urgent message and is killed while it works on it.")
    story.killed_reader()
    story.say("Its claim died with it. The message is the next one again, and nothing was lost.")
    taken = re.search(r"^id: (\S+)$", story.parley("next", "--agent", "gemini"), re.MULTILINE)
    story.parley("done", taken[1] if taken else "", "--agent", "gemini")


def bad_file(story: Story) -> None:
    story.chapter("A bad file")
    story.say("Some tool drops a file that says twice who it is from. Nobody can tell which one is true.")
    bad = story.project / "agents" / "gemini" / "inbox" / "bad.yaml"
    bad.write_text(BAD_FILE)
    os.utime(bad, (0, 0))  # a file that just changed may still be written, and is left alone for ten seconds
    story.say("Gemini works on. What cannot be read is put aside with the reason, and holds nobody up.")
    next_one = ("next", "--agent", "gemini")
    while taken := re.search(r"^id: (\S+)$", story.parley(*next_one, or_code=NO_MESSAGE), re.MULTILINE):
        story.parley("done", taken[1], "--agent", "gemini")
    print(paint("$ cat ~/oacp/projects/demo/agents/gemini/dead_letter/bad.yaml.reason.json", "32"))
    story.show((story.project / "agents" / "gemini" / "dead_letter" / "bad.yaml.reason.json").read_text())


def end(story: Story) -> None:
    story.chapter("What is left")
    story.say("Everything is a plain file. Finished messages are in the archive, what was sent in the outbox.")
    story.tree()
    story.say("The doctor names what needs somebody to look at it, and says so with its exit code: the bad file.")
    story.parley("doctor", code=1)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="parley-story-") as folder:
        story = Story(Path(folder))
        for part in (beginning, question, priorities, review, crash, bad_file, end):
            part(story)
    print("\nThat was all. The workspace is gone; yours starts with: parley init demo --agents claude,codex")


if __name__ == "__main__":
    main()
