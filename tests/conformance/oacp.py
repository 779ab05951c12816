"""One message through the rules: drafted, composed, written, read. What the conformance tests say goes through here."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from parley.app.mailbox.sending import answer
from parley.domain import names
from parley.domain.errors.errors import Invalid
from parley.domain.limits import DEFAULT_LIMITS
from parley.domain.message.compose import compose
from parley.domain.message.message import Draft, Kind, Message, Reading
from parley.wire.oacp.format import OacpFormat
from tests.samples.messages import NOW

FORMAT = OacpFormat()
EXAMPLES = Path(__file__).parent / "examples"


def example(name: str) -> bytes:
    """A YAML example of the specification, its line breaks restored."""
    return (EXAMPLES / f"{name}.yaml").read_bytes()


def sent(draft: Draft, parent: Message | None = None, suffix: str = "a8f3") -> Message:
    """The message that a draft becomes."""
    return compose(draft, names.message_id(NOW, draft.sender, suffix), NOW, parent)


def written(draft: Draft, parent: Message | None = None) -> str:
    """The text of the file that a draft becomes."""
    return FORMAT.encode(sent(draft, parent)).decode()


def fields_written(draft: Draft) -> dict[str, object]:
    """The file's fields as a YAML reader that knows nothing of Parley sees them."""
    fields = yaml.load(written(draft), Loader=yaml.BaseLoader)
    assert isinstance(fields, dict)
    return fields


def refusals(draft: Draft) -> set[tuple[str, str]]:
    """Code and field of everything that keeps a draft from being sent."""
    with pytest.raises(Invalid) as refusal:
        written(draft)
    return {(problem.code, problem.field) for problem in refusal.value.problems}


def accepted(content: bytes) -> Message:
    """The message in a file that must be accepted."""
    return FORMAT.decode(content)


def rejected(content: bytes) -> set[tuple[str, str]]:
    """Code and field of everything that makes a file unacceptable."""
    reading = FORMAT.inspect(content)
    assert reading.message is None
    return {(problem.code, problem.field) for problem in reading.problems}


def doubted(content: bytes) -> set[tuple[str, str]]:
    """What a validation says of a file that is accepted all the same."""
    reading: Reading = FORMAT.inspect(content)
    assert reading.message is not None, reading.problems
    return {(doubt.code, doubt.field) for doubt in reading.doubts}


def reply_to(answered: Message, body: object = "Done.", kind: Kind | None = None, sender: str = "") -> Draft:
    """The draft that answers a message, filled in as `parley reply` fills it in."""
    assert isinstance(body, str | dict)
    draft = Draft(sender or answered.to[0], (), kind or Kind.NOTIFICATION, "", body)
    return answer(draft, answered, DEFAULT_LIMITS, kind_given=kind is not None)
