"""Findings packets as files: the form of OACP's template, readable by people and by every YAML reader."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from parley.domain.errors.errors import Invalid
from parley.domain.limits import DEFAULT_LIMITS
from parley.wire.yaml.strict import read_strict
from parley.wire.yaml.write import mapping_text

if TYPE_CHECKING:
    from parley.domain.message.message import Value


def encode_packet(fields: dict[str, Value], findings: list[dict[str, Value]]) -> bytes:
    """The bytes of a packet, one block for each finding; read back before they are returned."""
    text = mapping_text(fields) + ("findings:\n" if findings else "findings: []\n")
    for finding in findings:
        first, *lines = mapping_text(finding).splitlines()
        text += "".join([f"  - {first}\n", *[f"    {line}\n" if line else "\n" for line in lines]])
    again = read_strict(text, DEFAULT_LIMITS)["findings"]
    if not isinstance(again, list) or len(again) != len(findings):
        raise Invalid("the findings cannot be written as YAML")
    return text.encode()


def read_items(text: str, source: str) -> list[dict[str, Value]]:
    """The findings in YAML or JSON: a list, or a mapping with `findings`."""
    try:
        # JSON is YAML; a bare list becomes the one field of a mapping.
        stripped = text.strip()
        if stripped.startswith(("-", "[")):
            text = "findings:\n" + text if stripped.startswith("-") else "findings: " + stripped
        items = read_strict(text, DEFAULT_LIMITS).get("findings")
    except Invalid as error:
        raise Invalid(f"{source}: {error.message}") from None
    if not isinstance(items, list):
        raise Invalid(f"{source} has no list of findings", hint="write `findings:` and a list below it")
    return cast("list[dict[str, Value]]", items)
