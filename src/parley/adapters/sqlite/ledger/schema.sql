-- One agent's private ledger. Integer keys inside, few indexes; ids are text because foreign tools mint them too.
CREATE TABLE message (
    number          INTEGER PRIMARY KEY,
    id              TEXT NOT NULL,
    digest          TEXT NOT NULL,
    sender          TEXT NOT NULL,
    conversation_id TEXT NOT NULL,
    document        TEXT NOT NULL,   -- the message, as JSON
    search          TEXT NOT NULL,   -- subject, id and body without case
    content         BLOB NOT NULL,   -- the exact bytes of the file
    UNIQUE (id, digest)
);
CREATE INDEX message_conversation ON message (conversation_id) WHERE conversation_id <> '';

CREATE TABLE delivery (
    number     INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL,
    digest     TEXT NOT NULL,
    recipient  TEXT NOT NULL,
    file       TEXT NOT NULL,
    status     TEXT NOT NULL,
    tries      INTEGER NOT NULL,
    lease      TEXT,                 -- JSON [token, until, boot, until_uptime]
    reason     TEXT NOT NULL,
    UNIQUE (message_id, digest, recipient)
);
CREATE INDEX delivery_file ON delivery (file);
CREATE INDEX delivery_open ON delivery (status) WHERE status IN ('pending', 'claimed');

CREATE TABLE entry (
    position INTEGER PRIMARY KEY,
    document TEXT NOT NULL,
    link     BLOB NOT NULL
);
-- Also against INSERT OR REPLACE, which deletes without asking the other triggers.
CREATE TRIGGER entry_is_next BEFORE INSERT ON entry
WHEN NEW.position <> (SELECT IFNULL(MAX(position), 0) + 1 FROM entry)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entry_is_final_update BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entry_is_final_delete BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;

CREATE TABLE seen (
    watcher TEXT NOT NULL,
    file    TEXT NOT NULL,
    PRIMARY KEY (watcher, file)
) WITHOUT ROWID;
