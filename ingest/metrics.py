"""Prometheus metrics of a web process.

Names and labels are a public interface because dashboards and alerts use them. Label values come from small fixed
sets, never from a client's input.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

requests = Counter("ariadne_ingest_requests_total", "Requests by endpoint and status", ["endpoint", "status"])
accepted = Counter("ariadne_ingest_events_accepted_total", "Events stored and acknowledged", ["endpoint"])
rejected = Counter("ariadne_ingest_events_rejected_total", "Events rejected with a reason", ["endpoint"])
received_bytes = Counter("ariadne_ingest_bytes_total", "Bytes of request bodies after decompression", ["endpoint"])
redacted = Counter("ariadne_ingest_redacted_events_total", "Events in which a secret was redacted")
replaced_ids = Counter("ariadne_ingest_replaced_ids_total", "Ids with a secret, which were replaced by a pseudonym")
stored = Counter("ariadne_ingest_spans_written_total", "Span rows written, including updates of existing spans")
request_seconds = Histogram(
    "ariadne_ingest_request_seconds", "Time to handle a request", ["endpoint"], buckets=_LATENCY_BUCKETS_S
)
ack_seconds = Histogram(
    "ariadne_ingest_ack_seconds", "Time from queueing a batch to its commit", buckets=_LATENCY_BUCKETS_S
)
commit_seconds = Histogram("ariadne_ingest_commit_seconds", "Time of one transaction", buckets=_LATENCY_BUCKETS_S)
database_failures = Counter(
    "ariadne_ingest_database_failures_total", "Commits that failed because of the database or the connection"
)
decode_failures = Counter(
    "ariadne_ingest_decode_failures_total", "Bodies that timed out or crashed a worker process", ["reason"]
)
decode_waiting = Gauge("ariadne_ingest_decode_waiting", "Bodies that wait for a worker process")
payloads_unreadable = Counter("ariadne_payloads_unreadable_total", "Stored payloads that could not be decoded")
queue_records = Gauge("ariadne_ingest_queue_records", "Records queued or being committed")
queue_bytes = Gauge("ariadne_ingest_queue_bytes", "Bytes queued or being committed")
database_connected = Gauge("ariadne_ingest_database_connected", "1 if the database responds, otherwise 0")
lag_seconds = Gauge("ariadne_ingest_lag_seconds", "Age of the oldest batch that is not committed yet")
in_flight = Gauge("ariadne_ingest_requests_in_flight", "Requests being handled")
database_connections = Gauge(
    "ariadne_database_connections", "Pooled connections for pages and live views, by state", ["state"]
)
live_sockets = Gauge("ariadne_live_sockets", "Open websockets")
live_waiting_bytes = Gauge("ariadne_live_waiting_bytes", "Bytes in memory that websocket clients have not read")
live_closed = Counter("ariadne_live_closed_total", "Websockets that the server closed, by reason", ["reason"])
loop_lag_seconds = Histogram(
    "ariadne_event_loop_lag_seconds",
    "Delay of a timer on the event loop, measured four times per second",
    buckets=_LATENCY_BUCKETS_S,
)
anchors = Counter("ariadne_anchors_total", "Anchors of the archive and the audit log written by this process")
anchor_failures = Counter("ariadne_anchor_failures_total", "Anchors that could not be published", ["where"])
job_failures = Counter("ariadne_job_failures_total", "Runs of a repeated job that failed", ["job"])
retention_refusals = Counter(
    "ariadne_retention_refusals_total", "Runs of retention that deleted nothing because a clock was not plausible"
)
retention_deleted = Counter("ariadne_retention_deleted_total", "Rows that retention deleted", ["what"])
