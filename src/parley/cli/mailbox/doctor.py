"""`parley doctor`: check a project for problems and fix what can be fixed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from parley.adapters.files.checkup import CheckupFinding, examine
from parley.adapters.files.workspace import Workspace
from parley.app.mailbox import claims, read, sweep
from parley.cli.command import Command, add_mailbox_options, screen_of, settings_of
from parley.cli.exits import FOUND_PROBLEMS, OK
from parley.cli.output import Screen, count_of, safe
from parley.cli.parts.sandbox import sandbox_hint
from parley.domain.errors.errors import ParleyError
from parley.domain.mailbox.delivery import Status, lease_over
from parley.wiring import Kernel, drive, find_home, find_project, open_kernel, read_card

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from parley.settings import Settings

# How many bad files of one sort are named for each agent.
_FILES_NAMED = 20
_COLOURS = {"fail": "red", "warn": "yellow", "note": "dim"}


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fix", action="store_true", help="fix what can be fixed without losing data")
    add_mailbox_options(parser, agent=False)


def _doctor(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    home = find_home(settings).value
    workspace = Workspace(home, find_project(settings, home).value)
    workspace.open().close()
    findings = list(_project_findings(workspace, settings))
    fixed = [finding for finding in findings if args.fix and finding.fix is not None and _fix(finding)]
    left = [finding for finding in findings if finding not in fixed]
    screen = screen_of(args)
    if args.json:
        screen.json([{**_fields(finding), "mended": finding in fixed} for finding in findings])
    else:
        _show_findings(screen, workspace, findings, fixed)
    return FOUND_PROBLEMS if any(finding.level != "note" for finding in left) else OK


def _fields(finding: CheckupFinding) -> dict[str, object]:
    return {
        "level": finding.level,
        "code": finding.code,
        "agent": finding.agent,
        "detail": finding.detail,
        "can_fix": finding.fix is not None,
    }


def _fix(finding: CheckupFinding) -> bool:
    try:
        if finding.fix is not None:
            finding.fix()
    except ParleyError:
        return False
    return True


def _show_findings(
    screen: Screen, workspace: Workspace, findings: list[CheckupFinding], fixed: list[CheckupFinding]
) -> None:
    agents = workspace.agents()
    screen.prose(f"Project {workspace.project} in {safe(workspace.home)}: {count_of(len(agents), 'agent')}")
    for finding in findings:
        level = "fixed" if finding in fixed else finding.level
        hint = " (to fix it: parley doctor --fix)" if finding.fix is not None and finding not in fixed else ""
        colour = _COLOURS.get(level, "green")
        screen.prose(
            f"{screen.paint(f'{level:<5}', colour)}  {finding.code:<14} {finding.agent}: {safe(finding.detail)}{hint}",
            indent=" " * 7,
        )
    if not findings:
        screen.prose("No problems.", "green")


def _project_findings(workspace: Workspace, settings: Settings) -> Iterator[CheckupFinding]:
    names = workspace.folders()
    if not names:
        yield CheckupFinding("note", "no_agents", "-", "the project has no agents; add one with: parley agent add NAME")
    for name in names:
        try:
            yield from _agent_findings(workspace, name, settings)
        except ParleyError as error:
            yield CheckupFinding("fail", error.code, name, error.message)
    yield from _setup_findings(workspace, names, settings)


def _setup_findings(workspace: Workspace, names: list[str], settings: Settings) -> Iterator[CheckupFinding]:
    """Which agents will not notice a message by themselves, though their program is installed here."""
    if not settings.repository:
        return
    from shutil import which

    from parley.cli.attention.setup import TOOLS_ADDED, claude_tools, is_set_up, tools_step
    from parley.surfaces.hook.events import HARNESSES

    for name in names:
        harness = read_card(workspace.agent(name)).get("runtime", "").lower() or name
        if harness in HARNESSES and which(harness) and not is_set_up(settings.repository, harness):
            detail = f"does not notice its messages by itself; set it up with: parley setup {harness}"
            yield CheckupFinding("note", "not_set_up", name, detail)
        elif harness in HARNESSES and which(harness):
            tools = claude_tools(settings.repository, settings) if harness == "claude" else TOOLS_ADDED
            if tools != TOOLS_ADDED:
                yield CheckupFinding(
                    "note", "tools", name, f"the tools of Claude Code are {tools}. {tools_step(tools)}"
                )
            yield CheckupFinding("note", "wake", name, _wake_detail(workspace, name, harness, settings))


def _wake_detail(workspace: Workspace, name: str, harness: str, settings: Settings) -> str:
    """Whether an idle session of a coding agent that is set up will be woken."""
    from parley.domain.mailbox.wake import WAKEABLE
    from parley.wiring import notices_messages

    if harness not in WAKEABLE:
        return f"cannot be woken while it is idle; without a person, use: parley run {harness}"
    if settings.wake == "never":
        return "is not woken while it is idle: the setting wake is never"
    if not notices_messages(workspace.home, workspace.project, name):
        trust = " and choose Trust when it asks about hooks" if harness == "codex" else ""
        return f"will be woken while it is idle, but no session has run its hooks yet; start {harness}{trust}"
    return "is woken while it is idle"


def _agent_findings(workspace: Workspace, name: str, settings: Settings) -> Iterator[CheckupFinding]:
    folder = workspace.agent(name)
    kernel = open_kernel(workspace.home, workspace.project, name, settings)
    if os.access(folder.path, os.W_OK):
        yield from examine(folder, kernel.clock.now().at.timestamp())
    else:
        hint = sandbox_hint(settings, folder.path)
        detail = f"this user cannot write to {folder.path}"
        yield CheckupFinding("warn", "read_only", name, f"{detail}; {hint}" if hint else detail)
        if not os.access(f"{folder.path}/inbox", os.R_OK | os.X_OK):
            return
    inbox = f"{folder.path}/inbox"
    if os.path.isdir(inbox) and not os.path.islink(inbox):
        yield from _mailbox_findings(kernel)


def _mailbox_findings(kernel: Kernel) -> Iterator[CheckupFinding]:
    """Check the inbox and the ledger."""
    items = drive(read.inbox(kernel))
    expired = sum(1 for item in items if item.expired)
    if expired:
        count = count_of(expired, "message")
        yield CheckupFinding(
            "note", "expired", kernel.agent, f"{count} expired; expired messages stay until you finish them"
        )
    bad = [item for item in items if item.problem]
    for item in bad[:_FILES_NAMED]:
        then = "leaves it alone" if item.status == "unfinished" else "moves it to dead_letter/"
        yield CheckupFinding("warn", item.status, kernel.agent, f"{item.file}: {item.problem}; `parley next` {then}")
    yield from _count_of_others(kernel, "unreadable", len(bad))
    dead = drive(read.dead_letters(kernel))
    for refused in dead[:_FILES_NAMED]:
        detail = f"{refused.file}: {refused.problem}; correct it and move it to inbox/, or delete it with its reason"
        yield CheckupFinding("warn", "dead_letter", kernel.agent, detail)
    yield from _count_of_others(kernel, "dead_letter", len(dead))
    store = kernel.store_if_any
    if store is None:
        return
    if drive(store.deliveries(Status.PENDING)):
        yield CheckupFinding(
            "warn", "pending_send", kernel.agent, "a send was interrupted", lambda: drive(sweep.sweep(kernel))
        )
    now = kernel.clock.now()
    for claim in drive(store.deliveries(Status.CLAIMED)):
        if claim.lease is not None and lease_over(claim.lease, now):
            message_id = claim.key.message_id
            detail = f"{message_id} was claimed until {claim.lease.until} and never finished"
            yield CheckupFinding("warn", "stale_claim", kernel.agent, detail, _releaser(kernel, claim.file))


def _count_of_others(kernel: Kernel, code: str, count: int) -> Iterator[CheckupFinding]:
    if count > _FILES_NAMED:
        yield CheckupFinding("warn", code, kernel.agent, f"and {count_of(count - _FILES_NAMED, 'more file')}")


def _releaser(kernel: Kernel, file: str) -> Callable[[], None]:
    def release() -> None:
        drive(claims.release(kernel, file))

    return release


COMMANDS = {
    "doctor": Command(
        "Check a project for problems; --fix repairs them",
        _add_arguments,
        _doctor,
        ("parley doctor", "parley doctor --fix --project demo"),
    ),
}
