"""`parley policy set`: change settings of a policy, with a look at what that changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml
from yaml.nodes import CollectionNode

from parley.cli.command import Command, screen_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import confirm, is_interactive, safe
from parley.cli.parts.remote import add_server_options, connection_of
from parley.cli.rules.files import ENDING, parse_policy
from parley.cli.rules.policy import DOCUMENT, show_differences, snapshot_of, split_document
from parley.domain.errors.errors import Invalid

if TYPE_CHECKING:
    import argparse

    from yaml.nodes import Node


def _add_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("document", metavar="SCOPE/NAME", help=DOCUMENT)
    parser.add_argument(
        "changes", nargs="+", metavar="KEY=VALUE", help="a key of the policy and its new value, as in YAML"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    add_server_options(parser, agent=False)
    parser.description = (
        f"{parser.description}.\n\n"
        "Prints what changes in the policy and for whom, and asks for confirmation;\n"
        "without a terminal it needs --yes. Comments and other keys stay as they are."
    )


def _set(args: argparse.Namespace) -> int:
    from parley.domain.rules.policy import with_document

    scope, name = split_document(args.document)
    settings = [_setting(change) for change in args.changes]
    connection = connection_of(args, agent=False)
    before = snapshot_of(connection.get("policies", query={"texts": "true"}))
    text = before.texts.get(args.document, "")
    for key, value in settings:
        text = with_setting(text, key, value)
    after = with_document(before, args.document, text, parse_policy(text, f"{args.document}{ENDING}", scope))
    if not args.yes and (args.json or not is_interactive()):
        raise Invalid(f"this changes the policy {args.document}", hint="to confirm, add --yes")
    show_differences(args, before, after)
    screen = screen_of(args)
    if after.fragments == before.fragments:
        return OK
    if not args.yes and not confirm(f"Put this into force as {safe(args.document)}?"):
        screen.prose("No change was made.")
        return FOUND_PROBLEMS
    put = connection.send("PUT", "policies", scope, name, body={"text": text}).document
    if not args.json:
        screen.prose(f"Policy {safe(args.document)} is in force (version {safe(put['label'])})")
    return OK


def _setting(change: str) -> tuple[str, str]:
    key, equals, value = change.partition("=")
    if not equals or not key:
        raise Invalid(f"{change!r} is not KEY=VALUE", hint="for example cross_org=true")
    return key, value


def with_setting(text: str, key: str, value: str) -> str:
    """The text of a policy with one key set; everything else, comments too, stays as it is."""
    from parley.wire.files.policy import DOMAIN

    try:
        yaml.compose(value, Loader=yaml.SafeLoader)
        document = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        raise Invalid(f"{key}={value}: the value is not YAML", hint="quote it, or write a list as [a, b]") from None
    line = f"{key}: {value}"
    settings = document.value[0][1].value if document is not None else []
    for name, old in settings:
        if name.value == key:
            return text[: name.start_mark.index] + line + text[_end_of(old) :]
    indent = settings[0][0].start_mark.column if settings else 2
    return f"{text.rstrip() or f'{DOMAIN}:'}\n{' ' * indent}{line}\n"


def _end_of(node: Node) -> int:
    """Where a value ends. A list over several lines counts as ending before the next key, after its comments."""
    while isinstance(node, CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    return int(node.end_mark.index)


COMMANDS = {
    "policy set": Command(
        "Change settings of a policy",
        _add_set,
        _set,
        (
            "parley policy set enterprise/default cross_org=true",
            "parley policy set org/sales max_rounds=5 --yes",
        ),
    ),
}
