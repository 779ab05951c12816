"""Every error Parley raises on purpose, and the stable code by which callers tell them apart.

    ParleyError                      internal
    ├── Invalid                      invalid            what was given cannot be accepted; `problems` lists why
    │   ├── BadName                  bad_name
    │   │   ├── BadAgentName         bad_agent_name
    │   │   └── BadProjectName       bad_project_name
    │   ├── Unreadable               unreadable         a message file that cannot be trusted to mean one thing
    │   │   ├── NotRegular           not_regular
    │   │   ├── TooLarge             too_large
    │   │   ├── NotText              not_text
    │   │   ├── NotYaml              not_yaml
    │   │   ├── NotAMapping          not_a_mapping
    │   │   ├── AliasForbidden       alias_forbidden
    │   │   ├── TagForbidden         tag_forbidden
    │   │   ├── DuplicateKey         duplicate_key
    │   │   ├── MultiDocument        multi_document
    │   │   ├── TooDeep              too_deep
    │   │   ├── TooManyNodes         too_many_nodes
    │   │   ├── SignatureInvalid     signature_invalid
    │   │   ├── SenderMismatch       from_uid_mismatch
    │   │   ├── ContentChanged       content_changed
    │   │   ├── TooManyTries         too_many_tries
    │   │   └── Unanswerable         unanswerable
    │   └── BadConfig                bad_config
    ├── NotFound                     not_found
    │   ├── UnknownProject           unknown_project
    │   ├── UnknownAgent             unknown_agent
    │   ├── UnknownMessage           unknown_message
    │   └── UnknownSender            unknown_sender     nobody said who is speaking
    ├── Conflict                     conflict
    │   ├── Duplicate                duplicate
    │   ├── Stale                    stale
    │   ├── NameExists               name_exists
    │   ├── ProjectExists            project_exists
    │   ├── AlreadyClaimed           already_claimed
    │   ├── LeaseLost                lease_lost
    │   └── Ambiguous                ambiguous
    ├── Forbidden                    forbidden
    ├── Undelivered                  undelivered        some recipients of a broadcast were refused
    └── Unavailable                  unavailable
        ├── InboxFull                inbox_full
        ├── DiskFull                 disk_full
        ├── Unfinished               unfinished         a file that is still being written
        └── NewerSchema              newer_schema

What only a server meets is in `domain.errors.team`, under the same classes. A class's docstring is its default
message. A code never changes its meaning.
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing import Self

NOTHING: Mapping[str, object] = {}


class Problem(NamedTuple):
    """One thing wrong with one field."""

    code: str
    field: str
    detail: str

    def __str__(self) -> str:
        return f"{self.field}: {self.detail}" if self.field else self.detail


Problem.__module__ = "parley"


class ParleyError(Exception):
    """Something went wrong inside Parley."""

    __module__ = "parley"

    code: str = "internal"

    def __init__(
        self,
        message: str = "",
        *,
        hint: str = "",
        problems: tuple[Problem, ...] = (),
        facts: Mapping[str, object] = NOTHING,
    ) -> None:
        self.message = message or (type(self).__doc__ or "").strip().rstrip(".")
        self.hint = hint
        self.problems = problems
        self.facts = facts  # what a program needs to go on, by name
        super().__init__(self.message)

    @classmethod
    def because(cls, problems: list[Problem]) -> "Self":
        """One error that names everything that is wrong at once."""
        return cls("; ".join(str(problem) for problem in problems), problems=tuple(problems))

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class Invalid(ParleyError):
    """What was given cannot be accepted."""

    __module__ = "parley"

    code = "invalid"


class BadName(Invalid):
    """The name is not allowed."""

    code = "bad_name"


class BadAgentName(BadName):
    """The agent name is not allowed."""

    __module__ = "parley"

    code = "bad_agent_name"


class BadProjectName(BadName):
    """The project name is not allowed."""

    code = "bad_project_name"


class Unreadable(Invalid):
    """The file is not a message that can be trusted to mean one thing."""

    code = "unreadable"


class NotRegular(Unreadable):
    """The file is not a regular file with one name."""

    code = "not_regular"


class TooLarge(Unreadable):
    """The file is larger than a message may be."""

    code = "too_large"


class NotText(Unreadable):
    """The file is not UTF-8 text."""

    code = "not_text"


class NotYaml(Unreadable):
    """The file is not YAML."""

    code = "not_yaml"


class NotAMapping(Unreadable):
    """The file does not hold named fields."""

    code = "not_a_mapping"


class AliasForbidden(Unreadable):
    """Anchors, aliases and merge keys are not allowed."""

    code = "alias_forbidden"


class TagForbidden(Unreadable):
    """YAML tags are not allowed."""

    code = "tag_forbidden"


class DuplicateKey(Unreadable):
    """A field is given twice."""

    code = "duplicate_key"


class MultiDocument(Unreadable):
    """The file holds more than one document."""

    code = "multi_document"


class TooDeep(Unreadable):
    """The fields are nested too deeply."""

    code = "too_deep"


class TooManyNodes(Unreadable):
    """The file holds too many values."""

    code = "too_many_nodes"


class SignatureInvalid(Unreadable):
    """The auth trailer is not the last line in its one spelling."""

    code = "signature_invalid"


class SenderMismatch(Unreadable):
    """The file belongs to another user than the agent it claims to come from."""

    code = "from_uid_mismatch"


class ContentChanged(Unreadable):
    """The file was changed after it had been claimed."""

    code = "content_changed"


class TooManyTries(Unreadable):
    """The message was claimed again and again and never finished."""

    code = "too_many_tries"


class Unanswerable(Unreadable):
    """Its agent could not send an answer"""

    code = "unanswerable"


class BadConfig(Invalid):
    """The configuration cannot be used."""

    code = "bad_config"


class NotFound(ParleyError):
    """There is no such thing."""

    __module__ = "parley"

    code = "not_found"

    @classmethod
    def no_such(cls, thing: str, hint: str = "", **facts: object) -> "Self":
        """An error that says what was not found as a fact, too: clients must not have to read the message."""
        return cls(f"no such {thing}", hint=hint, facts={"missing": thing, **facts})


class UnknownProject(NotFound):
    """There is no such project."""

    __module__ = "parley"

    code = "unknown_project"


class UnknownAgent(NotFound):
    """There is no such agent in this project."""

    __module__ = "parley"

    code = "unknown_agent"


class UnknownMessage(NotFound):
    """There is no such message."""

    __module__ = "parley"

    code = "unknown_message"


class UnknownSender(NotFound):
    """It is not known which agent is acting."""

    code = "unknown_sender"


class Conflict(ParleyError):
    """The state does not allow it."""

    __module__ = "parley"

    code = "conflict"


class Duplicate(Conflict):
    """The id is taken by another message."""

    code = "duplicate"


class Stale(Conflict):
    """Somebody else was faster."""

    code = "stale"


class NameExists(Conflict):
    """The file name is taken by another message."""

    code = "name_exists"


class ProjectExists(Conflict):
    """There is a project of this name already."""

    code = "project_exists"


class AlreadyClaimed(Conflict):
    """Another reader holds this message."""

    code = "already_claimed"


class LeaseLost(Conflict):
    """The lease ran out and the message went to another reader."""

    __module__ = "parley"

    code = "lease_lost"


class Ambiguous(Conflict):
    """More than one message fits."""

    __module__ = "parley"

    code = "ambiguous"


class Forbidden(ParleyError):
    """This is not allowed."""

    __module__ = "parley"

    code = "forbidden"


class Undelivered(ParleyError):
    """Some recipients did not get the message."""

    __module__ = "parley"

    code = "undelivered"
    # What became of the draft, recipient by recipient.
    sent: object = None


class Unavailable(ParleyError):
    """The storage cannot do this now."""

    __module__ = "parley"

    code = "unavailable"


class InboxFull(Unavailable):
    """The recipient's inbox is full."""

    code = "inbox_full"


class DiskFull(Unavailable):
    """The disk is full."""

    code = "disk_full"


class Unfinished(Unavailable):
    """The file is still being written"""

    code = "unfinished"


class NewerSchema(Unavailable):
    """The ledger was written by a newer Parley."""

    code = "newer_schema"
