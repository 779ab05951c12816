"""Where the parts come together: the only place that names adapters."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from parley.adapters.files.inbox import FileInbox
from parley.adapters.files.workspace import AgentFolder, Workspace, projects
from parley.adapters.process import SystemClock, SystemIds, has_ended, monotonic, process_mark, wall_time
from parley.app.mailbox.kernel import Kernel, drive
from parley.domain.errors.errors import ParleyError, UnknownSender
from parley.domain.names import agent_name
from parley.place_wiring import (
    find_bound_place,
    find_bound_project,
    find_home,
    find_project,
    is_by_repo_path,
    only_project,
)
from parley.settings import FLAG, RUNTIMES, Settings, Value, checkpoints_directory, load
from parley.wire.oacp.format import OacpFormat

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from parley.adapters.files.governance import GovernanceFiles
    from parley.adapters.files.layout import AddedAgent, CreatedProject
    from parley.adapters.outside.notifier import MailboxNotifier
    from parley.app.mailbox.overview import ProjectReader
    from parley.app.team.team import Team
    from parley.domain.exchange.notice import Letter
    from parley.domain.rules.policy import Document
    from parley.login_wiring import FoundServer
    from parley.ports.mailbox import Courier, MailEnvelopes, MailSignatures, ReceiptLog, Store
    from parley.ports.outside import Outbound, RuleExtension, Signatures
    from parley.ports.team import TeamStore

__all__ = [
    "Kernel",
    "Opened",
    "Place",
    "SystemClock",
    "SystemIds",
    "add_agent",
    "agents_of",
    "approvals_project",
    "backup",
    "create_project",
    "default_policy",
    "drive",
    "find_agent",
    "find_bound_place",
    "find_bound_project",
    "find_home",
    "find_mailboxes",
    "find_place",
    "find_project",
    "find_server",
    "governance_files",
    "has_rules",
    "inbox_path",
    "is_by_repo_path",
    "make_own_home",
    "monotonic",
    "notices_messages",
    "open_data",
    "open_kernel",
    "open_ledger",
    "open_mailbox",
    "open_notifier",
    "open_project_reader",
    "open_rule_extension",
    "open_team",
    "opencode_plugin",
    "projects_of",
    "public_key",
    "read_card",
    "restore",
    "signatures",
    "wall_time",
]


# Agents that a hint names.
_NAMED_AGENTS = 12


class Place(NamedTuple):
    """Where a command acts, and how that was found; with a warning where the agent is probably not the one meant."""

    home: Value
    project: Value
    agent: Value
    warning: str = ""


def find_agent(settings: Settings, workspace: Workspace) -> Value:
    """The agent who speaks: as given, else the one whose card, else whose name, fits the runtime we run in."""
    return _find_agent(settings, workspace)[0]


def _find_agent(settings: Settings, workspace: Workspace) -> tuple[Value, str]:
    """The agent who speaks, and a warning or "".

    A coding agent inherits the variables of its terminal. Where they, or a file, name an agent of another runtime, the
    project's agent of this runtime is meant, unless an option names one.
    """
    named = Value("agent", settings.agent, settings.source_of("agent")) if settings.agent else None
    if named is not None:
        if not settings.harness or named.source == FLAG:
            return named, ""
        runtime = read_card(workspace.agent(named.value)).get("runtime", "").lower() or named.value
        if runtime == settings.harness or runtime not in RUNTIMES:
            return named, ""
    if settings.runtime:
        names = workspace.agents()
        fitting = [n for n in names if read_card(workspace.agent(n)).get("runtime", "").lower() == settings.runtime]
        fitting = fitting or [name for name in names if name == settings.runtime]
        if len(fitting) == 1:
            return Value("agent", fitting[0], f"runtime {settings.runtime}"), ""
        if named is not None:
            several = f"has {len(fitting)} agents" if fitting else "has no agent"
            what = f"{named.source} names {named.value}, and the project {several} of the runtime {settings.runtime}"
            return named, f"{what}: acting as {named.value}; add --agent NAME to choose another"
    names = workspace.agents()
    choice = f" (one of {', '.join(names)})" if 0 < len(names) <= _NAMED_AGENTS else ""
    raise UnknownSender("cannot tell which agent you are", hint=f"add --agent NAME{choice}, or set PARLEY_AGENT")


def find_place(settings: Settings) -> Place:
    """Home, project and agent."""
    home = find_home(settings)
    project = find_project(settings, home.value)
    return Place(home, project, *_find_agent(settings, Workspace(home.value, project.value)))


def inbox_path(place: Place) -> str:
    """The folder of the inbox of an agent."""
    return f"{Workspace(os.path.expanduser(place.home.value), place.project.value).agent(place.agent.value).path}/inbox"


def open_kernel(
    home: str, project: str, agent: str, settings: Settings, *, use_tmpfile: bool = True, read_only: bool = False
) -> Kernel:
    """The kernel of one agent's mailbox; `UnknownProject` or `UnknownAgent` when it is not there."""
    workspace = Workspace(os.path.expanduser(home), project)
    folder = workspace.agent(agent_name(agent))
    folder.open().close()

    def open_store() -> Store:
        from parley.adapters.sqlite.ledger.store import SqliteStore  # listing an inbox may do without SQLite

        return SqliteStore(folder.ledger_path(make=not read_only), read_only=read_only)

    def open_courier() -> Courier:
        from parley.adapters.files.courier import FileCourier

        return FileCourier(workspace, agent, settings.limits, use_tmpfile=use_tmpfile)

    def open_receipts() -> ReceiptLog:
        from parley.adapters.files.receipts.folder import FileReceipts

        return FileReceipts(workspace, folder)

    return Kernel(
        agent,
        open_store=open_store,
        has_store=lambda: folder.has_ledger,
        open_courier=open_courier,
        inbox=FileInbox(workspace, folder, settings.limits, keeps_index=not read_only),
        format=OacpFormat(settings.limits),
        clock=SystemClock(),
        ids=SystemIds(),
        limits=settings.limits,
        enforce_owner=settings.sender_check == "enforce",
        is_governed=lambda: os.path.lexists(f"{workspace.path}/.parley/governance.yaml"),
        open_rules=lambda: (governance_files(workspace, settings), _mail_envelopes(settings)),
        open_signatures=_mail_signatures,
        holder=lambda: process_mark(settings.agent_pid) if settings.agent_pid else "",
        has_ended=has_ended,
        open_receipts=open_receipts,
        session=settings.session,
    )


def open_project_reader(home: str, project: str, settings: Settings) -> ProjectReader:
    """The mailboxes of a project for people who look: nothing in them is changed, also where that would be allowed."""
    from parley.app.mailbox.overview import ProjectReader

    open_reading = partial(open_kernel, home, project, settings=settings, read_only=True)
    return ProjectReader(project, partial(agents_of, home, project), open_reading)


def open_ledger(path: str) -> Store:
    """The ledger of a mailbox by its file."""
    from parley.adapters.sqlite.ledger.store import SqliteStore

    return SqliteStore(path, create=False)


def governance_files(workspace: Workspace, settings: Settings) -> GovernanceFiles:
    """The rules of a project in its files."""
    from parley.adapters.files.governance import GovernanceFiles

    return GovernanceFiles(workspace, default_policy, settings.limits)


def has_rules(settings: Settings, home: str, project: str) -> bool:
    """Whether a project is governed."""
    return governance_files(Workspace(home, project), settings).is_set_up()


def _mail_envelopes(settings: Settings) -> MailEnvelopes:
    from parley.wire.oacp.envelope import OacpEnvelopes  # few messages are under the rules

    return OacpEnvelopes(settings.limits)


def _mail_signatures() -> MailSignatures:
    from parley.adapters.data.signatures import Ed25519Signatures  # slow to load, and few say that a person decided

    return Ed25519Signatures()


def public_key_of(secret: str) -> str:
    """The public half of a person's key, as the governance file has it."""
    from parley.domain.exchange.signature import encode_bytes, seed_of

    return encode_bytes(_mail_signatures().public_key(seed_of(secret)))


def open_mailbox(home: str = "", project: str = "", agent: str = "") -> tuple[Kernel, Settings]:
    """The kernel of the mailbox that these name, what is left out found as on the command line."""
    settings = load({"home": home, "project": project, "agent": agent})
    place = find_place(settings)
    return open_kernel(place.home.value, place.project.value, place.agent.value, settings), settings


def find_server(url: str = "", key: str = "", agent: str = "", *, saved: bool = True) -> FoundServer:
    """The server of a client. What is left out is found as on the command line.

    Without `saved`, saved logins are left alone: the caller brings its own way to a server.
    """
    from parley.login_wiring import find_server_of

    return find_server_of(load({"url": url, "key": key, "agent": agent}), saved=saved)


def default_intent() -> str:
    """The intent that is meant where none is named, as PARLEY_INTENT has it; empty when it has none."""
    return load({}).intent


def find_mailboxes(project: str = "") -> tuple[str, str]:
    """Home and project of mailboxes; what is left out is found as on the command line."""
    settings = load({"project": project})
    return (home := find_home(settings).value), find_project(settings, home).value


def agents_of(home: str, project: str) -> list[str]:
    """The names of all agents of a project, sorted."""
    return Workspace(os.path.expanduser(home), project).agents()


def projects_of(home: str) -> list[str]:
    """The names of all projects in a home, sorted."""
    return projects(os.path.expanduser(home))


def create_project(
    home: str, project: str, agents: tuple[str, ...], *, repo: str = "", shared: bool = False
) -> CreatedProject:
    """A new project in a home; see `adapters.files.layout`."""
    from parley.adapters.files import layout

    return layout.create_project(home, project, agents, at=SystemClock().now().at, repo=repo, shared=shared)


def make_own_home(folder: str) -> str:
    """A home of mailboxes inside a repository."""
    from parley.adapters.files import layout

    return layout.make_own_home(folder)


def add_agent(home: str, project: str, agent: str, *, runtime: str = "", shared: bool = False) -> AddedAgent:
    """One more agent in a project; no error when it is there already."""
    from parley.adapters.files import layout

    return layout.add_agent(home, project, agent, at=SystemClock().now().at, runtime=runtime, shared=shared)


def read_card(folder: AgentFolder) -> dict[str, str]:
    """What an agent's card says about it; nothing when there is none."""
    from parley.adapters.files import layout

    return layout.read_card(folder)


def notices_messages(home: str, project: str, agent: str) -> bool | None:
    """Whether a coding agent has run hooks here, so that it notices its messages; None for other agents, and where its
    ledger cannot be read.
    """
    from parley.wire.harness_files import HARNESSES

    folder = Workspace(os.path.expanduser(home), project).agent(agent)
    if (read_card(folder).get("runtime", "").lower() or agent) not in HARNESSES:
        return None
    if not folder.has_ledger:
        return False
    from parley.domain.mailbox.attention import AgentSession

    try:
        store = open_ledger(folder.ledger_path(make=False))
    except ParleyError:
        return None
    try:
        return bool(drive(store.records(AgentSession, limit=1)))
    except ParleyError:
        return None
    finally:
        store.close()


class Opened(NamedTuple):
    """A team's kernel over its data directory, and its way out."""

    team: Team
    outbound: Outbound


@asynccontextmanager
async def open_team(settings: Settings, data: str, *, durable: bool = True) -> AsyncIterator[Opened]:
    """The kernel of a server over a data directory, which it holds alone until it is closed."""
    from parley.adapters.data.checkpoint_files import CheckpointFiles
    from parley.adapters.data.directory import DataDirectory
    from parley.adapters.data.policy_files import PolicyFiles
    from parley.adapters.data.signatures import Ed25519Signatures, open_signer
    from parley.adapters.outside.outbound import HttpOutbound
    from parley.adapters.process import SteadyClock
    from parley.app.team.state.outside import AuditState, NoticeState, PolicyState
    from parley.app.team.state.rules import RulesState
    from parley.app.team.team import Team
    from parley.domain.directory.access import AccessPolicy
    from parley.domain.times import from_stamp
    from parley.store_wiring import open_for_server
    from parley.wire.ocip import OcipFormat

    limits = settings.team_limits  # refused before anything is created
    with open_rule_extension(settings) as extension, DataDirectory(data) as directory:
        store, nodes = await open_for_server(settings, directory.store_path, durable=durable)
        notifier = open_notifier(settings)
        try:
            newest = await store.newest()
            clock = SteadyClock(newest=from_stamp(newest) if newest else None)
            outbound = HttpOutbound(private=settings.webhook_targets == "any")
            team = Team(
                store,
                clock,
                SystemIds(clock.milliseconds),
                Ed25519Signatures(),
                OcipFormat(),
                limits,
                sdk_event_names=settings.event_names == "sdk",
                new_intents=AccessPolicy(settings.new_intents),
                outbound=outbound,
                audit=AuditState(open_signer(data), CheckpointFiles(checkpoints_directory(settings, data))),
                policies=PolicyState(default_policy(), PolicyFiles(os.path.join(data, "policies"))),
                governance=RulesState(extension),
                notices=NoticeState(notifier),
                nodes=nodes,
            )
            team.approval_links = settings.approval_links == "decide"
            yield Opened(team, outbound)
        finally:
            if notifier is not None:
                notifier.close()
            with suppress(ParleyError):  # then the others find out by themselves
                await nodes.leave()
            await store.close()


@contextmanager
def open_rule_extension(settings: Settings) -> Iterator[RuleExtension | None]:
    """The organisation's own rules, compiled; None when the settings name none. `BadConfig` when they are broken."""
    if not settings.rego:
        yield None
        return
    from parley.adapters.outside.rego import RegoRules

    rules = RegoRules(os.path.abspath(os.path.expanduser(settings.rego)), monotonic)
    rules.start()
    try:
        yield rules
    finally:
        rules.close()


def open_notifier(settings: Settings) -> MailboxNotifier | None:
    """Who carries letters into the mailboxes of a project; None when the settings name no home of mailboxes."""
    if not settings.approvals_home:
        return None
    from parley.adapters.outside.notifier import MailboxNotifier

    return MailboxNotifier(lambda user, letter: _deliver(settings, user, letter))


def approvals_project(settings: Settings) -> str:
    """The project whose mailboxes get letters: as given, else the only one there is."""
    return settings.approvals_project or only_project(os.path.expanduser(settings.approvals_home))


def _deliver(settings: Settings, user: str, letter: Letter) -> bool:
    """Send a letter to a person's folder in the project, if it has one; the sender's folder is made for it."""
    from parley.app.mailbox import sending
    from parley.domain.message.message import Draft, Kind, Priority
    from parley.domain.times import from_stamp

    home = os.path.expanduser(settings.approvals_home)
    project = approvals_project(settings)
    agents = Workspace(home, project).agents()
    if user not in agents:
        return False
    sender = agent_name(settings.approvals_agent)
    if sender not in agents:
        add_agent(home, project, sender)
    kernel = open_kernel(home, project, sender, settings)
    try:
        subject = letter.subject[: settings.limits.subject_chars]
        priority = Priority.P1 if letter.urgent else Priority.P2
        draft = Draft(sender, (user,), Kind.NOTIFICATION, subject, letter.body, priority)
        drive(sending.send(kernel, draft._replace(expires_at=from_stamp(letter.expires_at))))
    finally:
        kernel.close()
    return True


def default_policy() -> Document:
    """The enterprise policy that Parley brings along, readable in `parley/policies/enterprise.yaml`."""
    from parley.domain.rules.policy import DEFAULT_DOCUMENT, Document
    from parley.wire.files.policy import read_policy

    with open(os.path.join(os.path.dirname(__file__), "policies", "enterprise.yaml"), encoding="utf-8") as file:
        text = file.read()
    return Document(text, read_policy(text, f"{DEFAULT_DOCUMENT}.yaml"))


def opencode_plugin() -> str:
    """The plugin for OpenCode that Parley brings along, readable in `parley/plugins/opencode.js`."""
    with open(os.path.join(os.path.dirname(__file__), "plugins", "opencode.js"), encoding="utf-8") as file:
        return file.read()


def backup(data: str, target: str, progress: Callable[[int, int], None]) -> None:
    """Copy the store of a data directory, in use or not, to a file."""
    from parley.adapters.data.directory import store_path_in
    from parley.adapters.sqlite.team import file as team_file

    team_file.copy(store_path_in(data), target, progress)


def restore(source: str, data: str, progress: Callable[[int, int], None], *, force: bool = False) -> None:
    """Put a backup into a data directory that no server holds; what is there already goes only with `force`."""
    from parley.adapters.data.directory import DataDirectory
    from parley.adapters.sqlite.team import file as team_file

    with DataDirectory(data) as directory:
        team_file.restore(source, directory.store_path, progress, force=force)


@asynccontextmanager
async def open_data(data: str) -> AsyncIterator[TeamStore]:
    """The store of a data directory, only to read from it: a server may hold it meanwhile."""
    from parley.adapters.data.directory import store_path_in
    from parley.adapters.sqlite.team.store import SqliteTeamStore
    from parley.domain.store.kinds import KINDS

    store = SqliteTeamStore(store_path_in(data), KINDS, reads_only=True)
    try:
        yield store
    finally:
        await store.close()


def signatures() -> Signatures:
    """Who checks signatures."""
    from parley.adapters.data.signatures import Ed25519Signatures

    return Ed25519Signatures()


def public_key(content: bytes) -> str:
    """The key of an `audit.pub`, in hexadecimal."""
    from parley.adapters.data.signatures import read_public_key

    return read_public_key(content).hex()
