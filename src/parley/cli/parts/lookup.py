"""Names on the command line of a server: which intent, channel or agent a text means, and which one without any."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.cli.command import settings_of
from parley.domain.directory.callers import EVERYONE, ROLE_PREFIXES
from parley.domain.errors.errors import Ambiguous, Forbidden, Invalid, NotFound, ParleyError
from parley.domain.errors.rules import Suspended
from parley.domain.lookup import SUFFIX_MIN_CHARS, is_id
from parley.domain.names import is_name
from parley.sdk.protocol import lookup

if TYPE_CHECKING:
    import argparse

    from parley.sdk.blocking.connection import Connection
    from parley.sdk.protocol.lookup import Collection, FoundIntent

INTENT_HELP = "its title, its id or the end of its id (default: see parley intent --help)"
_INTENT = "intent of the channel: "
_CHANNEL = "channel: its name, its id or the end of its id"
DEFAULT_INTENT_NOTE = (
    "Without --intent: $PARLEY_INTENT, else your only active intent, else the one\n"
    "called `default`. If you have none, `default` is created: only you take part in\n"
    "it until you let others in with: parley intent assign default AGENT."
)
MESSAGE_INTENT_NOTE = (
    "Without --intent: $PARLEY_INTENT, else your only active intent, else the one\n"
    "called `default`. If you have none, `default` is created for a message to\n"
    "everyone: only you take part in it until you let others in with: parley intent\n"
    "assign default AGENT. For a message to one agent, create an intent in which it\n"
    "takes part: parley intent create TITLE --access AGENT."
)


class Target(NamedTuple):
    """Where a message goes: a channel by its id, a new one by its name in an intent, or an agent directly."""

    channel_id: str = ""
    channel: str = ""
    intent: FoundIntent | None = None
    agent: str = ""


def add_intent_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--intent", default="", metavar="INTENT", help=_INTENT + INTENT_HELP)


def add_intent_argument(parser: argparse.ArgumentParser, meaning: str = "") -> None:
    """Add INTENT, which may also be given as --intent."""
    parser.add_argument("intent", nargs="?", default="", metavar="INTENT", help=f"{meaning}{INTENT_HELP}")
    parser.add_argument(
        "--intent", dest="intent_option", default="", metavar="INTENT", help="the same as INTENT, as in parley post"
    )


def read_intent_argument(args: argparse.Namespace) -> None:
    """Set `args.intent` from INTENT or --intent."""
    if args.intent and args.intent_option:
        raise Invalid("INTENT and --intent together", hint="leave one of them out")
    args.intent = args.intent or args.intent_option


def add_channel_arguments(parser: argparse.ArgumentParser) -> None:
    """Add CHANNEL and --intent."""
    parser.add_argument("channel", metavar="CHANNEL", help=_CHANNEL)
    add_intent_option(parser)


def add_channel_option(parser: argparse.ArgumentParser, message: str) -> None:
    """Add MESSAGE, --channel and --intent."""
    parser.add_argument("message", metavar="MESSAGE", help=f"{message}: its id or the end of its id")
    parser.add_argument("--channel", required=True, help=_CHANNEL)
    add_intent_option(parser)


def add_target_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the channel or the agent to talk to, a text, and --intent."""
    parser.add_argument("channel", metavar="CHANNEL|AGENT", help=f"{_CHANNEL}; or an agent, to talk to it directly")
    parser.add_argument("text", nargs="?", default=None, metavar="TEXT", help='a payload of one text: {"text": TEXT}')
    add_intent_option(parser)
    parser.add_argument("--create", action="store_true", help="create the channel, also if another has a similar name")


def intent_of(connection: Connection, args: argparse.Namespace, *, create: bool = False) -> FoundIntent:
    """The intent that the options name, else the default one."""
    name = args.intent or settings_of(args).intent
    if name:
        return connection.run(lookup.find_intent(connection.session, name))
    try:
        return connection.run(lookup.find_default_intent(connection.session, create=False))
    except NotFound:
        if not create:
            raise
    return _new_default_intent(connection, args)


def _new_default_intent(connection: Connection, args: argparse.Namespace) -> FoundIntent:
    """Create the default intent, unless the message could reach nobody in it: only its creator takes part."""
    from parley.cli.parts.unknown_names import note_similar
    from parley.cli.reports import note

    sender, to = connection.session.agent, str(getattr(args, "to", None) or EVERYONE)
    if sender:
        note_similar(connection, sender)
    is_role = to.startswith(ROLE_PREFIXES)
    if to not in (EVERYONE, sender) and not (is_role and args.wait_for_responders):
        others = "AGENT" if is_role else to
        raise NotFound(
            f"no intent that {sender or 'you'} can see",
            hint=f"create one with: parley intent create TITLE --access {others}",
        )
    intent = connection.run(lookup.find_default_intent(connection.session, create=True))
    if intent.is_new:
        let_in = f"let others in: parley intent assign {intent.title} AGENT"
        note(f"created the intent {intent.title}; only {intent.created_by} takes part in it so far", let_in)
    return intent


def channel_of(connection: Connection, args: argparse.Namespace) -> str:
    """The id of the channel that the options name."""
    if is_id(args.channel, lookup.CHANNEL.prefix):
        return str(args.channel)
    return connection.run(lookup.find_channel(connection.session, intent_of(connection, args), args.channel))


def message_of(connection: Connection, args: argparse.Namespace) -> tuple[str, str]:
    """The ids of the channel and of the message that the options name."""
    channel = channel_of(connection, args)
    return channel, connection.run(lookup.find_message(connection.session, channel, args.message))


def id_of(connection: Connection, collection: Collection, text: str) -> str:
    """The id of a key, a timer or another thing that a text means."""
    return connection.run(lookup.find_id(connection.session, collection, text))


def conversation_of(connection: Connection, text: str) -> str:
    """The conversation that a text means: the end of the id of one that you can see, else an id of your own choice."""
    if not (len(text) >= SUFFIX_MIN_CHARS and text.isalnum() and text.isupper()):
        return text
    try:
        return id_of(connection, lookup.CONVERSATIONS, text)
    except NotFound:
        return text


def agent_named(args: argparse.Namespace) -> str:
    """The agent that is named in place of a channel, by the words alone; empty when it is or may be a channel."""
    if args.intent or is_id(args.channel, lookup.CHANNEL.prefix) or args.to not in (None, "", args.channel):
        return ""
    if not is_name(args.channel):
        raise Invalid(f'"{args.channel}" is neither a channel nor an agent', hint="to use a channel, add --to")
    return str(args.channel)


def existing_channel(connection: Connection, intent: FoundIntent, args: argparse.Namespace) -> str:
    """The id of a channel in an intent, or "" when it is to be created.

    A name that differs from another by a typing error is refused, unless --create asks for it.
    """
    try:
        return connection.run(lookup.find_channel(connection.session, intent, args.channel))
    except NotFound as error:
        if error.facts.get("missing") != lookup.CHANNEL.word:
            raise  # the intent
        if not args.create and error.hint.startswith("did you mean"):
            error.hint = f"{error.hint} to create it, add --create"
            raise
        return ""


def target_of(connection: Connection, args: argparse.Namespace, *, create: bool) -> Target:
    """Where a message goes that names a channel or an agent.

    A name alone may be either; when it is both, that is an error. With --to another agent it is a channel.
    """
    if is_id(args.channel, lookup.CHANNEL.prefix):
        return Target(args.channel)
    agent = agent_named(args)
    if not agent:
        try:
            intent = intent_of(connection, args, create=create)
            return Target(existing_channel(connection, intent, args), args.channel, intent)
        except Suspended:
            return Target(channel=args.channel, intent=named_intent(args))
    if args.to == agent:
        return Target(agent=agent)
    try:
        channel_id, title = _channel_in_default(connection, args)
    except Suspended:
        # A suspended agent sees no channel. Its message to an agent is refused, and the refusal recorded.
        return Target(agent=agent)
    if not channel_id:
        return Target(agent=agent)
    if _is_registered(connection, agent):
        raise _both(agent, title, f"--to {agent}")
    return Target(channel_id)


def named_intent(args: argparse.Namespace) -> FoundIntent:
    """The intent that the options name, for the server to find: it refuses what a suspended agent looks up.

    A message that names its intent and its channel is refused, too, and that refusal is in the audit log.
    """
    name = args.intent or settings_of(args).intent or lookup.UNNAMED_INTENT
    return lookup.FoundIntent(name, name)


def readable_channel(connection: Connection, args: argparse.Namespace) -> Target:
    """The channel or the agent that is named for reading; a name that is neither is an error with similar names."""
    if args.direct:
        return Target(agent=args.channel)
    if is_id(args.channel, lookup.CHANNEL.prefix) or args.intent or not is_name(args.channel):
        return Target(channel_of(connection, args))
    channel_id, intent = _channel_in_default(connection, args)
    is_agent = _is_registered(connection, args.channel)
    if channel_id and is_agent:
        raise _both(args.channel, intent, "--direct")
    if channel_id or not is_agent:
        return Target(channel_id or channel_of(connection, args))
    return Target(agent=args.channel)


def _both(name: str, intent: str, option: str) -> Ambiguous:
    hint = f"for the agent add {option}, for the channel --intent '{intent}'"
    return Ambiguous(f'"{name}" is an agent, and a channel in intent "{intent}"', hint=hint)


def _channel_in_default(connection: Connection, args: argparse.Namespace) -> tuple[str, str]:
    """The id of the channel of this name in the default intent, and the intent's title; empty when there is none."""
    try:
        intent = intent_of(connection, args)
        channels = connection.get("intents", intent.id, "channels")
    except ParleyError as error:
        if error.facts.get("arrived") is False or error.code == "unauthorized":
            raise
        return "", ""  # no default intent, or a key that sees none
    return next((channel["id"] for channel in channels if channel["name"] == args.channel), ""), intent.title


def _is_registered(connection: Connection, agent: str) -> bool:
    try:
        connection.get("agents", agent, "record")
    except (NotFound, Forbidden):
        return False
    return True


def check_no_channel(connection: Connection, args: argparse.Namespace) -> None:
    """Refuse the name of a channel where an agent is asked directly."""
    if _channel_in_default(connection, args)[0]:
        raise Invalid(f'"{args.channel}" is a channel: add --to AGENT')


def direct_channel_id(connection: Connection, agent: str) -> str:
    """The id of the direct channel with an agent."""
    try:
        return str(connection.get("agents", agent, "direct")["channel_id"])
    except Invalid as error:
        raise with_channel_hint(error, agent) from None


def with_channel_hint(error: ParleyError, agent: str) -> ParleyError:
    """The error of a message to an agent, with the way to a channel: somebody may have meant one."""
    error.hint = f"{error.hint}; for the channel {agent}, add --intent INTENT".removeprefix("; ")
    return error
