# Written by tools/gen_client.py from sdk/client/timers.py. Change that, then run: make docs
"""Timers: messages that are posted later."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from parley.domain.errors.errors import Invalid
from parley.sdk.blocking.area import Area
from parley.sdk.client.fields import NOTHING, timestamp_of, without_none
from parley.sdk.protocol.flow import as_payload, some_seconds
from parley.wire.api.records.channels import Timer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from parley.sdk.client.fields import Moment


class Timers(Area):
    """What a client does with timers."""

    def schedule_message(  # noqa: PLR0913  # what `send_message` takes, and when
        self,
        channel_id: str,
        sender: str | None = None,
        to: str | None = None,
        message_type: str = "notify",
        payload: object = NOTHING,
        expires_at: Moment | None = None,
        *,
        deliver_at: Moment | None = None,
        after: float | timedelta | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Timer:
        """Post a message later: at a time, or `after` some seconds by the server's clock; on return it is durable.

        It is posted exactly once and never early, under the id `message_id` of the result. The rules judge it now and
        at its moment; when it is refused then, the timer says why, and you get a message from `system`.
        """
        if (deliver_at is None) == (after is None):
            raise Invalid("when is it to be posted?", hint="give deliver_at= or after=, one of them")
        seconds = after.total_seconds() if isinstance(after, timedelta) else after
        body = without_none(sender=sender, to=to, message_type=message_type, payload=as_payload(payload))
        body |= without_none(expires_at=timestamp_of(expires_at), metadata=metadata)
        body |= without_none(deliver_at=timestamp_of(deliver_at))
        body |= {} if seconds is None else {"after_seconds": some_seconds("after", seconds)}
        return self._fetch(Timer, "POST", "channels", channel_id, "timers", body=body)

    def list_timers(self) -> list[Timer]:
        """Your timers that are not over, the next one first; also those that were refused in the last week."""
        return sorted(self._fetch(list[Timer], "GET", "timers"), key=lambda timer: timer.deliver_at)

    def get_timer(self, timer_id: str) -> Timer:
        """A timer that is not over."""
        return self._fetch(Timer, "GET", "timers", timer_id)

    def cancel_timer(self, timer_id: str) -> None:
        """Cancel a timer. Raises `NotFound` when its message was posted, or it was cancelled before."""
        self.connection.send("DELETE", "timers", timer_id)
