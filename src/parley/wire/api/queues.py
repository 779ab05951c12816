"""Jobs and queues as JSON; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Raw, Struct

from parley.domain.channel.bookmark import Start
from parley.domain.channel.job import ERROR_MAX_CHARS
from parley.domain.channel.post import status_of
from parley.domain.store.limits import LONG_POLL_MAX_SECONDS
from parley.wire.api.channels import posted
from parley.wire.api.records.queues import ClaimedJob, DeadLetter
from parley.wire.api.records.record import fill_record

if TYPE_CHECKING:
    from parley.domain.channel.job import Job as StoredJob
    from parley.domain.channel.post import Post

LeaseSeconds = Annotated[float, Meta(ge=1, le=3600, description="How long the lease lasts without being extended.")]


class FinishedJob(Struct, forbid_unknown_fields=True):
    """A job that is done and needs no answer."""

    id: Annotated[str, Meta(min_length=1, max_length=256)]
    lease: Annotated[str, Meta(min_length=1, max_length=64)]


class ClaimIn(Struct, forbid_unknown_fields=True):
    """What to claim: the oldest jobs of the agent's own queue and of its roles."""

    max: Annotated[int, Meta(ge=1, le=100, description="At most so many jobs, and 1 MiB of messages.")] = 1
    wait: Annotated[
        float, Meta(ge=0, le=LONG_POLL_MAX_SECONDS, description="How many seconds to wait for the first.")
    ] = 0.0
    lease_seconds: LeaseSeconds = 30.0
    shared: Annotated[
        bool, Meta(description="The processes of the agent share its mail: what is for the agent becomes jobs.")
    ] = False
    start: Annotated[Start, Meta(description="Where shared mail begins, the first time.")] = Start.UNANSWERED
    process: Annotated[
        str, Meta(max_length=128, description="The process that asks; its claims end when it gives a job back.")
    ] = ""
    intent_id: Annotated[str, Meta(max_length=64, description="Only jobs of this intent.")] = ""
    done: Annotated[
        list[FinishedJob],
        Meta(max_length=100, description="Jobs that the agent has finished: they end in the commit of the claim."),
    ] = []


class ClaimPatch(Struct, forbid_unknown_fields=True):
    """What becomes of a claimed job: it is kept (`claimed`, which extends its lease), done, failed, or released."""

    lease: Annotated[str, Meta(min_length=1, max_length=64)]
    status: Literal["claimed", "done", "failed", "released"] = "claimed"
    lease_seconds: LeaseSeconds = 30.0
    error: Annotated[str, Meta(max_length=ERROR_MAX_CHARS, description="Why it failed.")] = ""
    retry_in: (
        Annotated[float, Meta(ge=0, le=30 * 86_400, description="Failed: seconds until the next try; null: none.")]
        | None
    ) = None


class DeadLetterIn(Struct, forbid_unknown_fields=True):
    """Something on an agent's stream that the agent could not deal with."""

    position: Annotated[int, Meta(ge=1, le=2**40 - 1, description="Its place, as the id of an event says it.")]
    error: Annotated[str, Meta(max_length=ERROR_MAX_CHARS, description="Why.")] = ""
    attempts: Annotated[int, Meta(ge=1, description="How often it was tried.")] = 1


def claimed_of(stored: StoredJob, event: str, data: bytes) -> ClaimedJob:
    return fill_record(ClaimedJob, stored, event=event, data=Raw(data))


def letter_of(stored: StoredJob, post: Post | None, now: str) -> DeadLetter:
    message = None if post is None else Raw(posted(post, status_of(post, "", now)))
    return fill_record(DeadLetter, stored, message=message)
