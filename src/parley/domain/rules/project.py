"""The directory and the policies of a project's mailboxes, read from its files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.agents.party import UNKNOWN_ATTRIBUTES, Attributes, Party
from parley.domain.directory.callers import TENANT_MARK
from parley.domain.errors.rules import CrossEnterpriseBlocked, HumanRequired
from parley.domain.names import is_name
from parley.domain.rules.policy import first_snapshot, with_document
from parley.domain.rules.rulebook import Rulebook

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley.domain.rules.policy import Document, PolicySnapshot
    from parley.domain.rules.suspension import Suspensions


class Directory(NamedTuple):
    """The contents of a project's governance file."""

    tenant: str
    agents: Mapping[str, Attributes]
    # The public half of each person's key.
    humans: Mapping[str, str]
    stopped: Suspensions | None = None


@dataclass(frozen=True, slots=True)
class Governance:
    """The rules of a project at one moment."""

    directory: Directory
    book: Rulebook
    # Whether the project has a governance file; without one, only messages that ask for the rules are governed.
    set_up: bool = True
    parties: dict[str, Party] = field(default_factory=dict)

    @property
    def tenant(self) -> str:
        return self.directory.tenant

    def party(self, agent: str) -> Party:
        """An agent as the directory knows it; one that it does not know has what everybody has."""
        party = self.parties.get(agent)
        if party is None:
            party = self.parties[agent] = Party(agent, self.directory.agents.get(agent, UNKNOWN_ATTRIBUTES))
        return party


def rulebook(tenant: str, built_in: Document, documents: Iterable[tuple[str, Document]]) -> Rulebook:
    """What follows from a project's policy files: they stand beside the built-in one, or in its place."""
    snapshot: PolicySnapshot = first_snapshot(tenant, built_in)
    for name, document in sorted(documents):
        snapshot = with_document(snapshot, name, *document)
    return Rulebook(snapshot)


def person(directory: Directory, public_key: str) -> str:
    """The person whose public key this is."""
    for user, user_key in directory.humans.items():
        if user_key == public_key:
            return user
    raise HumanRequired("this is no person's key", hint="make one with: parley governance add-human USER")


def local(name: str, tenant: str) -> str:
    """The name of an agent here: without the tenant, where one is named. Another tenant's agents cannot be reached."""
    agent, mark, of = name.partition(TENANT_MARK)
    if not mark or not is_name(agent) or not is_name(of):
        return name
    if of != tenant:
        raise CrossEnterpriseBlocked("nothing crosses from one tenant to another")
    return agent
