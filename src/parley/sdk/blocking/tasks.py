# Written by tools/gen_client.py from sdk/client/tasks.py. Change that, then run: make docs
"""Tasks: the pieces of work on an intent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from parley.sdk.blocking.area import Area
from parley.sdk.client.fields import if_match, lists_of, without_none
from parley.wire.api.records.intents import Task

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Tasks(Area):
    """What a client does with tasks."""

    def create_task(  # noqa: PLR0913  # one parameter a field
        self,
        intent_id: str,
        name: str,
        description: str | None = None,
        *,
        assigned_agent: str | None = None,
        priority: str | None = None,
        input: Any = None,  # noqa: A002, ANN401  # as the field is called; whatever JSON holds
        depends_on: Iterable[str] | None = None,
        blocks: Iterable[str] | None = None,
        capabilities_required: Iterable[str] | None = None,
        requires_tools: Iterable[Any] | None = None,
        plan_id: str | None = None,
        parent_task_id: str | None = None,
        retry_policy: Mapping[str, Any] | str | None = None,
        timeout_seconds: float | None = None,
        max_attempts: int | None = None,
        permissions: Mapping[str, Any] | str | None = None,
        memory_policy: Mapping[str, Any] | str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Task:
        """Create a task on an intent."""
        body = without_none(intent_id=intent_id, name=name, description=description, assigned_agent=assigned_agent)
        body |= without_none(priority=priority, input=input, plan_id=plan_id, parent_task_id=parent_task_id)
        body |= without_none(retry_policy=retry_policy, timeout_seconds=timeout_seconds, max_attempts=max_attempts)
        body |= without_none(permissions=permissions, memory_policy=memory_policy, metadata=metadata)
        body |= lists_of(depends_on=depends_on, blocks=blocks, requires_tools=requires_tools)
        body |= lists_of(capabilities_required=capabilities_required)
        return self._fetch(Task, "POST", "tasks", body=body)

    def get_task(self, task_id: str) -> Task:
        """A task."""
        return self._fetch(Task, "GET", "tasks", task_id)

    def update_task(  # noqa: PLR0913  # one parameter a field
        self,
        task_id: str,
        *,
        status: str | None = None,
        name: str | None = None,
        description: str | None = None,
        assigned_agent: str | None = None,
        priority: str | None = None,
        input: Any = None,  # noqa: A002, ANN401  # as the field is called; whatever JSON holds
        output: Any = None,  # noqa: ANN401
        artifacts: Iterable[Any] | None = None,
        attempt: int | None = None,
        blocked_reason: str | None = None,
        error: Any = None,  # noqa: ANN401
        depends_on: Iterable[str] | None = None,
        blocks: Iterable[str] | None = None,
        metadata: Mapping[str, Any] | None = None,
        version: int | None = None,
    ) -> Task:
        """Change a task; what is not given stays as it is.

        With a `version` only if it is still the current one, else `VersionMismatch`.
        """
        body = without_none(status=status, name=name, description=description, assigned_agent=assigned_agent)
        body |= without_none(priority=priority, input=input, output=output, attempt=attempt, error=error)
        body |= without_none(blocked_reason=blocked_reason, metadata=metadata)
        body |= lists_of(artifacts=artifacts, depends_on=depends_on, blocks=blocks)
        return self._fetch(Task, "PATCH", "tasks", task_id, body=body, headers=if_match(version))

    def list_tasks(
        self, intent_id: str, status: str | None = None, *, limit: int | None = None, offset: int | None = None
    ) -> list[Task]:
        """The tasks of an intent."""
        query = without_none(status=status, limit=limit, offset=offset)
        return self._fetch(list[Task], "GET", "intents", intent_id, "tasks", query=query)
