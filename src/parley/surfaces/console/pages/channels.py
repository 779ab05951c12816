"""Channels, the last active first; one channel with its messages as they come; one message in full."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from parley.surfaces.console.html import address, h, join
from parley.surfaces.console.parts import (
    Filter,
    badge,
    data_table,
    empty,
    fact,
    filter_problem,
    filters,
    fresh,
    moment,
    next_page,
    note,
    presence,
    tag,
)  # fmt: skip
from parley.surfaces.console.periods import HINT, as_time
from parley.surfaces.console.seats import find_seat, seat_filter
from parley.surfaces.console.timeline import json_text, log, message_row, receiver_of
from parley.surfaces.console.visit import ApiRefused, Page

if TYPE_CHECKING:
    from parley.surfaces.console.html import Html
    from parley.surfaces.console.visit import Document, Visit

_MENU = "channels"
PAGE = 50
MESSAGES = 100
_ASKS = 10
_MEMBERS = 24
_FILTERS = (
    Filter("member", "Member", hint="agent"),
    Filter("status", "Status", (("open", "open"), ("closed", "closed"))),
    Filter("intent_id", "Intent", hint="intent_…"),
    Filter("active_since", "Active since", hint=HINT),
)


# ---------------------------------------------------------------- all channels


async def list_page(visit: Visit) -> Page:
    """The channels that the reader may see, the last active first."""
    fields = (*_FILTERS, *seat_filter(visit))
    head = join(h("h1", "Channels"), filters(visit, address("channels"), *fields))
    try:
        channels = await _recent(visit)
    except ApiRefused as refused:
        if refused.status != 422:
            raise
        return Page("Channels", join(head, filter_problem(visit, refused, fields)), _MENU, status=422)
    rows = [_channel_row(visit, channel) for channel in channels]
    table = data_table("Channels", ("Channel", "Newest message", "Messages", "Active"), rows)
    more = next_page(_next_path(visit, channels[-1]), "Less active channels") if len(channels) == PAGE else None
    content = join(head, fresh("channels", table if rows else _no_channels(visit), more))
    return Page("Channels", content, _MENU, every=5)


async def _recent(visit: Visit) -> list[Document]:
    """A page of channels: for a person those of all their agents, or of the one that was chosen."""
    names = ("member", "status", "intent_id", "before", "seat")
    active_since = as_time(visit.query.get("active_since", ""), visit.now)
    fields = {name: visit.query.get(name) for name in names}
    channels: list[Document] = await visit.get("channels", **fields, active_since=active_since, limit=PAGE)
    return channels


def _place_of(channel: Document) -> tuple[str, str]:
    return channel["last_message_at"] or channel["created_at"], channel["id"]


def _next_path(visit: Visit, last: Document) -> str:
    names = ("member", "status", "intent_id", "active_since", "seat")
    return address("channels", **{name: visit.query.get(name) for name in names}, before="/".join(_place_of(last)))


def _channel_row(visit: Visit, channel: Document) -> Html:
    last, seat = channel["last_message"], channel.get("seat") or visit.query.get("seat")
    closed = [" ", tag("closed")] if channel["status"] != "open" else None
    newest = None
    if last:
        newest = [
            h("span", badge(last["sender"]), h("b", last["sender"], dir="auto"), ": ", class_="parties"),
            h("span", last["summary"], dir="auto"),
        ]
    return h(
        "tr",
        h("td", h("a", f"# {channel['name']}", href=address("channels", channel["id"], seat=seat),
                  dir="auto"), closed),
        h("td", newest, class_="newest"),
        h("td", channel["message_count"], class_="number"),
        h("td", moment(channel["last_message_at"] or channel["created_at"], visit.now)),
    )  # fmt: skip


def _no_channels(visit: Visit) -> Html:
    if any(visit.query.get(name) for name in ("member", "status", "intent_id", "active_since")):
        return note("", "No channel matches.")
    words = "No channel yet. The first message that an agent sends creates one, for example:"
    return empty(words, 'parley post bob "Is it done?" --agent alice')


# ---------------------------------------------------------------- one channel


async def detail_page(visit: Visit, channel_id: str) -> Page:
    """A channel: what waits for an answer, who takes part, and its messages."""
    seat = await find_seat(visit, channel_id=channel_id)
    channel: Document = await visit.get("channels", channel_id, seat=seat)
    asks: list[Document] = await visit.get("asks", channel_id=channel_id, state="waiting", limit=_ASKS + 1, seat=seat)
    messages = await _messages(visit, channel_id, seat)
    # The script that only renews the fresh parts has the rows already.
    is_refresh = visit.request.header(b"x-fresh") != ""
    members = list(dict.fromkeys([*channel["members"], *[message["sender"] for message in messages]]))
    content = join(
        h("p", h("a", "Channels", href=address("channels")), class_="crumb"),
        h("header", _heading(channel, await _intent(visit, channel, seat), seat), class_="top"),
        fresh("members", _members(visit, await _agents(visit, members, seat), members)),
        fresh("asks", _asks(visit, asks, seat)),
        None if is_refresh else _timeline(visit, channel, messages, asks, seat),
    )
    return Page(f"# {channel['name']}", content, _MENU, topics=f"channel:{channel_id},agents", seat=seat)


async def _messages(visit: Visit, channel_id: str, seat: str) -> list[Document]:
    """The messages of this page, in order: the newest, or those before or after one."""
    query = visit.query
    if query.get("since"):
        after: list[Document] = await visit.get(
            "channels", channel_id, "messages", since=query["since"], limit=MESSAGES, seat=seat
        )
        return after
    newest: list[Document] = await visit.get(
        "channels", channel_id, "messages", order="desc", before=query.get("before"), limit=MESSAGES, seat=seat
    )
    return newest[::-1]


async def _intent(visit: Visit, channel: Document, seat: str) -> str:
    try:
        intent: Document = await visit.get("intents", channel["intent_id"], seat=seat)
    except ApiRefused:
        return ""
    return str(intent["title"])


async def _agents(visit: Visit, names: list[str], seat: str) -> dict[str, Document]:
    """The records of those that are registered."""
    if not names:
        return {}
    agents: list[Document] = await visit.get("agents", names=",".join(names[:_MEMBERS]), seat=seat)
    return {agent["agent_id"]: agent for agent in agents}


def _heading(channel: Document, intent: str, seat: str) -> Html:
    count = channel["message_count"]
    facts = [f"{count:,} message{'' if count == 1 else 's'}", *([f"intent {intent}"] if intent else [])]
    return join(
        h("h1", f"# {channel['name']}", dir="auto"),
        h("span", " · ".join(facts), class_="muted", dir="auto"),
        tag(channel["status"]) if channel["status"] != "open" else None,
        h("span", f"as {seat} sees it", class_="tag", dir="auto") if seat else None,
    )


def _members(visit: Visit, agents: dict[str, Document], names: list[str]) -> Html:
    shown = [h("li", _member(visit, name, agents.get(name))) for name in names[:_MEMBERS]]
    more = len(names) - _MEMBERS
    rest = h("li", f"and {more:,} more", class_="muted") if more > 0 else None
    return h("ul", shown, rest, class_="members", aria_label="Who takes part")


def _member(visit: Visit, name: str, agent: Document | None) -> Html:
    who = [badge(name), h("span", name, dir="auto")]
    if agent is None:
        return h("span", who, class_="member")
    return h("a", who, presence(agent, visit.now), href=address("agents", name), class_="member")


def _asks(visit: Visit, asks: list[Document], seat: str) -> Html | None:
    if not asks:
        return None
    count = f"{_ASKS} or more requests wait" if len(asks) > _ASKS else None
    count = count or ("1 request waits" if len(asks) == 1 else f"{len(asks)} requests wait")
    rows = [h("li", _ask(visit, ask, seat)) for ask in asks[:_ASKS]]
    return h("section", h("h2", f"{count} for an answer"), h("ul", rows, class_="asks"), class_="note warn")


def _ask(visit: Visit, ask: Document, seat: str) -> Html:
    path = address("channels", ask["channel_id"], "messages", ask["message_id"], seat=seat)
    who = ask["forwarded_to"] or ask["to"]
    left = [", ", moment(ask["until"], visit.now)] if ask["until"] else None
    return join(
        h("b", ask["sender"], dir="auto"), " asked ", h("b", who, dir="auto"), " ",
        moment(ask["asked_at"], visit.now), left, ": ",
        h("a", ask["summary"] or "show", href=path, dir="auto"),
    )  # fmt: skip


def _timeline(visit: Visit, channel: Document, messages: list[Document], asks: list[Document], seat: str) -> Html:
    waiting = {ask["message_id"]: ask["forwarded_to"] or ask["to"] for ask in asks}
    rows = [message_row(visit, message, seat, waits_for=waiting.get(message["id"], "")) for message in messages]
    channel_id, is_newest = channel["id"], not (visit.query.get("before") or visit.query.get("since"))
    first, last = (messages[0]["seq"], messages[-1]["seq"]) if messages else (0, 0)
    older = h("p", h("a", "Older messages", href=address("channels", channel_id, before=str(first), seat=seat),
                     class_="button", rel="next", id="older"), hidden=first <= 1)  # fmt: skip
    newer = None
    if not is_newest:
        following = address("channels", channel_id, since=str(last), seat=seat)
        links = [h("a", "Newer messages", href=following, class_="button")] if messages else []
        newest = h("a", "To the newest", href=address("channels", channel_id, seat=seat), class_="button")
        newer = h("p", links, newest, class_="buttons")
    nothing = None
    if not messages:
        nothing = _nothing(channel, is_newest=is_newest)
    return join(nothing, log(rows, last=last if is_newest else None, seat=seat, older=older, newer=newer))


def _nothing(channel: Document, *, is_newest: bool) -> Html:
    if not is_newest:
        return note("", "No more messages are kept here.")
    words = "Nobody has spoken here that you may hear. What is said appears here at once, for example:"
    name, intent, agent = (quote(channel[key]) for key in ("name", "intent_id", "created_by"))
    line = f"parley post {name} 'Hello' --intent {intent} --agent {agent}"
    return h("div", empty(words, line), id="nothing")


# ---------------------------------------------------------------- one message


async def message_page(visit: Visit, channel_id: str, message_id: str) -> Page:
    """One message in full, with its request or its answers."""
    seat = await find_seat(visit, channel_id=channel_id, message_id=message_id)
    message: Document = await visit.get("channels", channel_id, "messages", message_id, seat=seat)
    channel: Document = await visit.get("channels", channel_id, seat=seat)
    request = await _request(visit, message, seat)
    place = address("channels", channel_id, since=str(max(message["seq"] - 10, 0)), seat=seat)
    rows: list[Html] = [
        fact("Channel", h("a", f"# {channel['name']}", href=address("channels", channel_id, seat=seat), dir="auto")),
        fact("Among its neighbours", h("a", "Show the messages around it", href=place)),
        fact("Sent", moment(message["created_at"], visit.now)),
        fact("Status", message["status"]),
        fact("Place in the channel", message["seq"]),
        fact("Message", h("code", message["id"])),
    ]
    if message["expires_at"]:
        rows.append(fact("Can be answered" if request else "Expires", moment(message["expires_at"], visit.now)))
    if request:
        rows.append(fact("Request", request["state"].replace("_", " ")))
        rows += [fact("Answer", _link(channel_id, answer, seat)) for answer in request["answers"]]
    content = join(
        h("p", h("a", f"# {channel['name']}", href=address("channels", channel_id, seat=seat), dir="auto"),
          class_="crumb"),
        h("h1", f"{message['sender']} to {receiver_of(message) or 'everyone in the channel'}", dir="auto"),
        h("ol", message_row(visit, message, seat, is_whole=True), class_="messages single"),
        h("details", h("summary", "As JSON, to the letter"), h("pre", json_text(message["payload"]), dir="auto")),
        h("dl", rows, class_="facts"),
    )  # fmt: skip
    return Page("Message", content, _MENU)


def _link(channel_id: str, message_id: str, seat: str) -> Html:
    return h("a", message_id, href=address("channels", channel_id, "messages", message_id, seat=seat))


async def _request(visit: Visit, message: Document, seat: str) -> Document | None:
    if message["message_type"] != "request":
        return None
    try:
        request: Document = await visit.get(
            "channels", message["channel_id"], "messages", message["id"], "request", seat=seat
        )
    except ApiRefused:
        return None
    return request
