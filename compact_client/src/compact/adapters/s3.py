"""Archive transcripts in S3: `s3://{bucket}/{prefix}/{session}/…`, optionally encrypted with a KMS key.

Credentials come from an IAM role, so there is no parameter for an access key. Objects are never replaced
(If-None-Match) and carry their SHA-256 as an S3 checksum. Transcripts are uploaded before anything is pruned. Events
are uploaded in batches by a background thread, because S3 cannot append, and stay in memory while S3 is unavailable.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from compact.adapters.transcript import (
    Transcript,
    decode_transcript,
    encode_summary,
    folder_name,
    parse_step,
    summary_name,
    transcript_name,
)
from compact.delivery.batcher import Batcher, Sink
from compact.delivery.stderr import log_problem
from compact.exceptions import ConfigError
from compact.messages import Message
from compact.protocols import ArchivedTranscript

_STATIC_METHODS = {"env", "explicit", "shared-credentials-file", "config-file", "boto-config"}
# A batch has at most a thousand events of one session. 256 batches are tens of megabytes.
_MAX_PENDING_BATCHES = 256
_MAX_RETRY_DELAY_S = 60.0
_CLOSE_TIMEOUT_S = 10.0


class S3Storage:
    """Archives to S3: `S3Storage("my-bucket", "compact", kms_key_id="alias/agents")`.

    `require_role=False` also accepts static keys from the environment or a credentials file, for development and for
    S3-compatible servers (`endpoint_url`). `client` is a boto3 S3 client to use instead.
    """

    name = "s3"

    def __init__(
        self,
        bucket: str,
        prefix: str = "compact",
        *,
        kms_key_id: str | None = None,
        region: str | None = None,
        endpoint_url: str | None = None,
        require_role: bool = True,
        client: Any = None,
    ) -> None:
        self.bucket = bucket
        self.prefix = prefix.strip("/")
        self._client = client if client is not None else _connect(region, endpoint_url, require_role=require_role)
        self._objects = _Bucket(self._client, bucket, kms_key_id)
        self._uploads = _EventUploads(self._objects)
        self._queue = Batcher(self._uploads, max_queue=16_384, max_batch=1_000, interval_s=5.0, name="compact-s3")

    def save_transcript(
        self, session_id: str, transcript: Sequence[Message], step: int | None = None
    ) -> dict[str, Any]:
        """Upload the transcript and return its key and hash. Raises the boto3 error after the last retry."""
        document = Transcript.from_messages(transcript)
        number = step if step is not None else self._next_step(session_id)
        while not self._objects.create(
            key := self._key(session_id, transcript_name(number)), document.body, "application/x-ndjson"
        ):
            number = max(number + 1, self._next_step(session_id))
        return document.receipt(number, key=f"s3://{self.bucket}/{key}")

    def save_summary(self, session_id: str, summary: Message, step: int) -> dict[str, Any]:
        """Upload the summary and return its key and hash."""
        body = encode_summary(session_id, summary, step)
        while not self._objects.create(key := self._key(session_id, summary_name(step)), body, "application/json"):
            step += 1
            body = encode_summary(session_id, summary, step)
        return {"key": f"s3://{self.bucket}/{key}", "sha256": hashlib.sha256(body).hexdigest()}

    def load_transcripts(self, session_id: str) -> Iterator[ArchivedTranscript]:
        """Yield the session's transcripts, the newest first."""
        for step in sorted(self._steps(session_id), reverse=True):
            body, stored_at = self._objects.read(self._key(session_id, transcript_name(step)))
            summary, _ = self._objects.read(self._key(session_id, summary_name(step)))
            if body is not None:
                yield decode_transcript(step, body, summary, stored_at)

    def save_event(self, session_id: str, event: dict[str, Any]) -> None:
        """Queue the event for upload."""
        self._queue.put({"folder": self._key(session_id, ""), "event": event})

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until every event is uploaded. Return False on timeout."""
        return self._queue.flush(timeout_s)

    def close(self) -> None:
        """Upload the remaining events. Events that cannot be uploaded in time are dropped and logged."""
        self._uploads.accept(self._queue.close(_CLOSE_TIMEOUT_S))
        self._uploads.close()

    def _key(self, session_id: str, name: str) -> str:
        return "/".join([*([self.prefix] if self.prefix else []), folder_name(session_id), name])

    def _next_step(self, session_id: str) -> int:
        return 1 + max(self._steps(session_id), default=0)

    def _steps(self, session_id: str) -> list[int]:
        prefix = self._key(session_id, "transcript-pre-compact-")
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        names = (item["Key"].rpartition("/")[2] for page in pages for item in page.get("Contents", ()))
        return [step for name in names if (step := parse_step(name)) is not None]


@dataclass(frozen=True, slots=True)
class _Bucket:
    """Creates objects in a bucket."""

    client: Any
    name: str
    kms_key_id: str | None

    def create(self, key: str, body: bytes, content_type: str) -> bool:
        """Return True if the object now exists with this content, False if the key has other content."""
        from botocore.exceptions import ClientError

        digest = hashlib.sha256(body)
        encryption: dict[str, Any] = {}
        if self.kms_key_id:
            encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self.kms_key_id}
        try:
            self.client.put_object(
                Bucket=self.name,
                Key=key,
                Body=body,
                ContentType=content_type,
                IfNoneMatch="*",
                ChecksumSHA256=base64.b64encode(digest.digest()).decode(),
                Metadata={"sha256": digest.hexdigest()},
                **encryption,
            )
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != 412:
                raise
            # It may be our own object: boto3 repeats a request whose answer was lost.
            head = self.client.head_object(Bucket=self.name, Key=key)
            return bool(head.get("Metadata", {}).get("sha256") == digest.hexdigest())
        return True

    def read(self, key: str) -> tuple[bytes | None, float | None]:
        """Return the content and time of an object, or None if there is none."""
        from botocore.exceptions import ClientError

        try:
            answer = self.client.get_object(Bucket=self.name, Key=key)
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != 404:
                raise
            return None, None
        return answer["Body"].read(), answer["LastModified"].timestamp()


@dataclass(frozen=True, slots=True)
class _Batch:
    key: str
    body: bytes
    events: int


class _EventUploads(Sink):
    """Uploads events in batches, one object per batch and session, and retries failed uploads."""

    def __init__(self, objects: _Bucket) -> None:
        self._objects = objects
        self._pending: deque[_Batch] = deque()
        self._retry_delay_s = 0.0

    def accept(self, events: list[dict[str, Any]]) -> None:
        folders: dict[str, list[bytes]] = defaultdict(list)
        for item in events:
            line = json.dumps(item["event"], separators=(",", ":"), default=str)
            folders[item["folder"]].append(line.encode() + b"\n")
        for folder, lines in folders.items():
            self._pending.append(_Batch(f"{folder}events-{time.time_ns()}.jsonl", b"".join(lines), len(lines)))
        while len(self._pending) > _MAX_PENDING_BATCHES:
            self._drop(self._pending.popleft(), f"more than {_MAX_PENDING_BATCHES} batches are pending")

    def step(self) -> float | None:
        while self._pending:
            batch = self._pending[0]  # removed only after its upload, under a key that does not change
            try:
                self._objects.create(batch.key, batch.body, "application/x-ndjson")
            except Exception as error:
                if not self._retry_delay_s:
                    log_problem("compact", f"Cannot upload events to S3, retrying: {type(error).__name__}: {error}")
                self._retry_delay_s = min(_MAX_RETRY_DELAY_S, 2 * self._retry_delay_s or 1.0)
                return self._retry_delay_s
            self._pending.popleft()
            self._retry_delay_s = 0.0
        return None

    def close(self) -> None:
        """Make a last attempt, then drop the rest."""
        self.step()
        while self._pending:
            self._drop(self._pending.popleft(), "the process exited first")

    def after_fork(self) -> None:
        self._pending.clear()

    def _drop(self, batch: _Batch, reason: str) -> None:
        log_problem("compact", f"{batch.events} events were not archived to S3: {reason}.")


def _connect(region: str | None, endpoint_url: str | None, *, require_role: bool) -> Any:
    import boto3
    from botocore.config import Config

    session = boto3.session.Session()
    credentials = session.get_credentials()
    if require_role and credentials is not None and credentials.method in _STATIC_METHODS and not credentials.token:
        raise ConfigError(
            "storage.require_role",
            f"is set, but the AWS credentials are a static key from {credentials.method!r}. Use an IAM role "
            "(instance profile, web identity, SSO, assume-role), or set require_role to false.",
        )
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 4},
        connect_timeout=2,
        read_timeout=10,
        s3={"addressing_style": "path"} if endpoint_url else {},
    )
    return session.client("s3", region_name=region or "us-east-1", endpoint_url=endpoint_url, config=config)
