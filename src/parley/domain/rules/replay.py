"""Replay: try recorded messages under another policy, and list the verdicts that would change."""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

from collections.abc import Mapping
from typing import Any, NamedTuple

from parley.domain.agents.party import Party
from parley.domain.content.classification import DataItem, level_of
from parley.domain.content.commitment import Detector
from parley.domain.content.envelope import Origin, Purpose, ReplyPolicy
from parley.domain.content.redaction import text_of, without_names
from parley.domain.exchange.exchange import Exchange, conversation_of
from parley.domain.rules.reasons import VERDICTS
from parley.domain.rules.rulebook import Rulebook
from parley.domain.rules.trial import Trial, TrialResult, run_trial_for_each

_STRICTNESS = {"allow": 0, "hold": 1, "deny": 2}
_NOTHING_AGAINST = "no policy forbids it"


class Change(NamedTuple):
    """A message whose verdict would change, as a whole or for one receiver."""

    entry_id: str
    at: str
    message_id: str
    exchange_id: str
    sender: str
    receiver: str
    was: str
    now: str
    why: str


class Recorded(NamedTuple):
    """The recorded facts of a message."""

    entry_id: str
    at: str
    facts: Mapping[str, Any]


def replayable(facts: Mapping[str, Any]) -> bool:
    """Whether an entry is the sender's side of a message that was judged: only those tell enough."""
    return facts.get("role") == "sender" and "purpose" in facts and facts.get("outcome") in VERDICTS


def audience_of(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Everyone whom a message was for: who got it, and who was left out."""
    excluded = [str(entry["agent"]) for entry in facts.get("excluded", ())]
    return tuple(dict.fromkeys((*map(str, facts.get("receivers", ())), *excluded)))


def judged_beside(facts: Mapping[str, Any], data: tuple[DataItem, ...], exchange: Exchange | None) -> tuple[str, ...]:
    """What was judged with a message beside its payload and metadata: its data items, and its conversation's name.

    Of data that was withheld, only what the entry says about it is left. The name counts until a message was delivered
    under it, unless it was made for the exchange; `exchange` is as it is now.
    """
    withheld = [str(item["description"]) for item in facts.get("dataWithheld", ())]
    texts = ["\n".join([text_of(data), *withheld])] if data or withheld else []
    name, number = str(facts["conversation_id"]), int(facts["round"])
    turns = exchange.transcript if exchange is not None else ()
    if not any(turn.round < number for turn in turns) and name != conversation_of(str(facts["exchange_id"])):
        texts += without_names([name], (str(facts["sender"]), *audience_of(facts)))
    return tuple(texts)


def trial_of(
    facts: Mapping[str, Any], sender: Party, receiver: Party, texts: tuple[str, ...] | None, *, own_limit: bool
) -> Trial:
    """The message of an entry, to be tried again. `texts` are what it said, where that is still kept.

    `own_limit` says that its round limit was not just what the policy of then gave to everyone.
    """
    level = level_of(facts["classification"])
    return Trial(
        sender,
        receiver,
        Purpose(str(facts["purpose"])),
        ReplyPolicy(str(facts["reply_policy"])),
        bool(facts["requires_commitment"]),
        level_of(facts["declared"]) if "declared" in facts else level,
        texts or (),
        None if texts is not None else tuple(str(keyword) for keyword in facts.get("keywords", ())),
        None if texts is not None else level,
        Origin(str(facts["origin"])),
        int(facts["round"]),
        int(facts["max_rounds"]) if own_limit else None,
        facts.get("initiator") == facts.get("sender"),
        int(facts.get("hops", 1)),
        tuple(level_of(level) for level in (*facts.get("over", ()), *facts.get("shared_levels", ()))),
        tuple(level_of(level) for level in facts.get("fixed_levels", ())),
        bool(facts.get("annotated", True)),
    )


def replay_entry(
    entry: Recorded, trial: Trial, receivers: tuple[Party, ...], book: Rulebook, detectors: tuple[Detector, ...] = ()
) -> list[Change]:
    """The changed verdicts of a message: none, one for the whole message, or one for each receiver."""
    facts = entry.facts
    was = VERDICTS[str(facts["outcome"])]
    results = run_trial_for_each(trial, receivers, book, detectors)
    named = [(result, party.agent) for result, party in zip(results, receivers, strict=True)]
    passing = [pair for pair in named if pair[0].word != "deny"]
    # To several it passes when it may pass to one of them; a person is asked when any of those asks for one.
    decisive, receiver = max(passing or named[:1], key=lambda pair: _STRICTNESS[pair[0].word])
    tightened = facts.get("tightened", False)
    if tightened and _STRICTNESS[decisive.word] < _STRICTNESS[was]:
        # Rules beside the documents said so, and still do.
        return []
    if decisive.word != was:
        to = receiver if decisive.word != "allow" or len(receivers) == 1 else str(facts.get("to", receiver))
        return [_change(entry, to, was, decisive)]
    if was == "deny":
        return []
    out = {str(entry["agent"]) for entry in facts.get("excluded", ())}
    return [
        _change(entry, agent, "deny" if agent in out else was, result, decisive)
        for result, agent in named
        if (agent in out) != (result.word == "deny") and not (tightened and agent in out)
    ]


def _change(entry: Recorded, receiver: str, was: str, now: TrialResult, whole: TrialResult | None = None) -> Change:
    facts = entry.facts
    # All receivers get a message at the same moment.
    shown = whole if whole is not None and now.word != "deny" else now
    return Change(
        entry.entry_id,
        entry.at,
        str(facts.get("message_id", "")),
        str(facts.get("exchange_id", "")),
        str(facts.get("sender", "")),
        receiver,
        was,
        shown.word,
        shown.why or _NOTHING_AGAINST,
    )
