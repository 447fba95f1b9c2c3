"""Guesses from one network, from many networks, and at the same time."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client, RequestFactory
from django.utils import timezone
from people import create_project, create_user

from viewer.accounts import login_limits
from viewer.accounts.login_limits import FREE_FAILURES, PACE, Attempt, request_network
from viewer.models import AuditEntry

pytestmark = [pytest.mark.django_db, pytest.mark.req("P-SEC-1")]
PASSWORD = "correct horse battery"
GUESSES = 30


def log_in(password: str, address: str, *, name: str = "ann") -> Any:
    return Client().post("/login/", {"username": name, "password": password}, REMOTE_ADDR=address)


def fail_everywhere(count: int) -> Any:
    """Guess from many networks, and return the last response."""
    return [log_in("wrong", f"192.0.2.{number}") for number in range(1, count + 1)][-1]


@pytest.fixture
def ann() -> User:
    user = create_user("operator", create_project(), name="ann")
    user.set_password(PASSWORD)
    user.save()
    return user


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("fe80::1%eth0", "fe80::"),
        ("", "::"),
        ("unknown", "::"),
    ],
)
def test_the_network_of_a_client(address: str, network: str):
    assert request_network(RequestFactory().get("/", REMOTE_ADDR=address)) == network


def test_an_ipv6_network_has_one_limit(ann: User):
    """Each guess has its own address. The next network is not locked."""
    statuses = [log_in("wrong", f"2001:db8:0:1::{number}").status_code for number in range(1, 7)]
    assert statuses == [200, 200, 200, 200, 429, 429]
    assert log_in(PASSWORD, "2001:db8:0:1::99").status_code == 429
    assert log_in(PASSWORD, "2001:db8:0:2::1").status_code == 302


def test_guesses_from_many_networks_are_slowed_down(ann: User):
    """After the free failures, one guess per pace is answered. The others learn nothing, also if they are right."""
    assert fail_everywhere(FREE_FAILURES).status_code == 200
    slow = log_in(PASSWORD, "198.51.100.1")
    assert slow.status_code == 429 and 0 < int(slow["Retry-After"]) <= PACE.total_seconds()
    assert "other networks" in slow.content.decode()
    AccessAttempt.objects.update(attempt_time=timezone.now() - PACE)
    assert [log_in("wrong", f"198.51.100.{n}").status_code for n in (2, 3)] == [200, 429]
    assert AuditEntry.objects.filter(action="login.locked", actor="ann").count() == 2


def test_the_owner_is_not_locked_out(ann: User):
    """From a known network they log in at once, and from a new one after the pace. Other accounts are not concerned."""
    create_user("operator", name="bob")
    User.objects.filter(username="bob").update(password=ann.password)
    assert log_in(PASSWORD, "203.0.113.1").status_code == 302
    fail_everywhere(FREE_FAILURES + 5)
    assert log_in(PASSWORD, "203.0.113.1").status_code == 302
    assert log_in(PASSWORD, "203.0.113.2", name="bob").status_code == 302
    AccessAttempt.objects.filter(ip_address="::").update(attempt_time=timezone.now() - PACE)
    assert log_in(PASSWORD, "203.0.113.3").status_code == 302


def test_a_lock_ends(ann: User, settings):
    for _ in range(6):
        log_in("wrong", "192.0.2.1")
    locked = log_in(PASSWORD, "192.0.2.1")
    assert locked.status_code == 429 and int(locked["Retry-After"]) > 800
    AccessAttempt.objects.update(attempt_time=timezone.now() - settings.AXES_COOLOFF_TIME)
    assert log_in(PASSWORD, "192.0.2.1").status_code == 302
    assert not AccessAttempt.objects.filter(failures_since_start__gt=0, ip_address="192.0.2.1").exists()


def test_a_clock_that_was_wrong_locks_no_one_out(ann: User):
    for _ in range(6):
        log_in("wrong", "192.0.2.1")
    AccessAttempt.objects.update(attempt_time=timezone.now() + timedelta(days=400))
    assert log_in(PASSWORD, "192.0.2.1").status_code == 302


def in_parallel(function: Callable[[int], Any]) -> list[Any]:
    def run(number: int) -> Any:
        try:
            return function(number)
        finally:
            connection.close()

    with ThreadPoolExecutor(GUESSES) as threads:
        return list(threads.map(run, range(GUESSES)))


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("network", ["one", "many"])
def test_concurrent_guesses_get_as_many_answers_as_sequential_ones(
    network: str, monkeypatch: pytest.MonkeyPatch, django_user_model: Any
):
    """All password checks end after all have begun. Five guesses are answered, the fifth with the lock."""
    django_user_model.objects.create_user("ann", password=PASSWORD)
    monkeypatch.setattr(login_limits, "FREE_FAILURES", 4)
    monkeypatch.setattr(Attempt, "wait", _wait_at_the_end(Attempt.wait))
    statuses = in_parallel(
        lambda number: log_in("wrong", "192.0.2.1" if network == "one" else f"192.0.2.{number}").status_code
    )
    assert Counter(statuses) == {200: 4, 429: GUESSES - 4}


def _wait_at_the_end(wait: Callable[[Attempt], timedelta]) -> Callable[[Attempt], timedelta]:
    """Let every login pass the check before the password, as if it had begun before any other failed."""
    return lambda attempt: wait(attempt) if connection.in_atomic_block else timedelta(0)


@pytest.mark.django_db(transaction=True)
def test_concurrent_requests_with_the_right_password_all_pass(django_user_model: Any):
    """A program that uses HTTP Basic is not slowed down by itself."""
    user = django_user_model.objects.create_user("ann", password=PASSWORD)
    assert user.is_active
    secret = base64.b64encode(f"ann:{PASSWORD}".encode()).decode()
    statuses = in_parallel(
        lambda _: Client(headers={"Authorization": f"Basic {secret}"}).get("/api/audit/").status_code
    )
    assert set(statuses) == {403}  # logged in, without a project


@pytest.mark.parametrize("name", ["a\x00b", "x" * 1_000, "\ud800", ""])
def test_any_name_is_answered(name: str):
    secret = base64.b64encode(f"{name}:x".encode("utf-8", "surrogatepass")).decode()
    for _ in range(6):
        response = Client(headers={"Authorization": f"Basic {secret}"}).get("/api/sessions/")
    assert response.status_code in {401, 429}
