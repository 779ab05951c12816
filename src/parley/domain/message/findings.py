"""The findings of a review: how a packet is read, what blocks, and what is wrong with a packet before it is written.

P0 and P1 block, P2 by the reviewer's judgment, P3 never. A severity that nobody knows blocks.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from parley.domain.errors.errors import Problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from parley.domain.message.message import Value

DEFAULT_SEVERITY = "P2"
# Words that reviewers use in place of P0 to P3.
SEVERITIES = {
    **{severity: severity for severity in ("P0", "P1", "P2", "P3")},
    **dict.fromkeys(("CRITICAL", "BLOCKER"), "P0"),
    **dict.fromkeys(("HIGH", "MAJOR"), "P1"),
    **dict.fromkeys(("MEDIUM", "MODERATE", "NORMAL"), "P2"),
    **dict.fromkeys(("LOW", "MINOR", "TRIVIAL", "INFO", "NIT", "NITPICK", "STYLE"), "P3"),
}
RESOLVED = frozenset({"fixed", "wont_fix", "wontfix", "resolved", "closed", "withdrawn"})
OPEN = frozenset({"open", "not_fixed", "needs_clarification"})
_YES = frozenset({"true", "yes", "on", "y", "1"})
# Where a finding says what it is about, in the order of preference. OACP's template has no summary.
_SUMMARIES = ("summary", "description", "title", "message")
_DETAILS = ("recommendation", "expected", "evidence", "repro")
_PACKET_ENDINGS = (".yaml", ".yml", ".json")
_NIT_KEYS = ("nit_id", "tier", "summary", "owner", "next_action", "tracking_ref", "source", "expires_at_utc")
_TRACKING = ("tracking_ref", "tracking", "tracking_issue")
_SUMMARY_CHARS = 200
# A finding in one line: `P1: text` or `[nit]: text`.
SEVERITY_AND_TEXT = r"\s*\[?([A-Za-z0-9]+)\]?\s*:\s*(\S.*)\Z"
_NOT_A_FINDING = "UNREADABLE"


class Finding(NamedTuple):
    """One finding of a reviewer. A finding that was addressed or withdrawn is resolved."""

    id: str
    severity: str
    blocking: bool
    resolved: bool
    summary: str
    reviewer: str = ""
    round: int = 0


def severity_of(word: object) -> str:
    """P0 to P3, or the word as it stands when it is none that is known."""
    text = str(word or "").strip().upper()
    return SEVERITIES.get(text, text) or DEFAULT_SEVERITY


def blocks(severity: str, blocking: bool) -> bool:
    """Whether an open finding of this severity stands in the way of a merge."""
    return blocking if severity == "P2" else severity != "P3"


def read_findings(packet: Mapping[str, object] | None, taken: Iterable[str] = ()) -> tuple[Finding, ...] | None:
    """The findings of a packet; None when it has no list of findings. An unnamed one gets an id that is not `taken`."""
    items = packet.get("findings") if packet is not None else None
    return _with_ids(map(_read_finding, items), taken) if isinstance(items, list) else None


def _read_finding(item: object) -> Finding:
    fields = item if isinstance(item, dict) else _line_fields(item)
    severity = severity_of(fields.get("severity"))
    return Finding(
        id=str(fields.get("id") or ""),
        severity=severity,
        blocking=blocks(severity, _word(fields.get("blocking")) in _YES),
        resolved=_word(fields.get("status")) in RESOLVED,
        summary=_summary(fields),
    )


def _line_fields(item: object) -> dict[str, Value]:
    """The severity and summary of a finding that is no mapping.

    Text without a severity that is known is all summary. What is neither text nor a mapping blocks: nobody can say
    what it is about.
    """
    if not isinstance(item, str):
        return {"severity": _NOT_A_FINDING, "summary": str(item)}
    match = re.match(SEVERITY_AND_TEXT, item, re.DOTALL)
    if match is None or match[1].upper() not in SEVERITIES:
        return {"summary": item}
    return {"severity": match[1], "summary": match[2].strip()}


def _word(value: object) -> str:
    return "_".join(str(value if value is not None else "").lower().replace("-", " ").split())


def _summary(fields: Mapping[str, object]) -> str:
    """One line: what the finding says of itself, else where it is and what should be done."""
    text = _first(fields, _SUMMARIES)
    if not text:
        line = fields.get("line")
        file = _line(fields.get("file"))
        where = f"{file}:{line}" if file and line else file
        text = ": ".join(part for part in (where, _first(fields, _DETAILS)) if part)
    return text if len(text) <= _SUMMARY_CHARS else text[: _SUMMARY_CHARS - 1] + "…"


def _first(fields: Mapping[str, object], names: Iterable[str]) -> str:
    return next((text for name in names if (text := _line(fields.get(name)))), "")


def _line(value: object) -> str:
    return " ".join(str(value).split()) if value is not None else ""


def _with_ids(findings: Iterable[Finding], taken: Iterable[str]) -> tuple[Finding, ...]:
    """The findings with an id each. An unnamed one never gets the id of another, which it would replace."""
    named = list(findings)
    used = {*taken, *[finding.id for finding in named]}
    for place, finding in enumerate(named):
        number = place + 1
        while not finding.id and (name := f"finding-{number:03d}") in used:
            number += 1
        if not finding.id:
            used.add(name)
            named[place] = finding._replace(id=name)
    return tuple(named)


def open_blocking(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings that stand in the way of a merge."""
    return tuple(
        finding for finding in findings if not finding.resolved and (finding.blocking or finding.severity == "P0")
    )


def gate(findings: Iterable[Finding] | None) -> bool:
    """Whether the quality gate passes; never without a list of findings."""
    return findings is not None and not open_blocking(findings)


def unread_reason(path: str, packet: Mapping[str, object] | str | None) -> str:
    """Why nothing is known of the findings in a packet; "" when it has a list of findings."""
    if not path:
        return "names no findings packet"
    if isinstance(packet, str):
        return f"the findings packet {path!r} cannot be read: {packet}"
    if packet is None:
        if is_reference(path):
            return f"the findings packet {path!r} is a reference, which Parley does not follow"
        return f"the findings packet {path!r} does not exist in the project"
    return "" if isinstance(packet.get("findings"), list) else f"the findings packet {path!r} has no list of findings"


def is_reference(path: str) -> bool:
    """Whether what names a packet is a URL, an id or the like, and not a file of the project."""
    return "://" in path or not path.lower().endswith(_PACKET_ENDINGS)


def nit_text(nit: object) -> str:
    """A nit on one line, with its owner and where it is tracked. A list item of a message is text by then."""
    fields = nit if isinstance(nit, dict) else _nit_fields(str(nit))
    if not fields:
        return str(nit)
    notes = [f"owner {owner}" if (owner := _line(fields.get("owner"))) else ""]
    notes.append(f"tracked in {tracking}" if (tracking := _first(fields, _TRACKING)) else "")
    text = _first(fields, ("summary", "next_action", "nit_id", "id"))
    joined = ", ".join(note for note in notes if note)
    return f"{text} ({joined})" if joined else text


def _nit_fields(text: str) -> dict[str, str]:
    """The fields of a nit that was written as `nit_id: N-1; summary: ...`; none for plain text."""
    fields: dict[str, str] = {}
    key = ""
    for part in text.split("; "):
        name, colon, value = part.partition(": ")
        if colon and name in _NIT_KEYS and name not in fields:
            key, fields[name] = name, value
        elif key:
            fields[key] += f"; {part}"
        else:
            return {}
    return fields if "summary" in fields else {}


def check_findings(items: object) -> list[Problem]:
    """Everything that is wrong with the findings of a packet that is to be written."""
    if not isinstance(items, list):
        return [Problem("bad_packet", "findings", "must be a list")]
    problems = []
    ids: set[str] = set()
    for number, item in enumerate(items, 1):
        where = f"findings[{number}]"
        if not isinstance(item, dict):
            problems.append(Problem("bad_finding", where, "must be a mapping with severity and summary"))
            continue
        name = str(item.get("id") or "")
        if name and name in ids:
            problems.append(Problem("bad_finding", f"{where}.id", f"{name} is used twice"))
        ids.add(name)
        severity = str(item.get("severity") or "").strip()
        if severity and severity.upper() not in SEVERITIES:
            words = ", ".join(SEVERITIES).lower().replace("p", "P", 4)
            problems.append(Problem("bad_finding", f"{where}.severity", f"{severity!r} is not one of {words}"))
        status = _word(item.get("status"))
        if status and status not in RESOLVED | OPEN:
            allowed = ", ".join(sorted(OPEN | RESOLVED))
            problems.append(Problem("bad_finding", f"{where}.status", f"{status!r} is not one of {allowed}"))
        if not _summary(item):
            problems.append(Problem("bad_finding", f"{where}.summary", "is empty"))
    return problems


def normal_findings(items: list[dict[str, Value]], taken: Iterable[str] = ()) -> list[dict[str, Value]]:
    """The findings as they are written: id, severity, blocking, status and summary first, then all else that was given.

    They have passed `check_findings`. An unnamed one gets an id that is not `taken`.
    """
    findings = _with_ids(map(_read_finding, items), taken)
    normal: list[dict[str, Value]] = []
    for item, finding in zip(items, findings, strict=True):
        head: dict[str, Value] = {
            "id": finding.id,
            "severity": finding.severity,
            "blocking": finding.blocking,
            "status": _word(item.get("status")) or "open",
            "summary": finding.summary,
        }
        normal.append({**head, **{str(key): value for key, value in item.items() if key not in head}})
    return normal
