"""Runs in MLflow's own environment: one trace of N spans, the shape of the bench's sessions. Prints where it is."""

import sys

import mlflow

address, count = sys.argv[1], int(sys.argv[2])
mlflow.set_tracking_uri(address)
experiment = mlflow.set_experiment("bench")
with mlflow.start_span("session") as root:
    made = 1
    while made < count:
        with mlflow.start_span(f"Turn {made}"):
            made += 1
            for number in range(20):
                with mlflow.start_span(f"call {number}", span_type="TOOL" if number % 3 else "LLM"):
                    made += 1
mlflow.flush_trace_async_logging()
sys.stdout.write(f"{experiment.experiment_id} {root.trace_id}\n")
