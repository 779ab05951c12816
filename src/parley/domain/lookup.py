"""Find one thing by its id, its name or the end of its id, among those that somebody can see. Never a silent choice."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import Ambiguous, NotFound
from parley.domain.names import near_misses, suggestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Shorter ends of ids fit too much, and are words that somebody may have meant as a name.
SUFFIX_MIN_CHARS = 4
_LISTED_MAX = 5
_NEAR_MAX = 3


class Noun(NamedTuple):
    """A kind of thing: its word, the beginning of its ids, and the command that lists them."""

    word: str
    prefix: str
    see: str


class Candidate(NamedTuple):
    """A thing that a name may mean. What is over is meant only if nothing else has the name."""

    id: str
    names: tuple[str, ...] = ()
    note: str = ""
    is_over: bool = False

    @property
    def bare_id(self) -> str:
        """The id without the agent that follows in the id of a job in its own queue: `msg_...@bob`."""
        return self.id.partition("@")[0]


def is_id(text: str, prefix: str) -> bool:
    """Whether a text is an id in full, which needs no lookup."""
    return text.startswith(f"{prefix}_")


def fits(text: str, candidate: Candidate) -> bool:
    """Whether a text is the id, a name, or the end of the id of a thing."""
    if text == candidate.id or text in candidate.names:
        return True
    return len(text) >= SUFFIX_MIN_CHARS and candidate.bare_id.endswith(text.upper()) and text.isalnum()


def pick(noun: Noun, text: str, candidates: Sequence[Candidate], *, where: str = "") -> Candidate:
    """The one candidate that a text means; `NotFound` with similar names, `Ambiguous` with all that fit."""
    fitting = [candidate for candidate in candidates if fits(text, candidate)]
    present = [candidate for candidate in fitting if not candidate.is_over]
    chosen = present if len(present) == 1 else fitting
    if len(chosen) == 1:
        return chosen[0]
    if not chosen:
        raise unknown(noun, text, (name for candidate in candidates for name in candidate.names), where=where)
    raise Ambiguous(
        f'"{text}" fits {len(chosen)} {noun.word}s: {list_candidates(chosen)}',
        hint="use the end of its id, in square brackets",
    )


def unknown(noun: Noun, text: str, names: Iterable[str], *, where: str = "") -> NotFound:
    """The error for a name that nothing has; it names those that are similar."""
    close = near_misses(text, dict.fromkeys(names), _NEAR_MAX)
    hint = suggestion(close) or f"see: {noun.see}"
    return NotFound(f'no {noun.word} "{text}"{where}', hint=hint, facts={"missing": noun.word, "name": text})


def list_candidates(candidates: Sequence[Candidate]) -> str:
    """Candidates in one line, each with an end of its id that the others do not have."""
    texts = [_text(candidate, _short_id(candidate, candidates)) for candidate in candidates[:_LISTED_MAX]]
    more = len(candidates) - _LISTED_MAX
    return ", ".join(texts) + (f" and {more} more" if more > 0 else "")


def _text(candidate: Candidate, short: str) -> str:
    name = f"{candidate.names[0]} " if candidate.names else ""
    return f"{name}[{short}]" + (f" ({candidate.note})" if candidate.note else "")


def _short_id(candidate: Candidate, candidates: Sequence[Candidate]) -> str:
    for length in range(SUFFIX_MIN_CHARS, len(candidate.bare_id)):
        short = candidate.bare_id[-length:]
        if sum(other.bare_id.endswith(short) for other in candidates) == 1:
            return short
    return candidate.id
