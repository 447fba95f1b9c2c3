"""What operators measure. Names and labels are an interface: dashboards hold on to them.

Labels come from small fixed sets, never from what a client sent.
"""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

_QUICK = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

requests = Counter("ariadne_ingest_requests_total", "Requests answered", ["endpoint", "status"])
accepted = Counter("ariadne_ingest_events_accepted_total", "Events acknowledged", ["endpoint"])
rejected = Counter("ariadne_ingest_events_rejected_total", "Events refused, each with a reason", ["endpoint"])
received_bytes = Counter("ariadne_ingest_bytes_total", "Bytes of bodies, inflated", ["endpoint"])
redacted = Counter("ariadne_ingest_redacted_events_total", "Events in which a secret was hidden")
stored = Counter("ariadne_ingest_spans_written_total", "Span rows put in, completions included")
request_seconds = Histogram("ariadne_ingest_request_seconds", "From body to answer", ["endpoint"], buckets=_QUICK)
ack_seconds = Histogram("ariadne_ingest_ack_seconds", "From the queue to the commit", buckets=_QUICK)
commit_seconds = Histogram("ariadne_ingest_commit_seconds", "One transaction", buckets=_QUICK)
database_failures = Counter(
    "ariadne_ingest_database_failures_total", "Commits that the database did not answer, or refused"
)
queue_records = Gauge("ariadne_ingest_queue_records", "Records waiting for their commit to end")
queue_bytes = Gauge("ariadne_ingest_queue_bytes", "Bytes waiting for their commit to end")
database_connected = Gauge("ariadne_ingest_database_connected", "1 while the database answers")
lag_seconds = Gauge("ariadne_ingest_lag_seconds", "How long the oldest waiting request has waited")
in_flight = Gauge("ariadne_ingest_requests_in_flight", "Requests being answered")
database_connections = Gauge("ariadne_database_connections", "Connections for pages and live views", ["state"])
live_sockets = Gauge("ariadne_live_sockets", "Open websockets")
