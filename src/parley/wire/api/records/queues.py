"""Jobs and queues in API responses."""

from typing import Annotated

from msgspec import Meta, convert

from parley.wire.api.records.channels import ChannelMessage
from parley.wire.api.records.record import Mapping, Record, Timestamp, repr_without


class Job(Record, frozen=True, kw_only=True):
    """A message that one of several readers has to process: waiting, claimed or dead."""

    __module__ = "parley"

    id: str
    queue: Annotated[str, Meta(description="any:ROLE, or the agent whose processes share its mail.")]
    state: str
    item_id: Annotated[str, Meta(description="The id of the message or event.")]
    position: int
    sender: str | None = None
    channel_id: str | None = None
    attempts: Annotated[int, Meta(description="How often it was claimed.")]
    lost_readers: Annotated[int, Meta(description="How many leases ran out.")]
    holder: str | None = None
    process: Annotated[str | None, Meta(description="The process of the holder.")] = None
    until: Annotated[Timestamp | None, Meta(description="When its lease ends.")] = None
    not_before: Annotated[Timestamp | None, Meta(description="Nobody gets it before this time.")] = None
    error: str | None = None
    queued_at: Timestamp
    changed_at: Timestamp


class ClaimedJob(Job, frozen=True, kw_only=True):
    """A job with its lease and its message. Whoever names the lease has the job."""

    __module__ = "parley"

    lease: str
    lease_seconds: float
    event: Annotated[str, Meta(description="What it is, as on the agent's stream: channel_message, agent_assigned.")]
    data: Annotated[Mapping, Meta(description="The message or event, as on the agent's stream.")]

    @property
    def message(self) -> ChannelMessage:
        """The message; only for `event` "channel_message"."""
        return convert(self.data, ChannelMessage)

    def __repr__(self) -> str:
        return repr_without("lease", self)


class DeadLetter(Job, frozen=True, kw_only=True):
    """A job that nobody could finish, with its message as far as that is still kept."""

    __module__ = "parley"

    message: ChannelMessage | None = None


class QueueCounts(Record, frozen=True, kw_only=True):
    """How many jobs a queue has. `done` counts since the start of the server that answers."""

    __module__ = "parley"

    queue: str
    waiting: int
    claimed: int
    done: int
    dead: int
