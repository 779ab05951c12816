"""Policy files: the policies in force are mirrored, and edits come into force within about a second."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from parley.app.team.rules import policies
from parley.domain.directory.callers import NO_TENANT, Caller, KeyKind, Tenant
from parley.domain.errors.errors import ParleyError
from parley.domain.hashes import digest
from parley.domain.rules.policy import BrokenPolicy

if TYPE_CHECKING:
    from parley.app.team.team import Team
    from parley.domain.rules.policy import PolicyLook
    from parley.ports.outside import PolicyFolder

_log = logging.getLogger("parley.policies")
LOOK_SECONDS = 1.0
_PAGE = 1_000


async def follow_forever(team: Team) -> None:
    """Synchronise files and policies every second, or at once after a change, until cancelled."""
    folder = team.policies.folder
    while folder is not None:
        team.policies.look.clear()
        try:
            await follow(team, folder)
        except ParleyError as error:
            _log.warning("the policy files were not followed", extra={"action": "policy_files", "code": error.code})
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await team.policies.look.wait()
        except TimeoutError:
            continue


async def follow(team: Team, folder: PolicyFolder) -> None:
    """Synchronise the files of all tenants once."""
    after = ""
    while page := await team.store.children(Tenant, NO_TENANT, "", after=after, limit=_PAGE):
        looks = await folder.look([tenant.id for tenant in page])
        await team.store.catch_up(*looks)
        for tenant, look in looks.items():
            try:
                passed = await _take_over(team, tenant, look)
                await _mirror(team, folder, tenant, gone=look.gone or passed)
            except ParleyError as error:
                about = {"action": "policy_files", "tenant": tenant, "code": error.code, "detail": error.message}
                _log.warning("the policy files of a tenant were not followed", extra=about)
        after = page[-1].id


async def _take_over(team: Team, tenant: str, look: PolicyLook) -> bool:
    """Put edited files into force and report invalid ones; whether an edit was outdated.

    A file is an edit of the text that it was written from. If another server has put something else into force since,
    the edit is outdated and gives way. In a tenant that still has its first policies no edit is outdated.
    """
    await policies.settle(team, tenant)
    before = await policies.current(team, tenant)
    in_force = before.texts if before.version > 1 else {}
    broken, passed = list(look.broken), False
    caller = Caller(tenant, "", KeyKind.ADMIN, "", user=policies.FILE_EDITOR)
    for edit in look.edited:
        scope, _, name = edit.document.partition("/")
        text = in_force.get(edit.document, edit.text)
        if text != edit.text and digest(text.encode()) != edit.base:
            about = {"action": "policy_files", "tenant": tenant, "file": f"{edit.document}.yaml"}
            _log.warning(
                "a policy file was edited from what is no longer in force; it is kept as .replaced", extra=about
            )
            passed = True
            continue
        try:
            now = await policies.put(team, caller, scope, name, edit.text, edit.fragment)
        except ParleyError as error:
            broken.append(BrokenPolicy(f"{edit.document}.yaml", f"{edit.document}.yaml: {error.message}"))
            continue
        about = {"action": policies.CHANGED, "tenant": tenant, "document": edit.document, "policy": now.label}
        _log.info("a policy file was taken over", extra=about)
    reported = {file.message for file in team.policies.broken.get(tenant, ())}
    team.policies.broken[tenant] = tuple(broken)
    for file in broken:
        if file.message not in reported:
            about = {"action": "policy_broken", "tenant": tenant, "file": file.file, "detail": file.message}
            _log.error("a policy file cannot be used; what was in force before stays in force", extra=about)
    return passed


async def _mirror(team: Team, folder: PolicyFolder, tenant: str, *, gone: bool) -> None:
    """Write the files when the policies have changed or a file is missing."""
    now = await policies.current(team, tenant)
    if team.policies.mirrored.get(tenant) == now.label and not gone:
        return
    for file in await folder.mirror(tenant, now.texts):
        about = {"action": "policy_files", "tenant": tenant, "file": file}
        _log.warning("a policy file was gone, and is back; to take a policy away: parley policy remove", extra=about)
    team.policies.mirrored[tenant] = now.label
