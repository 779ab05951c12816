-- The messages of a conversation, in all channels: those of its exchanges, and those that name it first. Most name none and
-- are in no index. The bytes are "conversation_id":" and a quote; functions of JSON may not be in a schema.
CREATE INDEX post_exchange ON post (exchange) WHERE exchange <> '';
CREATE INDEX post_conversation ON post (
    substr(substr(metadata, instr(metadata, x'22636f6e766572736174696f6e5f6964223a22') + 19, 129), 1,
        instr(substr(metadata, instr(metadata, x'22636f6e766572736174696f6e5f6964223a22') + 19, 129), x'22'))
) WHERE exchange = '' AND instr(metadata, x'22636f6e766572736174696f6e5f6964223a22');
