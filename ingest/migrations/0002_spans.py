"""Create the partitioned span table and the sequence that orders its changes."""

from django.db import migrations

# Each call takes a block of numbers for the rows of one commit.
CREATE_SEQUENCE = "CREATE SEQUENCE ingest_seq AS bigint INCREMENT BY 65536 CACHE 1"
CREATE_TABLE = """
CREATE TABLE ingest_span (
    session_key uuid NOT NULL,
    session_day date NOT NULL,
    trace_id text NOT NULL,
    span_id text NOT NULL,
    project_id integer NOT NULL,
    seq bigint NOT NULL,
    parent_id text,
    kind text NOT NULL DEFAULT '',
    name text NOT NULL DEFAULT '',
    status text NOT NULL DEFAULT '',
    started_at timestamptz,
    ended_at timestamptz,
    tokens integer,
    data jsonb NOT NULL DEFAULT '{}',
    payload jsonb,
    PRIMARY KEY (session_key, session_day, trace_id, span_id)
) PARTITION BY RANGE (session_day)
"""
FORWARD = [CREATE_SEQUENCE, CREATE_TABLE, "CREATE INDEX span_changes ON ingest_span (session_key, seq)"]

BACKWARD = ["DROP TABLE ingest_span", "DROP SEQUENCE ingest_seq"]


class Migration(migrations.Migration):
    dependencies = [("ingest", "0001_initial")]
    operations = [migrations.RunSQL(FORWARD, BACKWARD)]
