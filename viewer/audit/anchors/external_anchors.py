"""Copies of anchors outside the server: a timestamp service (RFC 3161), or an S3 bucket with object lock.

Someone with the database and DATA_DIR can forge both from then on. A timestamp proves when an anchor existed, and an
object lock keeps anchors that no user can delete, so that an older backup of everything is noticed. Anchors that could
not be published are published with the next one.
"""

from __future__ import annotations

import json
import logging
import os
import urllib.request
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol

from cryptography import x509
from django.conf import settings

from ingest import metrics
from viewer.audit.anchors import anchor_file
from viewer.audit.anchors.anchor_file import Anchor

_TIMEOUT_S = 10.0
# Anchors of about two days are published again after an outage.
_MAX_RETRIED = 50
_MAX_COMPARED = 24
_log = logging.getLogger("ariadne.anchors")


class ExternalAnchorError(Exception):
    """A service is unreachable or rejected an anchor."""


@dataclass(frozen=True, slots=True)
class Status:
    """The result of the last attempt to publish, for the audit page: the newest anchor, or the error."""

    service: str
    number: int
    at: str
    error: str = ""


class ExternalService(Protocol):
    name: str

    def publish(self, anchor: Anchor) -> None:
        """Store an anchor, or raise ExternalAnchorError."""

    def numbers(self) -> set[int]:
        """Return the numbers of the stored anchors, or raise ExternalAnchorError."""

    def find_problem(self, anchor: Anchor) -> str:
        """Compare an anchor with the stored copy. Return a description of the difference, or nothing."""


def services() -> list[ExternalService]:
    """Return the configured services."""
    configured: list[ExternalService] = []
    if settings.ANCHOR_TIMESTAMP_URL:
        configured.append(TimestampService(settings.ANCHOR_TIMESTAMP_URL, settings.ANCHOR_TIMESTAMP_CA))
    if settings.ANCHOR_BUCKET:
        days = settings.ANCHOR_BUCKET_DAYS
        configured.append(LockedBucket(settings.ANCHOR_BUCKET, settings.ANCHOR_BUCKET_ENDPOINT, days))
    return configured


def publish(anchors: list[Anchor]) -> None:
    """Publish anchors, and those that an earlier call could not publish. A failure is logged and counted."""
    results = []
    for service in services():
        number, problem = 0, ""
        try:
            known = service.numbers()
            number = max(known, default=0)
            all_anchors, _ = anchor_file.read()
            pending = {anchor.number: anchor for anchor in [*all_anchors[-_MAX_RETRIED:], *anchors]}
            for missing in sorted(pending.keys() - known):
                service.publish(pending[missing])
                number = max(number, missing)
        except ExternalAnchorError as error:
            problem = str(error)
            metrics.anchor_failures.labels(service.name).inc()
            _log.warning("anchor_not_published service=%s %s", service.name, error)
        results.append(Status(service.name, number, datetime.now(UTC).isoformat(timespec="seconds"), problem))
    if results:
        _status_file().write_text(json.dumps([asdict(status) for status in results]))


def statuses() -> list[Status]:
    """Return the last result of each configured service. Reads a local file, so that pages do not wait for services."""
    names = {service.name for service in services()}
    try:
        rows = [Status(**row) for row in json.loads(_status_file().read_text())] if names else []
    except (OSError, ValueError, TypeError):
        rows = []
    known = [row for row in rows if row.service in names]
    return known + [Status(name, 0, "", "No anchor published yet.") for name in names - {row.service for row in known}]


def _status_file() -> Path:
    return Path(settings.DATA_DIR) / "anchor_services.json"


def last_number() -> int:
    """Return the highest number of a published anchor. A service that cannot be reached counts with what it had."""
    numbers = [status.number for status in statuses()]
    for service in services():
        try:
            numbers += service.numbers()
        except ExternalAnchorError as error:
            _log.warning("anchor_numbers_unknown service=%s %s", service.name, error)
    return max(numbers, default=0)


def find_problems(anchors: list[Anchor]) -> list[str]:
    """Compare the anchors of the file with the published ones."""
    problems = []
    by_number = {anchor.number: anchor for anchor in anchors}
    # Copies of an earlier series stay in the service. The restart itself is published, and it is in the audit log.
    replaced = anchors[0].replaces if anchors and anchors[0].is_signed else 0
    for service in services():
        try:
            published = service.numbers()
            missing = sorted(number for number in published - by_number.keys() if number > replaced)
            if missing:
                problems.append(
                    f"Anchor {missing[-1]} is in the {service.name} but not in the anchor file. "
                    "The server was restored from an older backup, or the file was cut."
                )
            # Each anchor contains the hash of the previous one, so the newest copies confirm the older ones.
            newest = sorted(published & by_number.keys())[-_MAX_COMPARED:]
            copies = (by_number[number] for number in newest)
            problems += [problem for anchor in copies if (problem := service.find_problem(anchor))][:1]
        except ExternalAnchorError as error:
            problems.append(f"The {service.name} could not be checked: {error}")
    return problems


class TimestampService:
    """An RFC 3161 service. Its signed answers are stored in DATA_DIR/anchor_timestamps."""

    name = "timestamp service"

    def __init__(self, url: str, ca_file: str) -> None:
        self._url, self._ca_file = url, ca_file
        self._folder = Path(settings.DATA_DIR) / "anchor_timestamps"

    def publish(self, anchor: Anchor) -> None:
        from rfc3161_client import TimestampRequestBuilder, VerificationError  # noqa: PLC0415 - optional package

        request = TimestampRequestBuilder().data(anchor.line).build()
        headers = {"Content-Type": "application/timestamp-query"}
        query = urllib.request.Request(self._url, request.as_bytes(), headers)  # noqa: S310 - set by the administrator
        try:
            with urllib.request.urlopen(query, timeout=_TIMEOUT_S) as response:  # noqa: S310
                answer = response.read(1_000_000)
            self._verify(answer, anchor)
        except (OSError, ValueError, VerificationError) as error:
            raise ExternalAnchorError(f"{type(error).__name__}: {error}") from None
        self._folder.mkdir(mode=0o700, exist_ok=True)
        temporary = self._file(anchor.number).with_suffix(".new")
        with temporary.open("wb") as file:
            file.write(answer)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._file(anchor.number))

    def numbers(self) -> set[int]:
        return {int(file.stem) for file in self._folder.glob("*.tsr") if file.stem.isdigit()}

    def find_problem(self, anchor: Anchor) -> str:
        from rfc3161_client import VerificationError  # noqa: PLC0415 - optional package

        try:
            stamped_at = self._verify(self._file(anchor.number).read_bytes(), anchor)
        except (OSError, ValueError, VerificationError):
            return f"The timestamp of anchor {anchor.number} is not valid for this anchor."
        if stamped_at < anchor.until - timedelta(minutes=5):
            return f"Anchor {anchor.number} says it is newer than its timestamp."
        return ""

    def _file(self, number: int) -> Path:
        return self._folder / f"{number:08d}.tsr"

    def _verify(self, answer: bytes, anchor: Anchor) -> datetime:
        """Return the time in a timestamp, or raise ValueError or VerificationError."""
        from rfc3161_client import VerifierBuilder, decode_timestamp_response  # noqa: PLC0415 - optional package

        response = decode_timestamp_response(answer)
        builder = VerifierBuilder()
        for certificate in x509.load_pem_x509_certificates(Path(self._ca_file).read_bytes()):
            builder = builder.add_root_certificate(certificate)
        builder.build().verify_message(response, anchor.line)
        return response.tst_info.gen_time.replace(tzinfo=UTC)


class LockedBucket:
    """An S3 bucket with object lock. Each anchor is one object that no user can change or delete for some days."""

    name = "locked bucket"
    _PREFIX = "anchors/"

    def __init__(self, bucket: str, endpoint: str, days: int) -> None:
        self._bucket, self._endpoint, self._days = bucket, endpoint, days

    def publish(self, anchor: Anchor) -> None:
        keep_until = datetime.now(UTC) + timedelta(days=self._days)
        self._call(
            "put_object",
            Key=self._key(anchor.number),
            Body=anchor.line,
            ContentType="application/json",
            ObjectLockMode="COMPLIANCE",
            ObjectLockRetainUntilDate=keep_until,
        )

    def numbers(self) -> set[int]:
        # Versions, because deleting an object without its version only hides it.
        numbers: set[int] = set()
        marker: dict[str, str] = {}
        while True:
            page = self._call("list_object_versions", Prefix=self._PREFIX, **marker)
            names = (Path(item["Key"]).stem for item in page.get("Versions", []))
            numbers |= {int(name) for name in names if name.isdigit()}
            if not page.get("IsTruncated"):
                return numbers
            marker = {"KeyMarker": page["NextKeyMarker"], "VersionIdMarker": page.get("NextVersionIdMarker", "")}

    def find_problem(self, anchor: Anchor) -> str:
        body: bytes = self._oldest_version(anchor.number)
        if body == anchor.line:
            return ""
        return f"Anchor {anchor.number} differs from its copy in the locked bucket."

    def _oldest_version(self, number: int) -> bytes:
        # Object lock protects versions. A later version with the same name must not replace the first.
        versions = self._call("list_object_versions", Prefix=self._key(number)).get("Versions", [])
        # Times have a resolution of a second. Of equal times, the last one listed is the oldest.
        oldest = min(
            reversed(versions), key=lambda version: (version["LastModified"], version["IsLatest"]), default=None
        )
        which = {"VersionId": oldest["VersionId"]} if oldest else {}
        content: bytes = self._call("get_object", Key=self._key(number), **which)["Body"].read()
        return content

    def _key(self, number: int) -> str:
        return f"{self._PREFIX}{number:08d}.json"

    def _call(self, operation: str, **arguments: Any) -> Any:
        try:
            import boto3  # noqa: PLC0415 - optional package
            from botocore.config import Config  # noqa: PLC0415
            from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415
        except ImportError:
            raise ExternalAnchorError("Install boto3 to use ARIADNE_ANCHOR_BUCKET.") from None
        config = Config(connect_timeout=_TIMEOUT_S, read_timeout=_TIMEOUT_S, retries={"max_attempts": 2})
        try:
            client = boto3.client("s3", endpoint_url=self._endpoint or None, config=config)
            return getattr(client, operation)(Bucket=self._bucket, **arguments)
        except (BotoCoreError, ClientError) as error:
            raise ExternalAnchorError(str(error)) from None
