"""Evaluate alert rules and deliver alerts, repeated while the server runs.

Each web process does it. Locks in the database make sure that each project is evaluated and each alert is sent by one
of them.
"""

from __future__ import annotations

from datetime import timedelta

from viewer.alerts import delivery, evaluation


def evaluate_and_deliver(interval_s: float) -> None:
    """Evaluate all projects and send what is due. A failed evaluation does not stop deliveries."""
    try:
        evaluation.evaluate_all(min_age=timedelta(seconds=interval_s / 2))
    finally:
        delivery.deliver_due()
