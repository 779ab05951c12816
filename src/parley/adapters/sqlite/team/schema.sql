-- The team's store: every tenant, one file. `number` is tenant number * 2^40 + position: the feed of a tenant lies together.
CREATE TABLE tenant (
    number         INTEGER PRIMARY KEY,
    id             TEXT NOT NULL UNIQUE,
    head           INTEGER NOT NULL,      -- the last position
    entry_position INTEGER NOT NULL,
    entry_link     BLOB NOT NULL
);

CREATE TABLE record (
    tenant   TEXT NOT NULL,
    kind     TEXT NOT NULL,
    id       TEXT NOT NULL,
    version  INTEGER NOT NULL,
    parent   TEXT NOT NULL,
    name     TEXT NOT NULL,
    due      TEXT NOT NULL,
    document BLOB NOT NULL,               -- JSON
    PRIMARY KEY (tenant, kind, id)
) WITHOUT ROWID;
CREATE UNIQUE INDEX record_name ON record (tenant, kind, parent, name) WHERE name <> '';
CREATE INDEX record_parent ON record (tenant, kind, parent, id);
CREATE INDEX record_due ON record (due) WHERE due <> '';

CREATE TABLE tally (
    number  INTEGER PRIMARY KEY,          -- the channel's, inside
    tenant  TEXT NOT NULL,
    id      TEXT NOT NULL UNIQUE,
    intent  TEXT NOT NULL,
    count   INTEGER NOT NULL,             -- messages accepted; never falls
    seq     INTEGER NOT NULL,             -- the last place taken
    last_at TEXT NOT NULL,
    floor   INTEGER NOT NULL              -- places up to this one are evicted
);

CREATE TABLE post (
    number      INTEGER PRIMARY KEY,
    channel     INTEGER NOT NULL,
    seq         INTEGER NOT NULL,
    id          TEXT NOT NULL UNIQUE,
    sender      TEXT NOT NULL,
    addressee   TEXT NOT NULL,
    pattern     TEXT NOT NULL,
    in_reply_to TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    expires_at  TEXT NOT NULL,
    state       TEXT NOT NULL,
    recipients  TEXT,                     -- ",a,b,"; NULL is everyone
    answered    INTEGER NOT NULL,
    payload     BLOB NOT NULL,
    metadata    BLOB NOT NULL
);
CREATE UNIQUE INDEX post_place ON post (channel, seq);
CREATE INDEX post_answers ON post (in_reply_to, number) WHERE in_reply_to <> '';
CREATE INDEX post_expiry ON post (expires_at) WHERE expires_at <> '' AND state <> 'expired';
CREATE INDEX post_pending ON post (addressee) WHERE state = 'pending';
CREATE INDEX post_open_request ON post (addressee, channel) WHERE pattern = 'request' AND answered = 0;

CREATE TABLE receipt (
    post_id TEXT NOT NULL,
    agent   TEXT NOT NULL,
    read_at TEXT NOT NULL,
    PRIMARY KEY (post_id, agent)
) WITHOUT ROWID;

CREATE TABLE event (
    number     INTEGER PRIMARY KEY,
    intent_id  TEXT NOT NULL,
    sequence   INTEGER NOT NULL,
    id         TEXT NOT NULL UNIQUE,
    event_type TEXT NOT NULL,
    actor      TEXT NOT NULL,
    created_at TEXT NOT NULL,
    trace_id   TEXT NOT NULL,
    document   BLOB NOT NULL,             -- JSON as it is served, with its hash
    hash       TEXT NOT NULL
);
CREATE UNIQUE INDEX event_place ON event (intent_id, sequence);
CREATE INDEX event_trace ON event (trace_id) WHERE trace_id <> '';
CREATE TRIGGER event_is_final_update BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;
CREATE TRIGGER event_is_final_delete BEFORE DELETE ON event BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END;

CREATE TABLE entry (
    tenant   INTEGER NOT NULL,
    position INTEGER NOT NULL,
    document TEXT NOT NULL,
    link     BLOB NOT NULL,
    PRIMARY KEY (tenant, position)
) WITHOUT ROWID;
CREATE TRIGGER entry_is_next BEFORE INSERT ON entry
WHEN NEW.position <> (SELECT IFNULL(MAX(position), 0) + 1 FROM entry WHERE tenant = NEW.tenant)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entry_is_final_update BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entry_is_final_delete BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TABLE saved (
    scope       TEXT PRIMARY KEY,         -- tenant, caller, route and key
    fingerprint TEXT NOT NULL,
    made        TEXT NOT NULL,
    at          TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    status      INTEGER NOT NULL,
    answer      BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX saved_at ON saved (at);
