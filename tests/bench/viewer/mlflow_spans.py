"""Create a trace of N spans in MLflow, shaped like the benchmark sessions, and print its ids.

Runs in MLflow's own environment.
"""

import sys

import mlflow

address, count = sys.argv[1], int(sys.argv[2])
mlflow.set_tracking_uri(address)
experiment = mlflow.set_experiment("bench")
with mlflow.start_span("session") as root:
    total = 1
    while total < count:
        with mlflow.start_span(f"Turn {total}"):
            total += 1
            for number in range(20):
                with mlflow.start_span(f"call {number}", span_type="TOOL" if number % 3 else "LLM"):
                    total += 1
mlflow.flush_trace_async_logging()
sys.stdout.write(f"{experiment.experiment_id} {root.trace_id}\n")
