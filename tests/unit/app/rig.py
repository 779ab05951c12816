"""Kernels over real files and memory ledgers, with a clock that only tests move."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from parley.adapters.data.signatures import Ed25519Signatures
from parley.adapters.files import layout
from parley.adapters.files.courier import FileCourier
from parley.adapters.files.governance import GovernanceFiles
from parley.adapters.files.inbox import FileInbox
from parley.adapters.files.receipts.folder import FileReceipts
from parley.adapters.files.workspace import Workspace
from parley.app.mailbox import claims, sending
from parley.app.mailbox.kernel import Kernel, drive
from parley.domain.limits import DEFAULT_LIMITS, Limits
from parley.domain.mailbox.listing import Claimed, Sent
from parley.domain.message.message import Kind
from parley.domain.times import Instant
from parley.wire.oacp.envelope import OacpEnvelopes
from parley.wire.oacp.format import OacpFormat
from parley.wiring import default_policy, public_key_of
from tests.rigs.memory_store import MemoryStore
from tests.samples.messages import NOW, a_draft

PROJECT = "demo"
HALF_AN_HOUR = timedelta(minutes=30)
# The keys of the people whom claude and codex act for.
ANN, BEN = "pk_ann", "pk_ben"
# claude and codex are of one org unit, gemini of another.
GOVERNANCE = f"""\
tenant: acme
agents:
  claude:
    user_id: ann
    org_unit: engineering
    max_classification: confidential
  codex:
    user_id: ben
    org_unit: engineering
  gemini:
    user_id: gil
    org_unit: sales
humans:
  ann: {public_key_of(ANN)}
  ben: {public_key_of(BEN)}
"""


class FakeClock:
    """Time passes when a test says so; the wall can be set apart from it."""

    def __init__(self, at: datetime = NOW) -> None:
        self.at = at
        self.boot = "boot-1"
        self.uptime = 1_000.0

    def now(self) -> Instant:
        return Instant(self.at, self.boot, self.uptime)

    def pass_by(self, **span: float) -> None:
        """Let time go by, on the wall and since boot."""
        length = timedelta(**span)
        self.at += length
        self.uptime += length.total_seconds()


class Ids:
    """Chosen suffixes first, then counted ones; tokens are counted."""

    def __init__(self, *suffixes: str) -> None:
        self._suffixes = iter(suffixes)
        self._count = itertools.count(1)

    def suffix(self, length: int) -> str:
        chosen = next(self._suffixes, "")
        return chosen[:length].ljust(length, "0") if chosen else f"{next(self._count):0{length}d}"

    def token(self) -> str:
        return f"{next(self._count):08x}".ljust(32, "0")

    def ulid(self) -> str:
        return f"{next(self._count):026d}"

    def secret(self) -> str:
        return f"{next(self._count):043d}"


@dataclass
class Rig:
    """One project on a temporary folder; each agent's ledger lives as long as the rig."""

    folder: Path
    clock: FakeClock = field(default_factory=FakeClock)
    ids: Ids = field(default_factory=Ids)
    stores: dict[str, MemoryStore] = field(default_factory=dict)
    opened: list[Kernel] = field(default_factory=list)
    rules: dict[Limits, GovernanceFiles] = field(default_factory=dict)

    def kernel(
        self, agent: str, *, ids: Ids | None = None, limits: Limits = DEFAULT_LIMITS, enforce_owner: bool = False
    ) -> Kernel:
        """What a new process of `agent` would work with."""
        workspace = Workspace(str(self.folder), PROJECT)
        store = self.stores.setdefault(agent, MemoryStore())
        files = self.rules.setdefault(limits, GovernanceFiles(workspace, default_policy, limits))
        kernel = Kernel(
            agent,
            open_store=lambda: store,
            has_store=lambda: True,
            open_courier=lambda: FileCourier(workspace, agent, limits),
            inbox=FileInbox(workspace, workspace.agent(agent), limits),
            format=OacpFormat(limits),
            clock=self.clock,
            ids=ids or self.ids,
            limits=limits,
            enforce_owner=enforce_owner,
            is_governed=files.is_set_up,
            open_rules=lambda: (files, OacpEnvelopes(limits)),
            open_signatures=Ed25519Signatures,
            open_receipts=lambda: FileReceipts(workspace, workspace.agent(agent)),
        )
        self.opened.append(kernel)
        return kernel

    def govern(self, text: str = "", **policies: str) -> None:
        """Put the project under rules: `text` is its governance file, each policy `scope__name` a document's keys."""
        folder = self.folder / "projects" / PROJECT / ".parley"
        folder.mkdir(mode=0o750, exist_ok=True)
        _put(folder / "governance.yaml", text or GOVERNANCE)
        for name, keys in policies.items():
            path = folder / "policies" / f"{name.replace('__', '/')}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            _put(path, "agent-to-agent:\n" + "".join(f"  {line}\n" for line in keys.split("; ")))

    def audits(self, agent: str) -> list[dict[str, Any]]:
        """What an agent's own audit chain says, in order."""
        return [json.loads(one.document) for one in drive(self.stores[agent].audits(0, 1_000))]

    def outcomes(self, agent: str) -> list[str]:
        """The outcome, and the code of a refusal, of each entry of an agent's audit chain."""
        return [" ".join(filter(None, (one.get("outcome"), one.get("code")))) for one in self.audits(agent)]

    def path(self, agent: str, place: str = "inbox") -> Path:
        return self.folder / "projects" / PROJECT / "agents" / agent / place

    def files(self, agent: str, place: str = "inbox") -> list[str]:
        return sorted(path.name for path in self.path(agent, place).glob("*.yaml"))

    def send(self, kind: Kind = Kind.TASK_REQUEST, *, ids: Ids | None = None, **changes: object) -> Sent:
        """claude sends codex a message, unless the changes say otherwise."""
        draft = a_draft(kind, **changes)
        return drive(sending.send(self.kernel(draft.sender, ids=ids), draft))

    def actions(self, agent: str) -> list[str]:
        """What the agent's ledger says has happened, in order."""
        return [written.entry.action for written in drive(self.stores[agent].entries(0, 1_000))]

    def close(self) -> None:
        for kernel in self.opened:
            kernel.close()


def _put(path: Path, text: str) -> None:
    """Another file under this name: one that is written over may look the same for some milliseconds."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o640)
    new.replace(path)


def a_rig(folder: Path, agents: Iterable[str] = ("claude", "codex", "gemini")) -> Rig:
    layout.create_project(str(folder), PROJECT, agents, at=NOW)
    return Rig(folder)


def claimed(kernel: Kernel, length: timedelta | None = HALF_AN_HOUR) -> Claimed:
    """The next message, which must be there."""
    found = drive(claims.claim_next(kernel, length))
    assert found is not None
    return found


def drained(kernel: Kernel) -> Iterator[Claimed]:
    """Every message that `next` hands out, each finished before the next one."""
    while (found := drive(claims.claim_next(kernel, HALF_AN_HOUR))) is not None:
        drive(claims.done(kernel, found.message.id))
        yield found
