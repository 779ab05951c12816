"""What only a server refuses, under the classes of `domain.errors`.

Invalid
├── Malformed                malformed             no JSON at all
├── BadCursor                bad_cursor
├── BadCorrelation           bad_correlation
├── ImmutableField           immutable_field
├── NoIntentAccess           no_intent_access      a member who may not see the intent
├── TargetForbidden          target_forbidden      an address that no webhook may have
├── UnsupportedMedia         unsupported_media_type
├── KeyReused                idempotency_mismatch
└── PayloadInvalid           payload_invalid       an agent refuses a payload that does not fit its handler's schema
Conflict
├── NameTaken                name_taken            `facts` has the id of what has the name
├── VersionMismatch          version_mismatch      `facts` has the current version
├── ChannelClosed            channel_closed
├── NotARequest              not_a_request
├── MessageExpired           message_expired
│   └── RequestWithdrawn     request_withdrawn     its sender no longer wants an answer
├── AlreadyAnswered          already_answered      nothing can be withdrawn or added any more
├── RequestForwarded         request_forwarded     who handed a request on can no longer answer it
├── ForwardLoop              forward_loop          handed on in a circle, or too often; `facts` has the chain
├── PartialNotAccepted       partial_not_accepted  the request wants one answer
├── TooManyParts             too_many_parts        a request has a bounded number of partial answers
├── BadTransition            bad_transition
├── CircularWait             circular_wait         `facts` names the circle
├── AgentDeparted            agent_departed
├── BookmarkTaken            bookmark_taken
└── QuotaExceeded            quota_exceeded
Forbidden
├── WrongSender              sender_mismatch       another speaker than the credential's
├── NotAddressee             not_addressee
├── NotAsker                 not_asker             only the sender of a request withdraws it
├── NotMember                not_member
├── NotManager               not_manager
├── ScopeRequired            scope_required
├── ProofInvalid             proof_invalid
├── WebhookInvalid           webhook_invalid       what a receiver of webhooks refuses
│   └── WebhookReplayed      webhook_replayed      it was received before
└── UnsafeMode               unsafe_mode           refused at the start, before anything listens; or links in the clear
NotFound
└── NoResponders             no_responders         nobody could answer a request; `facts` has similar names
Gone                         gone
├── CursorEvicted            cursor_evicted
└── AgentGone                agent_gone
Unauthorized                 unauthorized
VersionRequired              version_required      a change that does not say which version it is for
RateLimited                  rate_limited
AskTimeout                   ask_timeout           nobody answered in time; also a TimeoutError
└── AskEnded                 ask_ended             nobody will answer any more
AgentFailed                  agent_failed          the answer is an error; an instance has the code of the answer
"""

from typing import Any

from parley.domain.errors.errors import Conflict, Forbidden, Invalid, NotFound, ParleyError


class Malformed(Invalid):
    """This is no JSON."""

    code = "malformed"


class BadCursor(Invalid):
    """There is no such place in this channel."""

    code = "bad_cursor"


class BadCorrelation(Invalid):
    """It answers no request of this channel."""

    code = "bad_correlation"


class ImmutableField(Invalid):
    """A message never changes."""

    code = "immutable_field"


class NoIntentAccess(Invalid):
    """A member needs access to the intent."""

    code = "no_intent_access"


class TargetForbidden(Invalid):
    """No webhook may have this address."""

    code = "target_forbidden"


class UnsupportedMedia(Invalid):
    """The body must be application/json."""

    code = "unsupported_media_type"


class KeyReused(Invalid):
    """The idempotency key was used for another request."""

    code = "idempotency_mismatch"


class PayloadInvalid(Invalid):
    """The payload does not fit."""

    code = "payload_invalid"


class NameTaken(Conflict):
    """The name is taken."""

    __module__ = "parley"

    code = "name_taken"


class VersionMismatch(Conflict):
    """It has changed meanwhile."""

    __module__ = "parley"

    code = "version_mismatch"


CLOSED_ADVICE = "use another name, or delete the channel with its messages to use this name again"


class ChannelClosed(Conflict):
    """The channel is closed."""

    __module__ = "parley"

    code = "channel_closed"


class NotARequest(Conflict):
    """Only a request can be answered."""

    code = "not_a_request"


class MessageExpired(Conflict):
    """The message has expired."""

    code = "message_expired"


class RequestWithdrawn(MessageExpired):
    """Its sender has withdrawn the request."""

    code = "request_withdrawn"


class AlreadyAnswered(Conflict):
    """The request is answered already."""

    code = "already_answered"


class RequestForwarded(Conflict):
    """The request was handed on to another agent, which answers it."""

    code = "request_forwarded"


class ForwardLoop(Conflict):
    """The request would go in a circle, or was handed on too often."""

    code = "forward_loop"


class PartialNotAccepted(Conflict):
    """The request accepts no partial answers."""

    code = "partial_not_accepted"


class TooManyParts(Conflict):
    """The request has as many partial answers as it may have."""

    code = "too_many_parts"


class BadTransition(Conflict):
    """It cannot go from this state to that."""

    code = "bad_transition"


class CircularWait(Conflict):
    """These agents would wait for each other."""

    __module__ = "parley"

    code = "circular_wait"


class AgentDeparted(Conflict):
    """The agent has left."""

    code = "agent_departed"


class BookmarkTaken(Conflict):
    """Another process has taken over this agent's bookmark."""

    __module__ = "parley"

    code = "bookmark_taken"


class QuotaExceeded(Conflict):
    """There are as many as there may be."""

    __module__ = "parley"

    code = "quota_exceeded"


class Gone(ParleyError):
    """It is no longer there."""

    __module__ = "parley"

    code = "gone"


class CursorEvicted(Gone):
    """Messages after this cursor are no longer kept."""

    __module__ = "parley"

    code = "cursor_evicted"


class AgentGone(Gone):
    """The agent has left."""

    __module__ = "parley"

    code = "agent_gone"


class Unauthorized(ParleyError):
    """A valid key is needed."""

    __module__ = "parley"

    code = "unauthorized"


class VersionRequired(ParleyError):
    """Say by If-Match which version this change is for."""

    code = "version_required"


class RateLimited(ParleyError):
    """Too many requests."""

    __module__ = "parley"

    code = "rate_limited"


class NoResponders(NotFound):
    """Nobody is there who could answer."""

    __module__ = "parley"

    code = "no_responders"


class AskTimeout(ParleyError, TimeoutError):
    """Nobody answered in time."""

    __module__ = "parley"

    code = "ask_timeout"


class AskEnded(AskTimeout):
    """Nobody will answer: the asked agent has left, or the channel was closed."""

    __module__ = "parley"

    code = "ask_ended"


class AgentFailed(ParleyError):
    """The agent that was asked could not answer."""

    __module__ = "parley"

    # The class's code is only a default: an instance has the code of the answer, such as `handler_failed`.
    code = "agent_failed"
    # The agent that was asked; and from it down to the agent that failed first.
    agent: str = ""
    chain: tuple[str, ...] = ()
    # What the agent that failed first says.
    reason: str = ""
    # The answer itself, a `ChannelMessage`.
    answer: Any = None


class WrongSender(Forbidden):
    """The key does not speak for this agent."""

    code = "sender_mismatch"


class NotAddressee(Forbidden):
    """Only who was asked may answer."""

    code = "not_addressee"


class NotAsker(Forbidden):
    """Only the sender of a request withdraws it."""

    code = "not_asker"


class NotMember(Forbidden):
    """Only members of the channel may do this."""

    __module__ = "parley"

    code = "not_member"


class NotManager(Forbidden):
    """Only the creator, the coordinator or an admin may do this."""

    code = "not_manager"


class ScopeRequired(Forbidden):
    """The key is of another kind than this needs."""

    code = "scope_required"


class ProofInvalid(Forbidden):
    """The proof does not fit the message."""

    code = "proof_invalid"


class WebhookInvalid(Forbidden):
    """The webhook was not signed by this sender at this time."""

    code = "webhook_invalid"


class WebhookReplayed(WebhookInvalid):
    """The webhook was received before."""

    code = "webhook_replayed"


class UnsafeMode(Forbidden):
    """This would not be safe."""

    code = "unsafe_mode"
