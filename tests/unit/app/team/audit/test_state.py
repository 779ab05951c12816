from parley.app.team.audit.state import AuditKeeping


def test_until_somebody_has_looked_every_tenant_may_have_grown() -> None:
    keeping = AuditKeeping()

    keeping.wrote("acme")

    assert keeping.active is None


def test_afterwards_only_what_was_written_in_is_looked_at() -> None:
    keeping = AuditKeeping()
    keeping.active = set()

    keeping.wrote("acme")
    keeping.wrote("acme")

    assert keeping.active == {"acme"}
