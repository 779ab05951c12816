-- The messages of a conversation, in all channels: those of its exchanges, and those that name it first. Most name none and
-- are in no index. The name is what follows "conversation_id":" up to the next quote.
CREATE FUNCTION parley_conversation(metadata bytea) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT substring(tail FROM 1 FOR position('"'::bytea IN tail)) FROM (
        SELECT substring(metadata FROM position('"conversation_id":"'::bytea IN metadata) + 19 FOR 129) AS tail
    ) AS part
$$;
CREATE INDEX post_exchange ON post (exchange, number) WHERE exchange <> '';
CREATE INDEX post_conversation ON post (parley_conversation(metadata), number)
    WHERE exchange = '' AND position('"conversation_id":"'::bytea IN metadata) > 0;
