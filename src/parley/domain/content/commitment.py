"""Commitment detection: which messages need a person's approval before an agent may send them.

A message is held for what its envelope says (a commitment is asked for, only a person may answer), and for what is in
it: thirteen words. They are found as whole words with their inflections, in every disguise that `word_forms` detects.

Words that only contain one are others: disagree, committee, notebook, preserve, compromise. So are those that name
somebody or something that acts (scheduler, allocator, approver, committer, assignee), and opposites (unassigned,
deallocate). A word of the list that means something else, as the commit of a version control system does, is held.
"""

# No `from __future__ import annotations`: a NamedTuple would compile each annotation from text at every start.

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from parley.domain.content.word_forms import Vocabulary, vocabulary, with_words, words_in

# Looks at the texts of a message and names what it found. It can only add to what is held.
Detector = Callable[[Iterable[str]], Iterable[str]]

_WORDS = vocabulary(
    {
        "schedule": "+schedule +schedules +scheduled +scheduling",
        "meeting": "meeting meetings",
        "agree": "+agree +agrees +agreed +agreeing +agreement +agreements",
        "approve": "+approve +approves +approved +approving +approval +approvals",
        "allocate": "+allocate +allocates +allocated +allocating +allocation +allocations",
        "assign": "+assign +assigns +assigned +assigning +assignment +assignments",
        "reserve": "+reserve +reserves +reserved +reserving +reservation +reservations",
        "commit": "+commit +commits +committed +committing +commitment +commitments commited commiting committment",
        "confirm": "+confirm +confirms +confirmed +confirming +confirmation +confirmations",
        "book": "+book +books +booked +booking +bookings",
        "deadline": "deadline deadlines",
        "promise": "+promise +promises +promised +promising",
        "guarantee": "+guarantee +guarantees +guaranteed +guaranteeing",
    }
)
KEYWORDS = _WORDS.words

REQUIRES_COMMITMENT = "The exchange requires a commitment. Human approval required."
HUMAN_ONLY = "Only a human may respond. Human approval required."
DETECTOR_FAILED = "A commitment detector failed. Human approval required."
# The keyword of a detector that failed.
FAILED = "detector-failed"

# What code goes wrong with. Anything else ends the send as a whole, so nothing goes out either.
_FAILURES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BufferError,
    ImportError,
    LookupError,
    MemoryError,
    NameError,
    OSError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
)


class Match(StrEnum):
    """How commitment words are looked for; the strictest first."""

    SUBSTRING = "substring"
    WORD = "word"


class CommitmentDetection(NamedTuple):
    """Whether a person has to look, why, and for which words. The reason is the first; the words are all."""

    requires_human: bool
    reason: str | None
    detected_keywords: tuple[str, ...]


NOTHING = CommitmentDetection(requires_human=False, reason=None, detected_keywords=())


def detect(
    texts: Iterable[str],
    *,
    requires_commitment: bool,
    human_only: bool,
    extra: tuple[str, ...] = (),
    match: Match = Match.WORD,
    further: tuple[Detector, ...] = (),
) -> CommitmentDetection:
    """All commitment signals of a message. A detector that fails is a signal, too: unchecked content does not pass."""
    if further:
        texts = tuple(texts)
    words = keywords_in(texts, extra, match)
    for detector in further:
        words += _found_by(detector, texts)
    if requires_commitment:
        return CommitmentDetection(requires_human=True, reason=REQUIRES_COMMITMENT, detected_keywords=words)
    if human_only:
        return CommitmentDetection(requires_human=True, reason=HUMAN_ONLY, detected_keywords=words)
    if not words:
        return NOTHING
    return CommitmentDetection(requires_human=True, reason=reason_of(words), detected_keywords=words)


def reason_of(words: tuple[str, ...]) -> str:
    """Why a message with these words is held."""
    if set(words) == {FAILED}:
        return DETECTOR_FAILED
    return f"Commitment keywords detected: {', '.join(words)}. Human approval required."


def _found_by(detector: Detector, texts: Iterable[str]) -> tuple[str, ...]:
    try:
        keywords = tuple(detector(texts))
    except _FAILURES:
        return (FAILED,)
    return keywords if all(isinstance(word, str) for word in keywords) else (FAILED,)


def keywords_in(texts: Iterable[str], extra: tuple[str, ...] = (), match: Match = Match.WORD) -> tuple[str, ...]:
    """The words found, in the order of the list and then of `extra`, each once.

    As substrings: what stands anywhere in the small letters of a text is found besides. So it holds never less.
    """
    vocabulary = _with_extra(extra) if extra else _WORDS
    if match is Match.SUBSTRING:
        texts = tuple(texts)
    words = words_in(texts, vocabulary)
    if match is Match.SUBSTRING:
        small = "\n".join(texts).casefold()
        words.update([word for word in vocabulary.words if word.casefold() in small])
    return tuple([word for word in vocabulary.words if word in words]) if words else ()


class KeywordPlace(NamedTuple):
    """A commitment word in a text: where it begins, and how many characters it takes there, disguised or not."""

    position: int
    length: int
    keyword: str


# At most so many places are shown of one text.
PLACES_MAX = 50
_GAPS = re.compile(r"[\s,;:!?\"]+")


def places_of(text: str, keywords: Iterable[str]) -> list[KeywordPlace]:
    """Where these words are in a text, in order. A word that only several texts together hold has no place in one."""
    places: list[KeywordPlace] = []
    for keyword in keywords:
        places += _places_of_word(text, keyword, PLACES_MAX - len(places))
    return sorted(places)


def _places_of_word(text: str, keyword: str, most: int) -> list[KeywordPlace]:
    def holds(part: str) -> bool:
        return keyword in keywords_in((part,), (keyword,))

    # Where a part of the text may begin, and where it may end: a word is not cut.
    gaps = [match.span() for match in _GAPS.finditer(text)]
    starts = [0, *[end for _, end in gaps]]
    ends = [*[start for start, _ in gaps], len(text)]
    places: list[KeywordPlace] = []
    first = 0
    while first < len(ends) and len(places) < most:
        # The shortest part from here on that holds it, then the shortest end of that part.
        last = bisect_left(range(len(ends)), True, first, key=lambda at: holds(text[starts[first] : ends[at]]))
        if last == len(ends):
            break
        begin = bisect_right(range(last + 1), False, first, key=lambda at: not holds(text[starts[at] : ends[last]])) - 1
        places.append(_trimmed(text, starts[begin], ends[last], keyword, holds))
        first = last + 1
    if not places:
        at = text.casefold().find(keyword.casefold())  # as a policy that looks for substrings finds it
        if at >= 0 and len(text.casefold()) == len(text):
            places.append(KeywordPlace(at, len(keyword), keyword))
    return places


def _trimmed(text: str, start: int, end: int, keyword: str, holds: Callable[[str], bool]) -> KeywordPlace:
    """The place without signs around the word that do not belong to it."""
    while start + 1 < end and not text[start].isalnum() and holds(text[start + 1 : end]):
        start += 1
    while end - 1 > start and not text[end - 1].isalnum() and holds(text[start : end - 1]):
        end -= 1
    return KeywordPlace(start, end - start, keyword)


@lru_cache(256)  # policies are few, messages many
def _with_extra(extra: tuple[str, ...]) -> Vocabulary:
    return with_words(_WORDS, extra)
