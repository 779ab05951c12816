"""The auth trailer of a signed file as the OACP tool checks it without keys: its form, not its signature."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, NoReturn

from parley.cli.oacp.places import NAME_PATTERN

if TYPE_CHECKING:
    from collections.abc import Mapping

_LINE = re.compile(rb'^auth: "([A-Za-z0-9_-]+)"\n\Z', re.MULTILINE)
_BASE64URL = re.compile(r"[A-Za-z0-9_-]+\Z")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_MOST_VALUE, _MOST_HEADER, _MOST_SIGNATURES = 16_384, 4_096, 8
_FORBIDDEN = ("jku", "jwk", "x5u", "x5c", "x5t", "x5t#S256")
_HEADER = {"alg", "crit", "kid", "oacp", "typ"}
_OACP = {"agent", "domain", "instance", "scheme"}
_SECOND_SPELLING = "non-zero unused pad bits give the same bytes a second spelling"


class Malformed(Exception):
    """What is wrong with the form of a trailer."""


def has_trailer(content: bytes) -> bool:
    """Whether the last line of a file claims to be a signature."""
    return content.rstrip(b"\r\n").rsplit(b"\n", 1)[-1].startswith(b"auth:")


def state_of(content: bytes) -> str:
    """unsigned, invalid, or unsupported: Parley holds no keys, so it vouches for no signature."""
    if not has_trailer(content):
        return "unsigned"
    match = _LINE.search(content)
    if match is None:
        return "invalid"
    try:
        check_value(match[1].decode())
    except Malformed:
        return "invalid"
    return "unsupported"


def problems_of(fields: Mapping[str, object], content: bytes) -> list[str]:
    """What is wrong with the field `auth` of a file, in the tool's words."""
    if "auth" not in fields:
        return []
    value = fields["auth"]
    problems = []
    if isinstance(value, str):
        try:
            check_value(value)
        except Malformed as error:
            problems.append(f"field 'auth': {error}")
    match = _LINE.search(content)
    if match is None:
        form = 'auth: "<base64url>" followed by exactly one LF (no CRLF)'
        problems.append(f"field 'auth' must be the final physical line of the file: {form}")
    elif match[1].decode() != value:
        problems.append("field 'auth' parsed value does not match the raw trailer line")
    return problems


def check_value(value: str) -> None:
    """Raise `Malformed` with the first thing that is wrong."""
    if len(value) > _MOST_VALUE:
        raise Malformed("auth value missing or oversized")
    container = _object(_decoded(value, "auth value"), "auth container")
    if extra := sorted(container.keys() - {"signatures"}):
        raise Malformed(f"auth container has unexpected member(s): {', '.join(extra)}")
    signatures = container.get("signatures")
    if not isinstance(signatures, list) or not signatures:
        raise Malformed("auth container must carry a non-empty signatures array")
    if len(signatures) > _MOST_SIGNATURES:
        raise Malformed(f"signatures array exceeds maximum of {_MOST_SIGNATURES}")
    for index, signature in enumerate(signatures):
        _check_members(index, signature)
    compact = json.dumps(container, sort_keys=True, separators=(",", ":")).encode()
    if base64.urlsafe_b64encode(compact).rstrip(b"=").decode() != value:
        why = "formatting variants give one signed message a second wire spelling"
        raise Malformed(f"auth container is not the signer's canonical compact JSON emit — {why}")
    for signature in signatures:
        _check_header(signature["protected"])


def _decoded(value: str, what: str) -> bytes:
    if not _BASE64URL.match(value):
        raise Malformed("invalid base64url value")
    try:
        content = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
    except binascii.Error:
        raise Malformed("invalid base64url length") from None
    if base64.urlsafe_b64encode(content).rstrip(b"=").decode() != value:
        raise Malformed(f"{what} is not the canonical base64url encoding of its bytes — {_SECOND_SPELLING}")
    return content


def _object(content: bytes, what: str) -> dict[str, object]:
    try:
        document = json.loads(content.decode(), object_pairs_hook=_without_doubles, parse_constant=_refused)
    except (ValueError, RecursionError) as error:
        raise Malformed(f"{what} is not valid JSON: {error}") from None
    if not isinstance(document, dict):
        raise Malformed(f"{what} must be a JSON object")
    return document


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members: dict[str, object] = {}
    for key, value in pairs:
        if key in members:
            raise Malformed(f"duplicate JSON key: {key!r}")
        members[key] = value
    return members


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _check_members(index: int, signature: object) -> None:
    if not isinstance(signature, dict) or signature.keys() != {"protected", "signature"}:
        raise Malformed(f"signatures[{index}] must be exactly {{protected, signature}}")
    for member, value in signature.items():
        if not isinstance(value, str) or not _BASE64URL.match(value):
            raise Malformed(f"signatures[{index}].{member} must be unpadded base64url")
    _decoded(str(signature["signature"]), f"signatures[{index}].signature")


def _check_header(protected: str) -> None:
    if len(protected) > _MOST_HEADER:
        raise Malformed("protected header missing or oversized")
    header = _object(_decoded(protected, "protected header"), "protected header")
    for name in _FORBIDDEN:
        if name in header:
            raise Malformed(f"forbidden JOSE parameter: {name!r}")
    _check_names(header, _HEADER, "protected")
    if header["alg"] != "EdDSA":
        raise Malformed("alg must be 'EdDSA'")
    if header["typ"] != "oacp-message+yaml":
        raise Malformed("typ must be 'oacp-message+yaml'")
    kid = header["kid"]
    if not isinstance(kid, str) or len(kid) != 43 or not _BASE64URL.match(kid):
        raise Malformed("kid must be an RFC 7638 SHA-256 JWK thumbprint (43 unpadded base64url characters)")
    if header["crit"] != ["oacp"]:
        raise Malformed("crit must be exactly ['oacp']")
    claims = header["oacp"]
    if not isinstance(claims, dict):
        raise Malformed("oacp header member must be a JSON object")
    _check_names(claims, _OACP, "oacp")
    _check_claims(claims)


def _check_names(document: dict[str, object], wanted: set[str], what: str) -> None:
    if unknown := sorted(document.keys() - wanted):
        raise Malformed(f"unknown {what} header member(s): {', '.join(unknown)}")
    if missing := sorted(wanted - document.keys()):
        raise Malformed(f"missing {what} header member(s): {', '.join(missing)}")


def _check_claims(claims: dict[str, object]) -> None:
    scheme, domain, agent, instance = (claims[name] for name in ("scheme", "domain", "agent", "instance"))
    if scheme != "raw-prefix-v1":
        raise Malformed(f"unknown signing scheme: {scheme!r}")
    if domain != "urn:oacp:message:v1":
        raise Malformed(f"unknown signing domain: {domain!r}")
    if not isinstance(agent, str) or not agent.startswith("urn:oacp:agent:"):
        raise Malformed("agent identity must start with 'urn:oacp:agent:'")
    trust_domain, colon, name = agent.removeprefix("urn:oacp:agent:").partition(":")
    if not colon:
        raise Malformed("agent identity must be urn:oacp:agent:<trust-domain-uuid>:<agent>")
    if not _UUID.match(trust_domain):
        raise Malformed(f"agent identity trust domain must be a UUID, got {trust_domain!r}")
    if not _NAME.match(name):
        raise Malformed(f"agent identity name must match {NAME_PATTERN}")
    if not isinstance(instance, str) or not instance.startswith("urn:uuid:"):
        raise Malformed("instance identity must start with 'urn:uuid:'")
    suffix = instance.removeprefix("urn:uuid:")
    if not _UUID.match(suffix):
        raise Malformed(f"instance identity must be urn:uuid:<uuid>, got suffix {suffix!r}")
