"""What can come of a workflow besides success, under the classes of `domain.errors`.

Invalid
└── WorkflowInvalid              workflow_invalid          `problems` name file, line and key
    └── WorkflowUnsupported      workflow_unsupported      its only flaws: features that Parley does not have
Conflict
└── WorkflowRunning              workflow_running          `facts` name the process that runs it
ParleyError
└── WorkflowFailed               workflow_failed           a step failed; the others that could be done are done
    ├── WorkflowTimedOut         workflow_timed_out
    └── WorkflowAbandoned        workflow_abandoned        somebody gave its intent up
"""

from parley.domain.errors.errors import Conflict, Invalid, ParleyError


class WorkflowInvalid(Invalid):
    """The workflow cannot be run as it is written."""

    __module__ = "parley"

    code = "workflow_invalid"


class WorkflowUnsupported(WorkflowInvalid):
    """The workflow file uses features of the OpenIntent SDK that Parley does not have."""

    code = "workflow_unsupported"


class WorkflowRunning(Conflict):
    """Another process runs the workflow."""

    __module__ = "parley"

    code = "workflow_running"


class WorkflowFailed(ParleyError):
    """A step of the workflow failed."""

    __module__ = "parley"

    code = "workflow_failed"


class WorkflowTimedOut(WorkflowFailed):
    """The workflow did not end in time."""

    __module__ = "parley"

    code = "workflow_timed_out"


class WorkflowAbandoned(WorkflowFailed):
    """The workflow's intent was given up."""

    __module__ = "parley"

    code = "workflow_abandoned"
