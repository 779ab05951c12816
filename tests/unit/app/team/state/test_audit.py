from parley.app.team.state.audit import AuditState


def test_until_somebody_has_looked_every_tenant_may_have_grown() -> None:
    state = AuditState()

    state.mark_active("acme")

    assert state.active is None


def test_afterwards_only_what_was_written_in_is_looked_at() -> None:
    state = AuditState()
    state.active = set()

    state.mark_active("acme")
    state.mark_active("acme")

    assert state.active == {"acme"}
