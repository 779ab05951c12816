"""Turn a refusal of the server back into the error that it raised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.domain.errors import rules as governance_errors
from parley.domain.errors import team as team_errors
from parley.domain.errors.errors import Conflict, Forbidden, Invalid, NotFound, ParleyError, Problem, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

# For codes of newer servers that this version does not know: the status gives the class.
_BY_STATUS: dict[int, type[ParleyError]] = {
    401: team_errors.Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: team_errors.Gone,
    429: team_errors.RateLimited,
    500: ParleyError,
}
# Imported so that all error classes exist: they are found by walking the tree of subclasses.
_DEFINED_IN = (team_errors, governance_errors)
_STANDARD = frozenset({"type", "title", "status", "code", "detail", "message", "errors"})


def refusal(status: int, document: object, retry_after: str = "") -> ParleyError:
    """The error that a problem document stands for: its class by its code, with problems and facts."""
    if not isinstance(document, dict):
        return _kind_of(status)(f"the server refused it with status {status}")
    code, detail = document.get("code"), document.get("detail") or document.get("message")
    kind = _errors_by_code().get(code) if isinstance(code, str) else None
    facts = {str(name): value for name, value in document.items() if name not in _STANDARD and value is not None}
    if retry_after.isdigit():
        facts["retry_after"] = int(retry_after)
    text = detail if isinstance(detail, str) else f"the server refused it with status {status}"
    return (kind or _kind_of(status))(text, problems=tuple(_problems(document.get("errors"))), facts=facts)


def is_temporary(error: ParleyError) -> bool:
    """Whether a retry may succeed: the server, or a proxy in front of it, is down, busy or has failed."""
    return isinstance(error, Unavailable | team_errors.RateLimited) or type(error) is ParleyError


def _kind_of(status: int) -> type[ParleyError]:
    return _BY_STATUS.get(status) or (Invalid if status < 500 else Unavailable)


def _errors_by_code() -> dict[str, type[ParleyError]]:
    """Every error by its code."""
    errors: dict[str, type[ParleyError]] = {}
    pending: list[type[ParleyError]] = [ParleyError]
    while pending:
        kind = pending.pop()
        errors.setdefault(kind.code, kind)
        pending += kind.__subclasses__()
    return errors


def _problems(entries: Any) -> Iterator[Problem]:  # noqa: ANN401  # whatever the server says
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict):
            yield Problem(*(str(entry.get(name, "")) for name in ("code", "field", "detail")))
