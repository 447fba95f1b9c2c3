-- Applied to production on 2026-09-02.
CREATE TABLE outbox (
    id bigserial PRIMARY KEY,
    key varchar(64) NOT NULL,
    task varchar(40) NOT NULL,
    arguments json NOT NULL,
    state varchar(12) NOT NULL DEFAULT 'open',
    attempts integer NOT NULL DEFAULT 0,
    region varchar(16) NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX outbox_key ON outbox (key);
