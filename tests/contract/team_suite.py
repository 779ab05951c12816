"""The whole contract of a server's store: a store's own test inherits this and says how to make one."""

from __future__ import annotations

from tests.contract.team_audit import TeamAuditContract
from tests.contract.team_commits import TeamCommitsContract
from tests.contract.team_conversations import TeamConversationsContract
from tests.contract.team_endings import TeamEndingsContract
from tests.contract.team_governance import TeamGovernanceContract
from tests.contract.team_messages import TeamMessagesContract
from tests.contract.team_records import TeamRecordsContract
from tests.contract.team_requests import TeamRequestsContract
from tests.contract.team_scopes import TeamScopesContract
from tests.contract.team_traffic import TeamTrafficContract


class TeamSuite(
    TeamRecordsContract,
    TeamMessagesContract,
    TeamRequestsContract,
    TeamEndingsContract,
    TeamCommitsContract,
    TeamGovernanceContract,
    TeamAuditContract,
    TeamScopesContract,
    TeamConversationsContract,
    TeamTrafficContract,
):
    """Every part of it."""
