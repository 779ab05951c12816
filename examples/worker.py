"""A worker: takes what waits for its agent, one message at a time, answers requests and finishes everything.

PARLEY_AGENT=codex python examples/worker.py demo          works for ever
PARLEY_AGENT=codex python examples/worker.py demo --once   stops when nothing waits

Start several: each message goes to one of them. Kill one: what it held goes to another after its lease.
"""

import sys
import time

import parley

ANSWERED = {parley.Kind.TASK_REQUEST, parley.Kind.QUESTION, parley.Kind.BRAINSTORM_REQUEST}


def main(project: str, *, once: bool) -> None:
    with parley.Mailbox(project) as mailbox:
        while True:
            message = mailbox.next(lease="10m")
            if message is None and once:
                return
            if message is None:
                time.sleep(0.5)
                continue
            print(f"{message.priority} {message.kind} from {message.sender}: {message.subject}", flush=True)
            if message.kind in ANSWERED:  # never answer a notification: two polite workers would not stop
                mailbox.reply(message.id, body=f"{mailbox.agent} has seen to it.")  # finishes it in the same commit
            else:
                mailbox.done(message.id)  # last: until now a crash gives the message back


if __name__ == "__main__":
    main(sys.argv[1], once="--once" in sys.argv)
