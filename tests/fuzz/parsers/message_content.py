"""Detectors and commitment words take any text, and what they find is still found with other text behind it."""

from __future__ import annotations

from parley.domain.content import commitment, detectors
from parley.domain.content.invisible_characters import hidden_in, made_visible

BEHIND = "\nNothing else to say."


def check(data: bytes) -> None:
    text = data.decode("utf-8", "replace")
    names = {detection.name for detection in detectors.findings([text])}
    words = set(commitment.keywords_in([text]))

    assert names <= {detection.name for detection in detectors.findings([text + BEHIND])}, "text behind hides a secret"
    assert words <= set(commitment.keywords_in([text + BEHIND])), "text behind hides a commitment"
    assert not hidden_in(made_visible(text)), "something is still invisible"
