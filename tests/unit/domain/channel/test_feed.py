from parley.domain.channel.event import Event
from parley.domain.channel.feed import FeedItem
from parley.domain.exchange.notice import Notice, NoticeType

AT = "2026-03-13T14:30:00Z"


def test_an_event_stands_at_its_position_in_no_channel() -> None:
    event = Event(7, "intent_1", 1, "evt_1", "state_patched", "ann", AT, "", b"{}", "h")

    item = FeedItem.of_event(event)

    assert (item.position, item.intent_id, item.channel_id) == (7, "intent_1", "")
    assert (item.post, item.event, item.notice) == (None, event, None)


def test_a_notice_has_a_position_of_its_own_and_no_intent() -> None:
    notice = Notice("aud_1", NoticeType.PENDING, AT)

    item = FeedItem.of_notice(3, notice)

    assert (item.position, item.intent_id, item.channel_id) == (3, "", "")
    assert (item.post, item.event, item.notice) == (None, None, notice)
