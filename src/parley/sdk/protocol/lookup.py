"""Find things on a server by their names: flows that turn a title, a name or the end of an id into the id.

An id in full costs no request. Anything else costs one, and one more for the similar names in an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from parley.domain.errors.errors import Ambiguous, NotFound
from parley.domain.hashes import digest
from parley.domain.lookup import Candidate, Noun, is_id, list_candidates, pick, unknown
from parley.sdk.protocol.flow import encoded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley.sdk.protocol.flow import ApiSession, Flow

DEFAULT_INTENT = "default"
# In the path of a message, the default intent: the server finds it.
UNNAMED_INTENT = "-"
# Direct channels of two agents are on intents of the server itself.
_SERVER = "system"
_PAGE = 500
_ENDED = ("completed", "abandoned")

INTENT = Noun("intent", "intent", "parley intent list")
CHANNEL = Noun("channel", "chan", "parley channel list")
MESSAGE = Noun("message", "msg", "parley messages CHANNEL")


class FoundIntent(NamedTuple):
    """An intent that was found, and whether it was created for that."""

    id: str
    title: str
    created_by: str = ""
    is_new: bool = False


class Collection(NamedTuple):
    """Things that a server lists at one path: what they are called, which fields hold their id and their names."""

    noun: Noun
    path: str
    id_field: str = "id"
    name_fields: tuple[str, ...] = ()
    note_field: str = ""
    # A field that is set once the thing is over.
    end_field: str = ""
    # Whether the list comes in pages, each after the last id of the one before.
    has_pages: bool = False
    # The field that holds that id, where it is another one.
    page_field: str = ""


KEYS = Collection(
    Noun("key", "key", "parley key list"), "keys", "id", ("agent_id", "user_id"), "kind", end_field="revoked_at"
)
SESSIONS = Collection(Noun("sign-in", "sess", "parley session list"), "sessions", note_field="user_id", has_pages=True)
TIMERS = Collection(Noun("timer", "timer", "parley timer list"), "timers", note_field="deliver_at")
DEAD_LETTERS = Collection(Noun("dead letter", "msg", "parley dead list"), "dead", note_field="queue", has_pages=True)
APPROVALS = Collection(
    Noun("approval", "appr", "parley approvals list"), "approvals", note_field="status", has_pages=True
)
EXCHANGES = Collection(
    Noun("exchange", "exch", "parley exchange list"), "exchanges", "exchangeId", note_field="outcome", has_pages=True
)

CONVERSATIONS = Collection(
    Noun("conversation", "conv", "parley exchange list"),
    "exchanges",
    "conversationId",
    has_pages=True,
    page_field="exchangeId",
)


def find_intent(session: ApiSession, text: str) -> Flow[FoundIntent]:
    """The intent of this id, title or end of an id. Of several with one title, the one that is not over."""
    if is_id(text, INTENT.prefix):
        return FoundIntent(text, text)
    answer = yield from session.send("GET", "intents", query={"name": text, "limit": _PAGE})
    intents = answer.document["intents"]
    if not intents:
        answer = yield from session.send("GET", "intents", query={"limit": _PAGE})
        titles = (intent["title"] for intent in answer.document["intents"])
        raise unknown(INTENT, text, titles, where=" that you can see")
    chosen = pick(INTENT, text, [_intent_candidate(intent) for intent in intents])
    return FoundIntent(chosen.id, chosen.names[0])


def _intent_candidate(intent: Mapping[str, Any]) -> Candidate:
    note = f"{intent['status']}, by {intent['created_by']}"
    return Candidate(intent["id"], (intent["title"],), note, is_over=intent["status"] in _ENDED)


def find_default_intent(
    session: ApiSession, *, create: bool, hint: str = "add --intent TITLE, or set PARLEY_INTENT"
) -> Flow[FoundIntent]:
    """The intent that is meant where none is named: the only active one, else the one with the title `default`.

    With `create` it is created where there is none at all. It is closed: its creator takes part, and lets others in.
    `hint` is how to name one where there are several.
    """
    answer = yield from session.send("GET", "intents", query={"status": "active", "limit": _PAGE})
    intents = [intent for intent in answer.document["intents"] if intent["created_by"] != _SERVER]
    named = [intent for intent in intents if intent["title"] == DEFAULT_INTENT]
    chosen = named if len(intents) > 1 and named else intents
    if len(chosen) == 1:
        return FoundIntent(chosen[0]["id"], chosen[0]["title"], chosen[0]["created_by"])
    if chosen:
        titles = list_candidates([_intent_candidate(intent) for intent in chosen])
        raise Ambiguous(f"no intent given, and you can see {len(chosen)}: {titles}", hint=hint)
    if not create:
        raise NotFound("no intent that you can see", hint="create one with: parley intent create TITLE")
    # Two processes that start at once get one intent.
    body: dict[str, Any] = {"title": DEFAULT_INTENT, "status": "active"}
    intent = yield from _create_once(session, f"default-intent-{session.agent}", body)
    return FoundIntent(intent["id"], intent["title"], intent["created_by"], is_new=True)


def find_or_create_intent(
    session: ApiSession, text: str, access: str | Iterable[str] | None = None
) -> Flow[FoundIntent]:
    """The intent of this title or id; one with this title that is not there yet is created, active.

    Calls of one agent that create it at the same time get one intent.
    """
    try:
        return (yield from find_intent(session, text))
    except NotFound:
        if is_id(text, INTENT.prefix):
            raise
    body: dict[str, Any] = {"title": text, "status": "active"}
    if access is not None:
        body["access"] = access if isinstance(access, str) else list(access)
    intent = yield from _create_once(session, f"intent-{session.agent}-{digest(encoded(body))[:32]}", body)
    return FoundIntent(intent["id"], text, intent["created_by"], is_new=True)


def _create_once(session: ApiSession, key: str, body: dict[str, Any]) -> Flow[dict[str, Any]]:
    """Create an intent, once for all who send this key; again when the one that it created has ended."""
    answer = yield from session.send("POST", "intents", body=body, headers={"idempotency-key": key})
    if answer.document["status"] in _ENDED:  # the answer to an earlier request with this key
        answer = yield from session.send("POST", "intents", body=body)
    intent: dict[str, Any] = answer.document
    return intent


def find_channel(session: ApiSession, intent: FoundIntent, text: str) -> Flow[str]:
    """The id of the channel of this id, name or end of an id in an intent."""
    if is_id(text, CHANNEL.prefix):
        return text
    answer = yield from session.send("GET", "intents", intent.id, "channels")
    candidates = [Candidate(channel["id"], (channel["name"],)) for channel in answer.document]
    noun = CHANNEL._replace(see=f"{CHANNEL.see} {_quoted(intent.title)}")
    return pick(noun, text, candidates, where=f' in intent "{intent.title}"').id


def find_message(session: ApiSession, channel_id: str, text: str) -> Flow[str]:
    """The id of the message of this id or end of an id in a channel."""
    if is_id(text, MESSAGE.prefix):
        return text
    candidates: list[Candidate] = []
    since = ""
    while True:
        query = {"since": since, "limit": _PAGE}
        answer = yield from session.send("GET", "channels", channel_id, "messages", query=query)
        candidates += [
            Candidate(message["id"], note=f"{message['message_type']} from {message['sender']}")
            for message in answer.document
        ]
        if len(answer.document) < _PAGE:
            return pick(MESSAGE, text, candidates, where=" in this channel").id
        since = answer.document[-1]["id"]


def find_id(session: ApiSession, collection: Collection, text: str, **query: str) -> Flow[str]:
    """The id of a thing of a collection, by its id, one of its names, or the end of its id."""
    if is_id(text, collection.noun.prefix):
        return text
    candidates: list[Candidate] = []
    pages: dict[str, object] = {"limit": _PAGE} if collection.has_pages else {}
    while True:
        answer = yield from session.send("GET", collection.path, query={**query, **pages})
        candidates += [_candidate(collection, document) for document in answer.document]
        if not collection.has_pages or len(answer.document) < _PAGE:
            return pick(collection.noun, text, list(dict.fromkeys(candidates))).id
        pages["after"] = answer.document[-1][collection.page_field or collection.id_field]


def _candidate(collection: Collection, document: Mapping[str, Any]) -> Candidate:
    names = tuple(document[name] for name in collection.name_fields if document[name])
    note = str(document[collection.note_field]) if collection.note_field else ""
    ended = bool(collection.end_field and document[collection.end_field])
    return Candidate(document[collection.id_field], names, "ended" if ended else note, is_over=ended)


def _quoted(title: str) -> str:
    return f"'{title}'" if " " in title else title
