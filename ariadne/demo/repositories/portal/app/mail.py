"""Mail to customers. Messages are queued with the change that causes them, and sent by a worker."""

from __future__ import annotations

from app.jobs import Job, queue
from app.templates import render


def send_login_code(customer, code: str) -> Job:
    """Queue the message with a login code, and return its job."""
    body = render("login_code.txt", name=customer.first_name, code=code)
    return queue("mail", to=customer.email, subject="Your login code", body=body)


def deliver(job: Job, smtp) -> None:
    """Send one message. Runs in the worker, which looks for work every 1.5 s."""
    smtp.send(to=job.arguments["to"], subject=job.arguments["subject"], body=job.arguments["body"])
    job.finish()
