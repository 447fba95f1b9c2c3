"""Generate millions of spans inside the database.

A session has 200 spans, and a hundred sessions run concurrently on each day. As with real agents, the rows of one
session are interleaved on disk with those of the others. `data` is about 400 bytes. Every tenth span also has a payload
of 2 kB that hardly compresses. Sessions have hourly figures and usage, and sessions and payloads are in the search
index, each payload with forty words of its own and some that others have too. A session has an environment and one of
500 users as labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta

import psycopg

from ingest.cells import cells_of
from ingest.storage.database import partitions

SPANS_PER_SESSION = 200
CONCURRENT_SESSIONS = 100
FIRST_PROJECT = 1

_SESSIONS = """
INSERT INTO ingest_session (session_key, cell, session_id, day, created_at, first_at, last_at, last_seq,
  span_count, running_count, error_count, turn_count, turn_span_count, check_count, compaction_count, fallback_count,
  model, peak_tokens, window_tokens, trigger_tokens, last_tokens, worst_lost, worst_total, worst_retention,
  overflow_count)
SELECT md5('session-' || n)::uuid, %(cell)s, 'session-' || n, %(day)s, %(day)s, %(day)s, %(day)s,
  %(seq)s + (n / %(beside)s + 1)::bigint * %(beside)s * %(spans)s - %(beside)s + n %% %(beside)s + 1,
  %(spans)s, 0, n %% 2 + n %% 5 / 4, 20, 20, 40, 3, n %% 2, 'gpt-5', 108000, 128000, 108800, 64000, 10 + n %% 7, 60,
  (50 - n %% 7) / 60.0, n %% 3 / 2
FROM generate_series(%(first)s, %(last)s) n
"""
_TRACES = """
INSERT INTO ingest_trace (trace_key, cell, trace_id, session_key, source, is_mixed, seq, name, metadata)
SELECT md5('trace-' || n)::uuid, %(cell)s, 'trace-' || n, md5('session-' || n)::uuid, 1, false, 1, 'run', '{}'
FROM generate_series(%(first)s, %(last)s) n
"""
_SPANS = """
INSERT INTO {table} (session_key, session_day, trace_id, span_id, cell, seq, parent_id, kind, name, status,
  started_at, ended_at, tokens, data, payload)
SELECT md5('session-' || s)::uuid, %(day)s, 'trace-' || s, to_hex(p), %(cell)s,
  %(seq)s + c::bigint * %(beside)s * %(spans)s + p * %(beside)s + s %% %(beside)s + 1,
  CASE WHEN p %% 10 > 0 THEN to_hex(p - p %% 10) END,
  CASE p %% 10 WHEN 0 THEN 'turn' WHEN 1 THEN 'compact.check' WHEN 2 THEN 'compact.token_estimate'
    WHEN 3 THEN 'generation' ELSE 'tool' END,
  'step ' || p, 'ok', %(day)s::timestamptz + p * interval '3 s', %(day)s::timestamptz + (3 * p + 1) * interval '1 s',
  (p * 640) %% 128000,
  '\\x01'::bytea || convert_to(jsonb_build_object('model', 'gpt-5', 'turn', p / 10, 't_est', (p * 640) %% 128000,
    'max_tokens', 128000, 'usage_pct', 0.5,
    'note', 'looked at the open files, compared them with the plan and went on with the next one of the list',
    'labels', jsonb_build_array('nightly', 'eu', 'agent-' || s %% 50),
    'digest', md5(s::text || p::text))::text, 'UTF8'),
  CASE WHEN p %% 10 = 4 THEN (SELECT '\\x01'::bytea || convert_to(
    jsonb_build_object('text', string_agg(md5(s::text || p::text || g::text), ' '))::text, 'UTF8')
    FROM generate_series(1, 60) g) END
FROM generate_series(%(first_chunk)s, %(last_chunk)s) c, generate_series(0, %(spans)s - 1) p,
  generate_series(c * %(beside)s, (c + 1) * %(beside)s - 1) s
"""

_ACTIVITY = """
INSERT INTO ingest_activity (session_key, cell, hour, model, compactions, tokens_freed, cache_lost_tokens,
  facts_total, facts_kept, fallbacks, overflows, errors, kept_counts)
SELECT md5('session-' || n)::uuid, %(cell)s, %(day)s::timestamptz + (n %% 24) * interval '1 hour',
  'model-' || n %% 4, 3, 40000, 9000, 60, 50 - n %% 7, n %% 2, n %% 3 / 2, n %% 5 / 4,
  (SELECT array_agg(CASE WHEN share = 90 - n %% 40 THEN 3 ELSE 0 END ORDER BY share) FROM generate_series(0, 100) share)
FROM generate_series(%(first)s, %(last)s) n
"""
_TRENDS = """
INSERT INTO ingest_trend (cell, hour, model, compactions, tokens_freed, cache_lost_tokens, facts_total,
  facts_kept, fallbacks, overflows, errors, kept_counts)
SELECT cell, hour, model, sum(compactions), sum(tokens_freed), sum(cache_lost_tokens), sum(facts_total),
  sum(facts_kept), sum(fallbacks), sum(overflows), sum(errors), min(kept_counts)
FROM ingest_activity WHERE hour >= %(day)s AND hour < %(day)s::date + 1 GROUP BY 1, 2, 3
"""
_USAGE = """
INSERT INTO ingest_usage (session_key, cell, hour, model, provider, is_summary, prompt_size, call_count,
  input_tokens, cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens)
SELECT md5('session-' || n)::uuid, %(cell)s, %(day)s::timestamptz + (n %% 24) * interval '1 hour',
  'gpt-5', '', false, 0, 20, 900000, 700000, 0, 9000, 0
FROM generate_series(%(first)s, %(last)s) n
"""
_HOURLY_USAGE = """
INSERT INTO ingest_hourlyusage (cell, hour, model, provider, is_summary, prompt_size, call_count, input_tokens,
  cached_tokens, cache_write_tokens, output_tokens, reasoning_tokens)
SELECT cell, hour, model, provider, is_summary, prompt_size, sum(call_count), sum(input_tokens),
  sum(cached_tokens), sum(cache_write_tokens), sum(output_tokens), sum(reasoning_tokens)
FROM ingest_usage WHERE hour >= %(day)s AND hour < %(day)s::date + 1 GROUP BY 1, 2, 3, 4, 5, 6
"""
_LABELS = """
INSERT INTO ingest_label (session_key, cell, key, value)
SELECT md5('session-' || n)::uuid, %(cell)s, 'deployment.environment.name',
  CASE WHEN n %% 10 > 0 THEN 'production' ELSE 'staging' END FROM generate_series(%(first)s, %(last)s) n
UNION ALL
SELECT md5('session-' || n)::uuid, %(cell)s, 'user.id', 'user-' || n %% 500
FROM generate_series(%(first)s, %(last)s) n
"""
_SEARCH = """
INSERT INTO {table} (session_key, session_day, item, cell, seq, trace_id, span_id, words)
SELECT md5('session-' || n)::uuid, %(day)s, '00000000-0000-0000-0000-000000000000', %(project)s,
  %(seq)s + (n / %(beside)s + 1)::bigint * %(beside)s * %(spans)s - %(beside)s + n %% %(beside)s + 1, NULL, NULL,
  array_to_tsvector(ARRAY['%(project)spsession-' || n, '%(project)spsession', '%(project)sp' || n,
    '%(project)sptrace-' || n])
FROM generate_series(%(first)s, %(last)s) n
UNION ALL
SELECT md5('session-' || s)::uuid, %(day)s, md5(s::text || '-' || p::text)::uuid, %(cell)s,
  %(seq)s + (s / %(beside)s)::bigint * %(beside)s * %(spans)s + p * %(beside)s + s %% %(beside)s + 1,
  'trace-' || s, to_hex(p),
  array_to_tsvector(ARRAY['%(project)sccommon', '%(project)sctopic' || s %% 50, '%(project)scrare' || s || 'x' || p] ||
    (SELECT array_agg('%(project)sc' || left(md5(s::text || p::text || g::text), 7)) FROM generate_series(1, 40) g))
FROM generate_series(%(first)s, %(last)s) s, generate_series(4, %(spans)s - 1, 10) p
"""

_OLD_SESSIONS = """
INSERT INTO ingest_session SELECT (json_populate_record(x.s, json_build_object('session_key', md5('old-' || n)::uuid,
  'session_id', 'old-' || n, 'last_seq', -n, 'day', (x.s).day - 100))).*
FROM (SELECT s FROM ingest_session s LIMIT 1) x, generate_series(1, %s) n
"""

_OLD_ACTIVITY = """
INSERT INTO ingest_activity SELECT (json_populate_record(x.a, json_build_object('session_key', md5('old-' || n)::uuid,
  'hour', (x.a).hour - interval '100 days'))).*
FROM (SELECT a FROM ingest_activity a LIMIT 1) x, generate_series(1, %s) n
"""
_OLD_USAGE = """
INSERT INTO ingest_usage SELECT (json_populate_record(x.u, json_build_object('session_key', md5('old-' || n)::uuid,
  'hour', (x.u).hour - interval '100 days'))).*
FROM (SELECT u FROM ingest_usage u LIMIT 1) x, generate_series(1, %s) n
"""
_OLD_LABELS = """
INSERT INTO ingest_label (session_key, cell, key, value)
SELECT md5('old-' || n)::uuid, cell, key, value FROM (SELECT cell FROM ingest_label LIMIT 1) x,
  generate_series(1, %s) n,
  LATERAL (VALUES ('deployment.environment.name', 'production'), ('user.id', 'user-' || n %% 500)) l (key, value)
"""


@dataclass(frozen=True, slots=True)
class GeneratedSpans:
    """Totals of the generated data."""

    sessions: int
    spans: int
    days: list[date]
    last_seq: int


def fill(
    url: str,
    spans: int,
    *,
    days: int,
    today: date,
    project: int = FIRST_PROJECT,
    report: Callable[[str], None] = lambda _line: None,
) -> GeneratedSpans:
    """Fill an empty, migrated database. `spans` is rounded to whole days with multiples of 100 sessions."""
    chunks_per_day = max(1, round(spans / (days * CONCURRENT_SESSIONS * SPANS_PER_SESSION)))
    dates = [today - timedelta(days=days - number) for number in range(days)]
    (cell,) = cells_of(project)
    common = {"project": project, "cell": cell, "beside": CONCURRENT_SESSIONS, "spans": SPANS_PER_SESSION, "seq": 0}
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute("SET synchronous_commit = off")
        connection.execute("SET work_mem = '256MB'")
        connection.execute("INSERT INTO ingest_cell VALUES (%s, 0) ON CONFLICT DO NOTHING", (cell,))
        for number, day in enumerate(dates):
            chunk = number * chunks_per_day
            values = {
                **common,
                "day": day,
                "first": chunk * CONCURRENT_SESSIONS,
                "last": (chunk + chunks_per_day) * CONCURRENT_SESSIONS - 1,
                "first_chunk": chunk,
                "last_chunk": chunk + chunks_per_day - 1,
            }
            connection.execute(_SESSIONS, values)
            connection.execute(_TRACES, values)
            connection.execute(_ACTIVITY, values)
            connection.execute(_TRENDS, values)
            connection.execute(_USAGE, values)
            connection.execute(_HOURLY_USAGE, values)
            connection.execute(_LABELS, values)
            connection.execute(partitions.create_search_statement(day))  # type: ignore[arg-type]
            words = partitions.search_partition_name(day)
            connection.execute(_SEARCH.format(table=words), values)  # type: ignore[arg-type]
            table = partitions.partition_name(day)
            connection.execute(f"CREATE TABLE {table} (LIKE ingest_span INCLUDING DEFAULTS)")  # type: ignore[arg-type]
            connection.execute(_SPANS.format(table=table), values)  # type: ignore[arg-type]
            # Attaching builds the indexes once instead of row by row.
            connection.execute(
                f"ALTER TABLE ingest_span ATTACH PARTITION {table} "  # type: ignore[arg-type]
                f"FOR VALUES FROM ('{day}') TO ('{day + timedelta(days=1)}')"
            )
            total = (number + 1) * chunks_per_day * CONCURRENT_SESSIONS * SPANS_PER_SESSION
            report(f"filled day {number + 1} of {days}: {total:,} spans")
        sessions = days * chunks_per_day * CONCURRENT_SESSIONS
        total = sessions * SPANS_PER_SESSION
        # The words are there. Without this, a server would spend half of its time on the index.
        connection.execute(
            "INSERT INTO ingest_searchstate (cell, seq) VALUES (%s, %s)"
            " ON CONFLICT (cell) DO UPDATE SET seq = excluded.seq",
            (cell, total),
        )
        connection.execute("VACUUM ANALYZE ingest_span")
        connection.execute("VACUUM ANALYZE ingest_session")
        for table in ("trace", "activity", "trend", "usage", "hourlyusage", "label", "search"):
            connection.execute(f"VACUUM ANALYZE ingest_{table}")  # type: ignore[arg-type]
    return GeneratedSpans(sessions, total, dates, total)


def add_old_sessions(url: str, count: int) -> None:
    """Add old sessions without spans, to plan queries over a long list without generating its spans."""
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        for statement in (_OLD_SESSIONS, _OLD_ACTIVITY, _OLD_USAGE, _OLD_LABELS):
            connection.execute(statement, (count,))
        for table in ("ingest_session", "ingest_activity", "ingest_usage", "ingest_label"):
            connection.execute(f"VACUUM ANALYZE {table}")  # type: ignore[arg-type]
