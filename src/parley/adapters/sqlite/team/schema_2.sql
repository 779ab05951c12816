-- Governed exchange: which exchange a message is part of, the audit log, and what was spent of a budget.
ALTER TABLE tenant ADD COLUMN audit_number INTEGER NOT NULL DEFAULT 0;   -- entries in the audit log
ALTER TABLE post ADD COLUMN exchange TEXT NOT NULL DEFAULT '';

-- Records with a rowid: exchanges and policies are long, and a table without one keeps whole rows in its upper pages,
-- and whatever is longer than a quarter of a page in a page of its own.
CREATE TABLE kept (
    tenant   TEXT NOT NULL,
    kind     TEXT NOT NULL,
    id       TEXT NOT NULL,
    version  INTEGER NOT NULL,
    parent   TEXT NOT NULL,
    name     TEXT NOT NULL,
    due      TEXT NOT NULL,
    document BLOB NOT NULL,               -- JSON
    PRIMARY KEY (tenant, kind, id)
);
INSERT INTO kept SELECT * FROM record;
DROP TABLE record;
ALTER TABLE kept RENAME TO record;
CREATE UNIQUE INDEX record_name ON record (tenant, kind, parent, name) WHERE name <> '';
CREATE INDEX record_parent ON record (tenant, kind, parent, id);
CREATE INDEX record_due ON record (due) WHERE due <> '';

CREATE TABLE audit (
    place    INTEGER PRIMARY KEY,         -- tenant * 2^40 + number
    side     TEXT NOT NULL,
    seq      INTEGER NOT NULL,            -- its place on its side
    id       TEXT NOT NULL,
    at       TEXT NOT NULL,
    exchange TEXT NOT NULL,
    hash     TEXT NOT NULL,
    document BLOB NOT NULL,               -- canonical JSON, which is hashed; empty when it was let go of
    tenant   INTEGER AS (place >> 40) VIRTUAL,
    number   INTEGER AS (place & 1099511627775) VIRTUAL   -- its place among the tenant's entries: the leaf of the tree
);
CREATE UNIQUE INDEX audit_side ON audit (tenant, side, seq);
CREATE INDEX audit_id ON audit (id);
CREATE INDEX audit_exchange ON audit (exchange, tenant) WHERE exchange <> '';
-- Nor is one replaced, which would fire no trigger of a delete: neither at its place nor on its side.
CREATE TRIGGER audit_is_next BEFORE INSERT ON audit
WHEN NEW.place & 1099511627775 <> 1 AND NOT EXISTS (SELECT 1 FROM audit WHERE place = NEW.place - 1)
    OR EXISTS (SELECT 1 FROM audit WHERE place = NEW.place)
    OR EXISTS (SELECT 1 FROM audit WHERE tenant = NEW.place >> 40 AND side = NEW.side AND seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
-- A document may be let go of; what it was, its hash still says.
CREATE TRIGGER audit_is_final_update BEFORE UPDATE ON audit
WHEN NEW.document <> x'' OR NEW.place <> OLD.place OR NEW.side <> OLD.side
    OR NEW.seq <> OLD.seq OR NEW.id <> OLD.id OR NEW.at <> OLD.at OR NEW.exchange <> OLD.exchange OR NEW.hash <> OLD.hash
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_is_final_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

CREATE TABLE budget (
    tenant TEXT NOT NULL,
    key    TEXT NOT NULL,
    window TEXT NOT NULL,                 -- the span of time that it is for; empty: for ever
    spent  INTEGER NOT NULL,
    PRIMARY KEY (tenant, key, window)
) WITHOUT ROWID;
CREATE INDEX budget_window ON budget (window) WHERE window <> '';
