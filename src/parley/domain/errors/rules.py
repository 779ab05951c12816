"""What the rules of an exchange refuse, under the classes of `domain.errors.errors` and `domain.errors.team`.

Invalid
├── EnvelopeInvalid              envelope_invalid          `problems` name the fields
└── PolicyInvalid                policy_invalid            `problems` name file, line and key
Forbidden
└── Denied
    ├── CrossEnterpriseBlocked   cross_enterprise_blocked  the same whether the target exists or not
    ├── PolicyDenied             policy_denied
    ├── ReceiverRefuses          receiver_refuses          its entry in the directory says so
    ├── ClassificationExceeded   classification_exceeded
    ├── IdentityMismatch         identity_mismatch
    ├── MessageTypeForbidden     message_type_forbidden
    ├── CommitForbidden          commit_forbidden          an agent that says it may commit
    ├── MaxRoundsFixed           max_rounds_fixed
    ├── ExpiryFixed              expires_at_fixed
    ├── LoopDetected             loop_detected             too many hops along a chain of replies
    ├── Suspended                suspended
    ├── ApprovalUnproven         approval_unproven         no person signed this message
    ├── HumanRequired            human_required            no agent decides
    ├── NotApprover              not_approver
    ├── ApprovalLinksOff         approval_links_off        the operator has not allowed links to approvals
    └── SelfApproval             self_approval             four eyes
Conflict
├── ExchangeClosed               exchange_closed
│   └── ExchangeExpired          exchange_expired
├── NoReplyNeeded                no_reply_needed
├── RoundMismatch                round_mismatch            `facts` has the round that comes next
├── ApprovalStale                approval_stale            what would be sent is no longer what was shown
├── ApprovalDecided              approval_decided
├── Overspent                    overspent                 a budget, found out by the commit
└── NotReleasable                not_releasable            a limit is never extended
RateLimited
├── PairBudget                   pair_budget
└── ApprovalQueueFull            approval_queue_full
Unavailable
└── PolicyUnavailable            policy_unavailable
ParleyError
├── LogChanged                   log_changed               `problems` name the first bad entry of each log
└── MessageHeld                  held                      it is kept, and nobody has it until a person decides
"""

from parley.domain.errors.errors import Conflict, Forbidden, Invalid, ParleyError, Unavailable
from parley.domain.errors.team import RateLimited


class EnvelopeInvalid(Invalid):
    """The envelope is not one of the protocol."""

    code = "envelope_invalid"


class LogChanged(ParleyError):
    """A log, an export or a proof is not what was written."""

    code = "log_changed"


class PolicyInvalid(Invalid):
    """The policy cannot be read."""

    code = "policy_invalid"


class Denied(Forbidden):
    """The rules say no."""

    __module__ = "parley"

    code = "denied"


class CrossEnterpriseBlocked(Denied):
    """Nothing crosses from one tenant to another."""

    code = "cross_enterprise_blocked"


class PolicyDenied(Denied):
    """The policy does not allow this."""

    code = "policy_denied"


class ReceiverRefuses(Denied):
    """The receiver does not take such messages."""

    code = "receiver_refuses"


class ClassificationExceeded(Denied):
    """This is above what may be shared."""

    code = "classification_exceeded"


class IdentityMismatch(Denied):
    """The envelope names somebody else than the credential."""

    code = "identity_mismatch"


class MessageTypeForbidden(Denied):
    """This credential cannot send such a message."""

    code = "message_type_forbidden"


class CommitForbidden(Denied):
    """An agent cannot commit anybody."""

    code = "commit_forbidden"


class MaxRoundsFixed(Denied):
    """The number of rounds is fixed when an exchange begins."""

    code = "max_rounds_fixed"


class ExpiryFixed(Denied):
    """When an exchange expires is fixed when it begins."""

    code = "expires_at_fixed"


class LoopDetected(Denied):
    """Too many messages follow from one another."""

    code = "loop_detected"


class Suspended(Denied):
    """Somebody has stopped this."""

    __module__ = "parley"

    code = "suspended"


class ApprovalUnproven(Denied):
    """Nothing proves that a person approved this."""

    code = "approval_unproven"


class HumanRequired(Denied):
    """Only a person decides this."""

    code = "human_required"


class NotApprover(Denied):
    """This is for somebody else to decide."""

    code = "not_approver"


class ApprovalLinksOff(Denied):
    """Links to approvals are switched off."""

    code = "approval_links_off"


class SelfApproval(Denied):
    """Somebody else than the agent's own person has to decide this."""

    code = "self_approval"


class ExchangeClosed(Conflict):
    """The exchange is over."""

    code = "exchange_closed"


class ExchangeExpired(ExchangeClosed):
    """The time of the exchange has passed."""

    code = "exchange_expired"


class NoReplyNeeded(Conflict):
    """No answer is expected."""

    code = "no_reply_needed"


class RoundMismatch(Conflict):
    """This is not the round that comes next."""

    code = "round_mismatch"


class ApprovalStale(Conflict):
    """What would be sent is no longer what was shown."""

    __module__ = "parley"

    code = "approval_stale"


class ApprovalDecided(Conflict):
    """This was decided before."""

    __module__ = "parley"

    code = "approval_decided"


class Overspent(Conflict):
    """There is nothing left of this budget."""

    code = "overspent"


class NotReleasable(Conflict):
    """A limit is never extended; it can be answered or closed."""

    code = "not_releasable"


class PairBudget(RateLimited):
    """These two have exchanged as much as they may in an hour."""

    code = "pair_budget"


class ApprovalQueueFull(RateLimited):
    """Too many messages of this agent wait for a person."""

    code = "approval_queue_full"


class PolicyUnavailable(Unavailable):
    """No policy could be asked, so nothing is allowed."""

    code = "policy_unavailable"


class MessageHeld(ParleyError):
    """The message waits for a person."""

    __module__ = "parley"

    code = "held"

    @property
    def approval(self) -> str:
        """The id of what the person decides."""
        return str(self.facts.get("approval", ""))

    @property
    def reason(self) -> str:
        """Why it waits."""
        return str(self.facts.get("reason", ""))
