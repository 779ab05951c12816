-- Messages and audit entries that were removed, counted by the hour in which they were sent: who talked to whom outlives them.
-- Written only by what removes them, in its transaction.
CREATE TABLE traffic (
    tenant     INTEGER NOT NULL,
    hour       TEXT NOT NULL,             -- 2026-03-13T08; empty in a row about what was removed before it was counted
    kind       TEXT NOT NULL,             -- delivered, held, denied; uncounted
    scope      TEXT NOT NULL,             -- the channel, empty when it was deleted; of held and denied ones the side of the log
    sender     TEXT NOT NULL,
    digest     TEXT NOT NULL,             -- of the receivers, which may be many
    receivers  TEXT NOT NULL,
    number     INTEGER NOT NULL,          -- how many
    low        INTEGER NOT NULL,          -- the positions of the first and of the last one
    high       INTEGER NOT NULL,
    first_at   TEXT NOT NULL,
    last_at    TEXT NOT NULL,
    PRIMARY KEY (tenant, hour, kind, scope, sender, digest)
) WITHOUT ROWID;
-- Channels that have evicted messages before: up to when.
INSERT INTO traffic
SELECT tenant.number, '', 'uncounted', tally.id, '', '', '', 0, 0, 0, '', IFNULL(
    (SELECT post.created_at FROM post WHERE channel = tally.number AND seq > floor ORDER BY seq LIMIT 1), last_at
)
FROM tally JOIN tenant ON tenant.id = tally.tenant WHERE floor > 0;
