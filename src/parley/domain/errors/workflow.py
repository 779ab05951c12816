"""What can come of a workflow besides success, under the classes of `domain.errors`.

Invalid
└── WorkflowInvalid              workflow_invalid          `problems` name file, line and key
ParleyError
└── WorkflowFailed               workflow_failed           a step failed; the others that could be done are done
    ├── WorkflowTimedOut         workflow_timed_out
    └── WorkflowAbandoned        workflow_abandoned        somebody gave its intent up
"""

from parley.domain.errors.errors import Invalid, ParleyError


class WorkflowInvalid(Invalid):
    """The workflow cannot be run as it is written."""

    code = "workflow_invalid"


class WorkflowFailed(ParleyError):
    """A step of the workflow failed."""

    code = "workflow_failed"


class WorkflowTimedOut(WorkflowFailed):
    """The workflow did not end in time."""

    code = "workflow_timed_out"


class WorkflowAbandoned(WorkflowFailed):
    """The workflow's intent was given up."""

    code = "workflow_abandoned"
