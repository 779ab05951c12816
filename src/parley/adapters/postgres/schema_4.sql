-- Messages and audit entries that were removed, counted by the hour in which they were sent: who talked to whom outlives them.
-- The same table as in a file. Triggers write it, so that nodes of the version before count what they remove, too.
CREATE TABLE traffic (
    tenant     bigint NOT NULL,
    hour       text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    sender     text COLLATE "C" NOT NULL,
    digest     text COLLATE "C" NOT NULL,
    receivers  text COLLATE "C" NOT NULL,
    number     bigint NOT NULL,
    low        bigint NOT NULL,
    high       bigint NOT NULL,
    first_at   text COLLATE "C" NOT NULL,
    last_at    text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, hour, kind, scope, sender, digest)
);
SELECT set_config('parley.tenants', '*', true);
-- Channels that have evicted messages before: up to when.
INSERT INTO traffic
SELECT tenant, '', 'uncounted', tally.id, '', '', '', 0, 0, 0, '', coalesce(
    (SELECT post.created_at FROM post WHERE channel = tally.number AND post.seq > floor ORDER BY post.seq LIMIT 1), last_at
)
FROM tally WHERE floor > 0;
ALTER TABLE traffic ENABLE ROW LEVEL SECURITY;
ALTER TABLE traffic FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON traffic USING ((SELECT current_setting('parley.tenants', true) = '*')
    OR tenant = ANY ((SELECT string_to_array(nullif(current_setting('parley.tenants', true), '*'), ',')::bigint[])::bigint[]));

-- A copy brings the counts of its source with it: while it is written, nothing is counted.
CREATE FUNCTION parley_count_posts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM about WHERE name = 'state' AND value = 'copying') THEN
        RETURN NULL;
    END IF;
    INSERT INTO traffic
    SELECT one.tenant, one.hour, 'delivered', one.scope, one.sender,
        left(encode(sha256(convert_to(one.receivers, 'UTF8')), 'hex'), 32), one.receivers, count(*), min(one.position),
        max(one.position), min(one.created_at), max(one.created_at)
    FROM (
        SELECT gone.number >> 40 AS tenant, left(gone.created_at, 13) COLLATE "C" AS hour, coalesce(tally.id, '') AS scope,
            gone.sender, CASE WHEN gone.recipients IS NULL THEN '*'
                WHEN gone.recipients = ',,' AND gone.addressee LIKE 'any:%' THEN gone.addressee
                ELSE gone.recipients END COLLATE "C" AS receivers,
            gone.number & 1099511627775 AS position, gone.created_at
        FROM gone LEFT JOIN tally ON tally.number = gone.channel WHERE gone.state <> 'pending' AND gone.sender <> 'system'
    ) AS one
    GROUP BY one.tenant, one.hour, one.scope, one.sender, one.receivers ORDER BY 1, 2, 4, 5, 6
    ON CONFLICT (tenant, hour, kind, scope, sender, digest) DO UPDATE SET number = traffic.number + excluded.number,
        low = least(traffic.low, excluded.low), high = greatest(traffic.high, excluded.high),
        first_at = least(traffic.first_at, excluded.first_at), last_at = greatest(traffic.last_at, excluded.last_at);
    RETURN NULL;
END $$;
CREATE TRIGGER post_is_counted AFTER DELETE ON post REFERENCING OLD TABLE AS gone
    FOR EACH STATEMENT EXECUTE FUNCTION parley_count_posts();

-- Held and denied messages are entries of the audit log, counted when their documents are let go of.
CREATE FUNCTION parley_count_entries() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM about WHERE name = 'state' AND value = 'copying') THEN
        RETURN NULL;
    END IF;
    INSERT INTO traffic
    SELECT one.tenant, one.hour, one.outcome, one.side, one.sender,
        left(encode(sha256(convert_to(one.receivers, 'UTF8')), 'hex'), 32), one.receivers, count(*), min(one.number),
        max(one.number), min(one.at), max(one.at)
    FROM (
        SELECT entry.place >> 40 AS tenant, left(entry.at, 13) COLLATE "C" AS hour, entry.side, entry.at,
            entry.place & 1099511627775 AS number, (facts ->> 'outcome') COLLATE "C" AS outcome,
            (facts ->> 'sender') COLLATE "C" AS sender,
            coalesce(nullif(facts ->> 'receivers', '[]'), facts ->> 'to', '') COLLATE "C" AS receivers
        FROM (
            SELECT *, CASE WHEN substring(document FROM 1 FOR 1) = '{' THEN convert_from(document, 'UTF8')::json END AS facts FROM trimmed
        ) AS entry
        WHERE facts ->> 'action' = 'agent_exchange' AND facts ->> 'outcome' IN ('held', 'denied')
            AND facts ->> 'sender' IS NOT NULL
    ) AS one
    GROUP BY one.tenant, one.hour, one.outcome, one.side, one.sender, one.receivers ORDER BY 1, 2, 3, 4, 5, 6
    ON CONFLICT (tenant, hour, kind, scope, sender, digest) DO UPDATE SET number = traffic.number + excluded.number,
        low = least(traffic.low, excluded.low), high = greatest(traffic.high, excluded.high),
        first_at = least(traffic.first_at, excluded.first_at), last_at = greatest(traffic.last_at, excluded.last_at);
    RETURN NULL;
END $$;
CREATE TRIGGER audit_is_counted AFTER UPDATE ON audit REFERENCING OLD TABLE AS trimmed
    FOR EACH STATEMENT EXECUTE FUNCTION parley_count_entries();
