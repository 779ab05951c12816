-- Governed exchange on a mailbox: what is kept by id, and the agent's own side of the audit log.
CREATE TABLE record (
    kind     TEXT NOT NULL,
    id       TEXT NOT NULL,
    version  INTEGER NOT NULL,
    parent   TEXT NOT NULL,
    name     TEXT NOT NULL,       -- unique with its parent, when it is not empty
    due      TEXT NOT NULL,       -- when something has to happen to it; empty for never
    document BLOB NOT NULL,       -- JSON
    PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX record_parent ON record (kind, parent, id);
CREATE UNIQUE INDEX record_name ON record (kind, parent, name) WHERE name <> '';
CREATE INDEX record_due ON record (due) WHERE due <> '';

CREATE TABLE audit (
    seq      INTEGER PRIMARY KEY,
    id       TEXT NOT NULL,
    side     TEXT NOT NULL,
    tenant   TEXT NOT NULL,
    at       TEXT NOT NULL,
    exchange TEXT NOT NULL,
    hash     TEXT NOT NULL,
    document BLOB NOT NULL        -- canonical JSON, which is hashed
);
CREATE TRIGGER audit_is_next BEFORE INSERT ON audit
WHEN NEW.seq <> (SELECT IFNULL(MAX(seq), 0) + 1 FROM audit)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_is_final_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_is_final_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
