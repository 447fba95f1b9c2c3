"""Archive to S3: `s3://{bucket}/{prefix}/{session}/…`, encrypted with KMS if a key is named.

There is no parameter for an access key: credentials come from a role. An object is never replaced (If-None-Match), and
carries its SHA-256 as S3's own checksum. Transcripts are uploaded before anything is pruned; events go in
batches from a thread, for S3 cannot append, and wait in memory while it is away.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compact.adapters.transcript import folder_of, summary_body, summary_name, transcript_name, transcript_of
from compact.delivery.batcher import Batcher, Sink
from compact.delivery.stderr import say
from compact.exceptions import ConfigError
from compact.messages import Message

_STATIC = {"env", "explicit", "shared-credentials-file", "config-file", "boto-config"}


# A batch is at most a thousand events of one session: minutes of a busy fleet, tens of megabytes.
_MAX_WAITING = 256
_MAX_PAUSE_S = 60.0


@dataclass(frozen=True, slots=True)
class _Batch:
    key: str
    body: bytes
    events: int


class S3Storage(Sink):
    """`S3Storage("my-bucket", "compact", kms_key_id="alias/agents")`, with the credentials of the role it runs under.

    `require_role=False` also accepts keys from the environment or a credentials file, for development and for
    S3-compatible servers (`endpoint_url`). `client` is a boto3 S3 client of your own.
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
        self._kms_key_id = kms_key_id
        self._client = client if client is not None else _client(region, endpoint_url, require_role=require_role)
        self._waiting: deque[_Batch] = deque()
        self._pause_s = 0.0
        self._batcher = Batcher(self, max_queue=16_384, max_batch=1_000, interval_s=5.0, name="compact-s3")

    def save_transcript(
        self, session_id: str, transcript: Sequence[Message], step: int | None = None
    ) -> dict[str, Any]:
        """Upload the transcript and return its key and hash; raises what boto3 raises once its retries are used up."""
        made = transcript_of(transcript)
        number = step if step is not None else self._next_step(session_id)
        while not self._put(key := self._key(session_id, transcript_name(number)), made.body, "application/x-ndjson"):
            number += 1
        return {
            "key": f"s3://{self.bucket}/{key}",
            "step": number,
            "sha256": made.sha256,
            "message_count": made.message_count,
        }

    def save_summary(self, session_id: str, summary: Message, step: int) -> dict[str, Any]:
        body = summary_body(session_id, summary, step)
        while not self._put(key := self._key(session_id, summary_name(step)), body, "application/json"):
            step += 1
        return {"key": f"s3://{self.bucket}/{key}", "sha256": hashlib.sha256(body).hexdigest()}

    def save_event(self, session_id: str, event: dict[str, Any]) -> None:
        self._batcher.put({"session_id": session_id, "event": event})

    def flush(self, timeout_s: float = 10.0) -> bool:
        """Wait until all events are uploaded."""
        return self._batcher.flush(timeout_s)

    def close(self) -> None:
        rest = self._batcher.close(10.0)
        if rest:
            self.accept(rest)
        self.step()
        while self._waiting:
            self._complain(self._waiting.popleft().events, "the process ended first")

    # The worker's side: events in batches, each kept until it is there.

    def accept(self, events: list[dict[str, Any]]) -> None:
        sessions: dict[str, list[bytes]] = defaultdict(list)
        for item in events:
            line = json.dumps(item["event"], separators=(",", ":"), default=str)
            sessions[item["session_id"]].append(line.encode() + b"\n")
        for session_id, lines in sessions.items():
            key = self._key(session_id, f"events-{time.time_ns()}.jsonl")
            self._waiting.append(_Batch(key, b"".join(lines), len(lines)))
        while len(self._waiting) > _MAX_WAITING:
            self._complain(self._waiting.popleft().events, "S3 has been away for too long")

    def step(self) -> float | None:
        while self._waiting:
            batch = self._waiting[0]
            try:
                self._put(batch.key, batch.body, "application/x-ndjson")
            except Exception as error:
                if not self._pause_s:
                    say("compact", f"S3 does not take events, trying again: {type(error).__name__}: {error}")
                self._pause_s = min(_MAX_PAUSE_S, 2 * self._pause_s or 1.0)
                return self._pause_s
            self._waiting.popleft()
            self._pause_s = 0.0
        return None

    def after_fork(self) -> None:
        self._waiting.clear()

    def _complain(self, count: int, reason: str) -> None:
        say("compact", f"{count} events of a session were not archived to S3: {reason}")

    def _key(self, session_id: str, name: str) -> str:
        return "/".join(part for part in (self.prefix, folder_of(session_id), name) if part)

    def _put(self, key: str, body: bytes, content_type: str) -> bool:
        """True if the object is there with this content, now or before; False if the name is taken by another."""
        from botocore.exceptions import ClientError

        digest = hashlib.sha256(body)
        options: dict[str, Any] = {}
        if self._kms_key_id:
            options = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self._kms_key_id}
        try:
            self._client.put_object(
                Bucket=self.bucket,
                Key=key,
                Body=body,
                ContentType=content_type,
                IfNoneMatch="*",
                ChecksumSHA256=base64.b64encode(digest.digest()).decode(),
                Metadata={"sha256": digest.hexdigest()},
                **options,
            )
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != 412:
                raise
            head = self._client.head_object(Bucket=self.bucket, Key=key)
            return bool(head.get("Metadata", {}).get("sha256") == digest.hexdigest())
        return True

    def _next_step(self, session_id: str) -> int:
        prefix = self._key(session_id, "transcript-pre-compact-")
        pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
        return 1 + sum(len(page.get("Contents", ())) for page in pages)


def _client(region: str | None, endpoint_url: str | None, *, require_role: bool) -> Any:
    import boto3
    from botocore.config import Config

    session = boto3.session.Session()
    credentials = session.get_credentials()
    if require_role and credentials is not None and credentials.method in _STATIC and not credentials.token:
        raise ConfigError(
            "storage.require_role",
            f"is set, but the AWS credentials are a fixed key from {credentials.method!r}: run under an IAM role "
            "(instance profile, web identity, SSO, assume-role), or set require_role to false",
        )
    config = Config(
        retries={"mode": "standard", "total_max_attempts": 4},
        connect_timeout=2,
        read_timeout=10,
        s3={"addressing_style": "path"} if endpoint_url else {},
    )
    return session.client("s3", region_name=region or "us-east-1", endpoint_url=endpoint_url, config=config)
