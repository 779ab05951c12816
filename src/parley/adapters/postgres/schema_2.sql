-- A group of commits in one round trip: the heads are locked, what was decided is compared with what is there, and all
-- rows are written. Called as a statement of its own, its end is the commit.
--
-- The caller decided at the revisions that it knows. Each tenant whose head still has that revision is written as it was
-- decided. One that others have written in meanwhile is written all the same, if all of it may be moved (`movable`: only
-- messages, receipts and idempotency keys) and the others changed no record, chain or budget: then the decision holds,
-- and the rows take the next positions, sequence numbers and times; an answer that names the old ones is not stored with
-- its idempotency key, and is built from the messages when it is asked for. Everything else is left to the caller, with what the
-- journal says. `written` tells which; the heads that are returned are those from before.
--
-- Callers of messages may have been admitted by what the node knew of the keys (`keys`). Nothing is written when they have
-- changed since, or when an idempotency key that has to be unused is used.
--
-- Who lost the connection and does not know what became of the group calls again with the same values: what the journal
-- says of it has the mark of the group, so it is written once.
--
-- Each statement in here has a snapshot of its own, so what comes after the lock is not older than the lock.
CREATE FUNCTION parley_commit(
    wait integer, mark text,
    -- The tenant of the keys by which callers were admitted, and the revision of it that the caller knows; 0: none were.
    keys bigint, keys_known bigint,
    -- Tenants in order: what the caller knows of them, how many positions it takes, and what is there afterwards.
    numbers bigint[], known bigint[], positions bigint[], movable boolean[], taken bigint[], entry_positions bigint[],
    entry_links bytea[], audit_numbers bigint[], documents bytea[],
    -- Idempotency keys that must be unused.
    unused text[],
    -- Channels: the last seq that the caller knows, the counters afterwards, and how many messages the channel keeps.
    tallies bigint[], known_seqs bigint[], seqs bigint[], counts bigint[], last_times text[], floors bigint[],
    most bigint[],
    post_numbers bigint[], post_channels bigint[], post_seqs bigint[], post_ids text[], post_senders text[],
    post_addressees text[], post_patterns text[], post_replies text[], post_created text[], post_expires text[],
    post_states text[], post_recipients text[], post_answered boolean[], post_payloads bytea[], post_metadata bytea[],
    post_exchanges text[],
    answered_tenants bigint[], answered_ids text[],
    saved_tenants bigint[], saved_scopes text[], saved_fingerprints text[], saved_made text[], saved_at text[],
    saved_messages text[], saved_statuses integer[], saved_answers bytea[],
    -- Beside messages. Who writes only those leaves the rest out.
    receipt_tenants bigint[] DEFAULT '{}', receipt_posts text[] DEFAULT '{}', receipt_agents text[] DEFAULT '{}',
    receipt_times text[] DEFAULT '{}',
    entry_tenants bigint[] DEFAULT '{}', entry_places bigint[] DEFAULT '{}', entry_documents text[] DEFAULT '{}',
    entry_hashes bytea[] DEFAULT '{}',
    dropped_tenants bigint[] DEFAULT '{}', dropped_kinds text[] DEFAULT '{}', dropped_ids text[] DEFAULT '{}',
    released_tenants bigint[] DEFAULT '{}', released_kinds text[] DEFAULT '{}', released_ids text[] DEFAULT '{}',
    put_tenants bigint[] DEFAULT '{}', put_kinds text[] DEFAULT '{}', put_ids text[] DEFAULT '{}',
    put_versions bigint[] DEFAULT '{}', put_parents text[] DEFAULT '{}', put_names text[] DEFAULT '{}',
    put_dues text[] DEFAULT '{}', put_documents bytea[] DEFAULT '{}',
    event_numbers bigint[] DEFAULT '{}', event_intents text[] DEFAULT '{}', event_sequences bigint[] DEFAULT '{}',
    event_ids text[] DEFAULT '{}', event_types text[] DEFAULT '{}', event_actors text[] DEFAULT '{}',
    event_times text[] DEFAULT '{}', event_traces text[] DEFAULT '{}', event_documents bytea[] DEFAULT '{}',
    event_hashes text[] DEFAULT '{}',
    audit_places bigint[] DEFAULT '{}', audit_sides text[] DEFAULT '{}', audit_seqs bigint[] DEFAULT '{}',
    audit_ids text[] DEFAULT '{}', audit_times text[] DEFAULT '{}', audit_exchanges text[] DEFAULT '{}',
    audit_hashes text[] DEFAULT '{}', audit_documents bytea[] DEFAULT '{}',
    budget_tenants bigint[] DEFAULT '{}', budget_keys text[] DEFAULT '{}', budget_spans text[] DEFAULT '{}',
    budget_spent bigint[] DEFAULT '{}'
)
RETURNS TABLE (
    number bigint, head bigint, revision bigint, entry_position bigint, entry_link bytea, audit_number bigint,
    notes bytea[], written boolean
) LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    held bigint[];       -- tenants whose heads we have
    revisions bigint[];  -- and where they stand
    heads bigint[];
    going bigint[];      -- tenants that are written
    shifts bigint[];     -- and by how much their positions have moved
    moved bigint[] := '{}';  -- those of them that others have written in meanwhile
    is_refused boolean;     -- an idempotency key is used, or the keys have changed: nothing is written
    is_light boolean;
    is_done boolean;
    tenant_row tenant%ROWTYPE;
BEGIN
    PERFORM set_config('parley.tenants', array_to_string(numbers, ','), true);
    IF wait > 0 THEN
        PERFORM set_config('lock_timeout', wait::text, true);
        -- First come, first served, as in parley_enter.
        PERFORM pg_advisory_xact_lock(1885434476, one::integer) FROM unnest(numbers) AS one;
        SELECT array_agg(one.number), array_agg(one.revision), array_agg(one.head) INTO held, revisions, heads FROM (
            SELECT tenant.number, tenant.revision, tenant.head FROM tenant WHERE tenant.number = ANY (numbers)
            ORDER BY tenant.number FOR UPDATE
        ) AS one;
    ELSE
        SELECT array_agg(one.number), array_agg(one.revision), array_agg(one.head) INTO held, revisions, heads FROM (
            SELECT tenant.number, tenant.revision, tenant.head FROM tenant WHERE tenant.number = ANY (numbers)
            ORDER BY tenant.number FOR UPDATE SKIP LOCKED
        ) AS one;
    END IF;
    -- Read after the lock: whoever changed the keys and has the answer is seen.
    is_refused := (keys > 0 AND keys_known <> (SELECT tenant.revision FROM tenant WHERE tenant.number = keys))
        OR (cardinality(unused) > 0 AND EXISTS (SELECT 1 FROM saved WHERE saved.scope = ANY (unused)));

    IF held = numbers AND revisions = known AND heads = positions AND NOT is_refused THEN
        going := numbers;
        INSERT INTO post SELECT * FROM unnest(
            post_numbers, post_channels, post_seqs, post_ids, post_senders, post_addressees, post_patterns, post_replies,
            post_created, post_expires, post_states, post_recipients, post_answered, post_payloads, post_metadata,
            post_exchanges
        );
        UPDATE tally SET count = one.count, seq = one.seq, last_at = one.last_at, floor = one.floor
        FROM unnest(tallies, counts, seqs, last_times, floors) AS one (number, count, seq, last_at, floor)
        WHERE tally.number = one.number;
        UPDATE tenant SET head = tenant.head + one.taken, revision = tenant.revision + 1,
            entry_position = one.entry_position, entry_link = one.entry_link, audit_number = one.audit_number
        FROM unnest(numbers, taken, entry_positions, entry_links, audit_numbers)
            AS one (number, taken, entry_position, entry_link, audit_number)
        WHERE tenant.number = one.number;
        INSERT INTO journal (tenant, revision, document)
            SELECT one.number, one.known + 1, one.document FROM unnest(numbers, known, documents)
                AS one (number, known, document);
        RETURN QUERY SELECT one.number, NULL::bigint, one.known, NULL::bigint, NULL::bytea, NULL::bigint, NULL::bytea[],
            true FROM unnest(numbers, known) AS one (number, known);
    ELSE
        FOR i IN 1 .. cardinality(numbers) LOOP
            CONTINUE WHEN held IS NULL OR NOT numbers[i] = ANY (held);
            SELECT * INTO tenant_row FROM tenant WHERE tenant.number = numbers[i];
            number := numbers[i];
            head := tenant_row.head;
            revision := tenant_row.revision;
            entry_position := tenant_row.entry_position;
            entry_link := tenant_row.entry_link;
            audit_number := tenant_row.audit_number;
            notes := ARRAY(
                SELECT journal.document FROM journal WHERE journal.tenant = numbers[i]
                    AND journal.revision > known[i] ORDER BY journal.revision LIMIT 1001
            );
            -- Of a note: 1 is its records, 3 and 4 what ended and departed, 5 whether chains or budgets changed, 8 the
            -- mark of its group.
            SELECT cardinality(notes) = tenant_row.revision - known[i] AND coalesce(bool_and(
                json_array_length(one.note -> 1) = 0 AND json_array_length(one.note -> 3) = 0
                AND json_array_length(one.note -> 4) = 0 AND one.note ->> 5 = 'false'
            ), true), coalesce(bool_or(one.note ->> 8 = mark), false) INTO is_light, is_done FROM (
                SELECT convert_from(document, 'UTF8')::json AS note FROM unnest(notes) AS document
            ) AS one;
            written := is_done OR (NOT is_refused AND (
                (revision = known[i] AND head = positions[i]) OR (is_light AND movable[i])
            ));
            IF written AND NOT is_done THEN
                going := going || number;
                shifts := shifts || head - positions[i];
                IF revision <> known[i] THEN
                    moved := moved || number;
                END IF;
            END IF;
            RETURN NEXT;
        END LOOP;
        IF going IS NULL THEN
            RETURN;
        END IF;
        WITH place AS MATERIALIZED (
            SELECT one.number, one.seq - one.known AS added, one.last_at COLLATE "C" AS last_at, one.most,
                tally.seq - one.known AS shift, tally.last_at AS after
            FROM unnest(tallies, known_seqs, seqs, last_times, most) AS one (number, known, seq, last_at, most)
            JOIN tally ON tally.number = one.number WHERE tally.tenant = ANY (going)
        ), counted AS (
            UPDATE tally SET count = tally.count + place.added, seq = tally.seq + place.added,
                last_at = greatest(tally.last_at, place.last_at),
                floor = greatest(tally.floor, tally.seq + place.added - place.most)
            FROM place WHERE tally.number = place.number
        )
        INSERT INTO post SELECT one.number + place_shift.shift, one.channel, one.seq + place.shift, one.id, one.sender,
            one.addressee, one.pattern, one.in_reply_to, greatest(one.created_at COLLATE "C", place.after),
            one.expires_at, one.state, one.recipients, one.answered, one.payload, one.metadata, one.exchange
        FROM unnest(
            post_numbers, post_channels, post_seqs, post_ids, post_senders, post_addressees, post_patterns, post_replies,
            post_created, post_expires, post_states, post_recipients, post_answered, post_payloads, post_metadata,
            post_exchanges
        ) AS one (
            number, channel, seq, id, sender, addressee, pattern, in_reply_to, created_at, expires_at, state, recipients,
            answered, payload, metadata, exchange
        )
        JOIN place ON place.number = one.channel
        JOIN unnest(going, shifts) AS place_shift (tenant, shift) ON place_shift.tenant = one.number >> 40;
        FOR i IN 1 .. cardinality(numbers) LOOP
            CONTINUE WHEN NOT numbers[i] = ANY (going);
            UPDATE tenant SET head = tenant.head + taken[i], revision = tenant.revision + 1,
                entry_position = CASE tenant.revision WHEN known[i] THEN entry_positions[i] ELSE tenant.entry_position END,
                entry_link = CASE tenant.revision WHEN known[i] THEN entry_links[i] ELSE tenant.entry_link END,
                audit_number = CASE tenant.revision WHEN known[i] THEN audit_numbers[i] ELSE tenant.audit_number END
            WHERE tenant.number = numbers[i] RETURNING * INTO tenant_row;
            INSERT INTO journal (tenant, revision, document) SELECT numbers[i], tenant_row.revision,
                CASE tenant_row.revision WHEN known[i] + 1 THEN documents[i] ELSE convert_to(json_build_array(
                    json_build_array(tenant_row.head, tenant_row.entry_position,
                        encode(tenant_row.entry_link, 'base64'), tenant_row.audit_number),
                    json '[]', coalesce(json_agg(tally.id), '[]'), json '[]', json '[]', false,
                    coalesce(json_object_agg(tally.id, json_build_array(tally.number, tally.intent, tally.seq, tally.count,
                        tally.last_at, tally.floor)) FILTER (WHERE tally.id IS NOT NULL), '{}'),
                    false, mark
                )::text, 'UTF8') END
            FROM tally WHERE tally.number = ANY (tallies) AND tally.tenant = numbers[i];
        END LOOP;
    END IF;

    IF cardinality(answered_ids) > 0 THEN
        UPDATE post SET answered = true FROM unnest(answered_tenants, answered_ids) AS one (tenant, id)
        WHERE one.tenant = ANY (going) AND post.id = one.id AND post.number >> 40 = one.tenant AND NOT post.answered;
    END IF;
    -- 410 is an answer that was erased: it stays so.
    IF cardinality(saved_scopes) > 0 THEN
        INSERT INTO saved
        SELECT one.scope, one.fingerprint, one.made, one.at, one.message_id,
            CASE WHEN one.tenant = ANY (moved) AND one.scope = ANY (unused) THEN 0 ELSE one.status END,
            CASE WHEN one.tenant = ANY (moved) AND one.scope = ANY (unused) THEN '' ELSE one.answer END
        FROM unnest(
            saved_tenants, saved_scopes, saved_fingerprints, saved_made, saved_at, saved_messages, saved_statuses,
            saved_answers
        ) AS one (tenant, scope, fingerprint, made, at, message_id, status, answer) WHERE one.tenant = ANY (going)
        ON CONFLICT (scope) DO UPDATE SET fingerprint = excluded.fingerprint, made = excluded.made, at = excluded.at,
            message_id = CASE excluded.message_id WHEN '' THEN saved.message_id ELSE excluded.message_id END,
            status = excluded.status, answer = excluded.answer
            WHERE saved.status <> 410;
    END IF;
    IF cardinality(receipt_posts) > 0 THEN
        INSERT INTO receipt SELECT one.* FROM unnest(receipt_tenants, receipt_posts, receipt_agents, receipt_times)
            AS one (tenant, post_id, agent, read_at) WHERE one.tenant = ANY (going)
        ON CONFLICT (post_id, agent) DO NOTHING;
    END IF;
    IF cardinality(entry_places) > 0 THEN
        INSERT INTO entry SELECT one.* FROM unnest(entry_tenants, entry_places, entry_documents, entry_hashes)
            AS one (tenant, position, document, link) WHERE one.tenant = ANY (going);
    END IF;
    -- Names are released first: another record may take them in the same transaction.
    IF cardinality(dropped_ids) > 0 THEN
        DELETE FROM record USING unnest(dropped_tenants, dropped_kinds, dropped_ids) AS one (tenant, kind, id)
        WHERE one.tenant = ANY (going)
            AND record.tenant = one.tenant AND record.kind = one.kind AND record.id = one.id;
    END IF;
    IF cardinality(released_ids) > 0 THEN
        UPDATE record SET name = '' FROM unnest(released_tenants, released_kinds, released_ids) AS one (tenant, kind, id)
        WHERE one.tenant = ANY (going)
            AND record.tenant = one.tenant AND record.kind = one.kind AND record.id = one.id;
    END IF;
    IF cardinality(put_ids) > 0 THEN
        INSERT INTO record SELECT one.* FROM unnest(
            put_tenants, put_kinds, put_ids, put_versions, put_parents, put_names, put_dues, put_documents
        ) AS one (tenant, kind, id, version, parent, name, due, document) WHERE one.tenant = ANY (going)
        ON CONFLICT (tenant, kind, id) DO UPDATE SET version = excluded.version, parent = excluded.parent,
            name = excluded.name, due = excluded.due, document = excluded.document;
    END IF;
    IF cardinality(event_ids) > 0 THEN
        INSERT INTO event SELECT one.* FROM unnest(
            event_numbers, event_intents, event_sequences, event_ids, event_types, event_actors, event_times,
            event_traces, event_documents, event_hashes
        ) AS one (number, intent_id, sequence, id, event_type, actor, created_at, trace_id, document, hash)
        WHERE one.number >> 40 = ANY (going);
    END IF;
    IF cardinality(audit_ids) > 0 THEN
        INSERT INTO audit (place, side, seq, id, at, exchange, hash, document) SELECT one.* FROM unnest(
            audit_places, audit_sides, audit_seqs, audit_ids, audit_times, audit_exchanges, audit_hashes, audit_documents
        ) AS one (place, side, seq, id, at, exchange, hash, document) WHERE one.place >> 40 = ANY (going);
    END IF;
    IF cardinality(budget_keys) > 0 THEN
        INSERT INTO budget SELECT one.* FROM unnest(budget_tenants, budget_keys, budget_spans, budget_spent)
            AS one (tenant, key, span, spent) WHERE one.tenant = ANY (going)
        ON CONFLICT (tenant, key, span) DO UPDATE SET spent = excluded.spent;
    END IF;
END $$;
