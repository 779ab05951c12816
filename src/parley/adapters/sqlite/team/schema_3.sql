-- Idempotency keys with a rowid: rows are appended, and only the narrow index on the scope, which is a hash, is written
-- all over. A table without one keeps whole answers in the order of the hashes: three times as many pages a key.
CREATE TABLE kept (
    scope       TEXT PRIMARY KEY,         -- tenant, caller, route and key
    fingerprint TEXT NOT NULL,
    made        TEXT NOT NULL,
    at          TEXT NOT NULL,
    message_id  TEXT NOT NULL,
    status      INTEGER NOT NULL,
    answer      BLOB NOT NULL
);
INSERT INTO kept SELECT * FROM saved ORDER BY at;
DROP TABLE saved;
ALTER TABLE kept RENAME TO saved;
CREATE INDEX saved_at ON saved (at);

-- Only what may still expire: an answered request never does, and the sweep went through all of them.
DROP INDEX post_expiry;
CREATE INDEX post_expiry ON post (expires_at) WHERE expires_at <> '' AND state <> 'expired' AND answered = 0;
-- Only requests that are open; nothing looks for them by channel.
DROP INDEX post_open_request;
CREATE INDEX post_open_request ON post (addressee) WHERE pattern = 'request' AND answered = 0 AND state <> 'expired';
-- The number is in every index already.
DROP INDEX post_answers;
CREATE INDEX post_answers ON post (in_reply_to) WHERE in_reply_to <> '';
