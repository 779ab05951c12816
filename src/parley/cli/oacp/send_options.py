"""The command line of `oacp send`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parley.cli.oacp.arguments import make_parser
from parley.domain.message.message import KINDS, PRIORITIES

if TYPE_CHECKING:
    import argparse


def send_parser() -> argparse.ArgumentParser:
    parser = make_parser(prog="send_inbox_message.py", description="Send a message to one or more agents.")
    parser.add_argument("project", help="project name")
    parser.add_argument("--from", dest="sender", help="sending agent (default: $OACP_AGENT, $AGENT_NAME, its card)")
    parser.add_argument("--to", dest="recipient", required=True, help="receiving agents, separated by commas")
    parser.add_argument("--type", required=True, choices=sorted(KINDS), help="what kind of message it is")
    parser.add_argument("--subject", required=True, help="one line that says what it is about")
    parser.add_argument("--body", help="text of the message")
    parser.add_argument("--body-file", help="file that holds the text; - for standard input")
    parser.add_argument("--priority", default="P2", choices=list(PRIORITIES), help="urgency (default: P2)")
    parser.add_argument("--related-pr", help="number of a pull request")
    parser.add_argument("--related-packet", help="packet it belongs to")
    parser.add_argument("--conversation-id", help="conversation it belongs to")
    parser.add_argument("--parent-message-id", help="id of the message it answers")
    parser.add_argument("--in-reply-to", help="id of the message it answers; takes over its conversation")
    parser.add_argument("--context-keys", help="references the recipient will need")
    parser.add_argument("--context-keys-file", help="file that holds them")
    parser.add_argument("--expires", help="how long it matters: 24h, 7d, 30m")
    parser.add_argument("--channel", help="free label of letters, digits, - and _")
    parser.add_argument("--autonomy-hint", help="auto_proceed")
    parser.add_argument("--sign", action="store_true", help="not available: Parley does not sign")
    parser.add_argument("--suffix", help="ending of the file name")
    parser.add_argument("--oacp-dir", help="OACP home (default: $OACP_HOME, a marker, ~/oacp)")
    parser.add_argument("--dry-run", action="store_true", help="print the message instead of sending it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--quiet", action="store_true", help="say nothing on success")
    return parser
