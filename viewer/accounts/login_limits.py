"""Limits of failed logins: a lock per account and network, and a pace per account.

After `AXES_FAILURE_LIMIT` failures, an account is locked for the network that tried. Many networks together could still
guess, so after `FREE_FAILURES` the account accepts one login every `PACE` from all networks without an earlier login to
it. A stranger can therefore slow down a login from a new place, and cannot prevent one from a known place.

A password is checked without a lock, because that takes long. A short transaction then decides whether its result is
revealed, so concurrent guesses learn exactly as much as guesses one after the other.
"""

from __future__ import annotations

import ipaddress
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from axes.handlers.base import AxesHandler
from axes.models import AccessAttempt
from axes.signals import user_locked_out
from django.conf import settings
from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone

from viewer.audit.log import client_address

FREE_FAILURES = 20
PACE = timedelta(seconds=10)
# A network counts as known this long after the last login from it.
_KNOWN_FOR = timedelta(days=30)
_KNOWN_UPDATE = timedelta(days=1)
# Providers give each customer a network of this size, and often a larger one.
_IPV6_PREFIX = 64
_ANY_NETWORK = "::"
_LOCK = 0x7E89
# The kind of a row, in the column for the user agent, which is part of the key of a row.
_PAIR, _ACCOUNT, _KNOWN = "ariadne:network", "ariadne:account", "ariadne:known"
_NO_DETAILS = {"http_accept": "", "path_info": "", "get_data": "", "post_data": ""}


def request_network(request: HttpRequest) -> str:
    """Return the network of a client as an address: one IPv4 address, or the first of an IPv6 network of /64."""
    try:
        address = ipaddress.ip_address(client_address(request.META).partition("%")[0])
    except ValueError:
        return _ANY_NETWORK
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False).network_address)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A login to an account from a network."""

    name: str
    network: str
    at: datetime

    @classmethod
    def of_request(cls, request: Any, name: object) -> Attempt:
        # Postgres does not accept NUL, and no account has it in its name.
        text = str(name or "").replace("\x00", "\ufffd")[:255]
        return cls(text, request.axes_ip_address or _ANY_NETWORK, timezone.now())

    def wait(self) -> timedelta:
        """Return how long this login must wait. Nothing is counted."""
        pair = self._row(self.network, _PAIR, settings.AXES_COOLOFF_TIME)
        if pair is not None and pair.failures_since_start >= settings.AXES_FAILURE_LIMIT:
            end: datetime = pair.attempt_time + settings.AXES_COOLOFF_TIME
            return end - self.at
        if self._row(self.network, _KNOWN, _KNOWN_FOR) is not None:
            return timedelta(0)
        account = self._row(_ANY_NETWORK, _ACCOUNT, settings.AXES_COOLOFF_TIME)
        if account is None or account.failures_since_start < FREE_FAILURES:
            return timedelta(0)
        free_at: datetime = account.attempt_time + PACE
        return max(timedelta(0), free_at - self.at)

    def settle(self, *, is_correct: bool) -> timedelta:
        """Count the result of a password check. If the login must wait, its result must not be revealed."""
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_LOCK, self.name])
            wait = self.wait()
            if wait:
                return wait
            if is_correct:
                self._accept()
                return timedelta(0)
            self._count(_ANY_NETWORK, _ACCOUNT)
            self._count(self.network, _PAIR)
            expired = AccessAttempt.objects.filter(attempt_time__lt=self.at - settings.AXES_COOLOFF_TIME)
            expired.exclude(user_agent=_KNOWN).delete()
        # The failure that reaches the limit says so.
        pair = self._row(self.network, _PAIR, settings.AXES_COOLOFF_TIME)
        is_locked = pair is not None and pair.failures_since_start >= settings.AXES_FAILURE_LIMIT
        return settings.AXES_COOLOFF_TIME if is_locked else timedelta(0)

    def _accept(self) -> None:
        AccessAttempt.objects.filter(username=self.name, ip_address=self.network, user_agent=_PAIR).delete()
        if self._row(self.network, _KNOWN, _KNOWN_UPDATE) is not None:
            return
        account = self._row(_ANY_NETWORK, _ACCOUNT, settings.AXES_COOLOFF_TIME)
        if account is not None:
            AccessAttempt.objects.filter(pk=account.pk).update(attempt_time=self.at)
        self._save(self.network, _KNOWN, 0)

    def _count(self, network: str, kind: str) -> None:
        row = self._row(network, kind, settings.AXES_COOLOFF_TIME)
        self._save(network, kind, (row.failures_since_start if row is not None else 0) + 1)

    def _save(self, network: str, kind: str, failures: int) -> None:
        values = {"failures_since_start": failures, **_NO_DETAILS}
        row, _ = AccessAttempt.objects.update_or_create(
            username=self.name, ip_address=network, user_agent=kind, defaults=values
        )
        # The model sets the time of a new row itself.
        AccessAttempt.objects.filter(pk=row.pk).update(attempt_time=self.at)

    def _row(self, network: str, kind: str, lasts: timedelta) -> AccessAttempt | None:
        # A time in the future is one of a clock that was wrong. It must not lock anyone out for as long.
        since, until = self.at - lasts, self.at + PACE
        rows = AccessAttempt.objects.filter(username=self.name, ip_address=network, user_agent=kind)
        return rows.filter(attempt_time__gt=since, attempt_time__lte=until).first()


class LoginLimits(AxesHandler):  # type: ignore[misc]
    """The handler of django-axes, which calls it before a password check and after one that failed."""

    def is_allowed(self, request: Any, credentials: dict[str, Any] | None = None) -> bool:
        wait = Attempt.of_request(request, (credentials or {}).get("username")).wait()
        if wait:
            _block(request, wait)
        return not wait

    def user_login_failed(self, sender: Any, credentials: dict[str, Any], request: Any = None, **_: Any) -> None:
        if request is None:
            return
        name = credentials.get("username")
        if not request.axes_locked_out:
            wait = Attempt.of_request(request, name).settle(is_correct=False)
            if not wait:
                return
            _block(request, wait)
        user_locked_out.send("axes", request=request, username=name, ip_address=request.axes_ip_address)

    def post_save_access_attempt(self, instance: AccessAttempt, **_: Any) -> None:
        """Do nothing. The interface demands a method."""

    def post_delete_access_attempt(self, instance: AccessAttempt, **_: Any) -> None:
        """Do nothing. The interface demands a method."""


class PasswordBackend(ModelBackend):
    """Django's check of passwords. A correct one is accepted only if the limits allow a login."""

    def authenticate(
        self, request: Any, username: str | None = None, password: str | None = None, **more: Any
    ) -> User | None:
        user = super().authenticate(request, username=username, password=password, **more)
        if not isinstance(user, User):
            return None
        wait = Attempt.of_request(request, username).settle(is_correct=True)
        if wait:
            _block(request, wait)
            raise PermissionDenied
        return user


def _block(request: Any, wait: timedelta) -> None:
    request.axes_locked_out = True
    request.login_wait = wait


def wait_response(request: Any, response: HttpResponse | None, credentials: object) -> HttpResponse:
    """Return the answer to a login that must wait."""
    seconds = max(1, math.ceil(request.login_wait.total_seconds()))
    if request.path.startswith("/api/"):
        detail = f"Too many failed logins. Try again in {seconds} s."
        answer: HttpResponse = JsonResponse({"detail": detail}, status=429)
    else:
        is_locked = request.login_wait > PACE
        context = {"is_locked": is_locked, "minutes": math.ceil(seconds / 60), "seconds": seconds}
        answer = render(request, "registration/locked.html", context, status=429)
    answer.headers["Retry-After"] = str(seconds)
    return answer
