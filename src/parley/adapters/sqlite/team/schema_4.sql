-- A governed message opens an exchange, and an exchange is found by its conversation under its name as well: one index is
-- enough for those that have one.
DROP INDEX record_parent;
CREATE INDEX record_parent ON record (tenant, kind, parent, id) WHERE kind <> 'exchange' OR name = '';
-- One look at the end of the tenant's entries instead of two at their places.
DROP TRIGGER audit_is_next;
CREATE TRIGGER audit_is_next BEFORE INSERT ON audit
WHEN NEW.place <> 1 + IFNULL(
        (SELECT MAX(place) FROM audit WHERE place BETWEEN NEW.place & ~1099511627775 AND NEW.place | 1099511627775),
        NEW.place & ~1099511627775
    )
    OR EXISTS (SELECT 1 FROM audit WHERE tenant = NEW.place >> 40 AND side = NEW.side AND seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
