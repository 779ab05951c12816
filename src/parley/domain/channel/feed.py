"""The feed of streams and webhooks, in order of position."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from parley.domain.channel.event import Event
    from parley.domain.channel.post import Post
    from parley.domain.exchange.notice import Notice


class FeedItem(NamedTuple):
    """One item of the feed, at its position: a post, an event, or a notice, which has positions of its own."""

    position: int
    intent_id: str
    channel_id: str
    post: Post | None = None
    event: Event | None = None
    notice: Notice | None = None

    @property
    def size(self) -> int:
        """The bytes of its content."""
        if self.post is not None:
            return len(self.post.payload) + len(self.post.metadata)
        return len(self.event.document) if self.event is not None else 0

    @classmethod
    def of_post(cls, post: Post) -> FeedItem:
        return cls(post.position, post.intent_id, post.channel_id, post=post)

    @classmethod
    def of_event(cls, event: Event) -> FeedItem:
        return cls(event.position, event.intent_id, "", event=event)

    @classmethod
    def of_notice(cls, position: int, notice: Notice) -> FeedItem:
        return cls(position, "", "", notice=notice)
