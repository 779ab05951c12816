-- Requests whose time passed without an answer. Written only when one expires: an answered request never enters it.
CREATE INDEX post_late ON post (number) WHERE pattern = 'request' AND answered = 0 AND state = 'expired';
