"""The S3 archive, tested against a real S3 server (SeaweedFS), and its credential rules."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError
from compact.adapters import S3Storage
from compact.exceptions import ConfigError
from compact.messages import Message
from s3_server import GUEST_KEY, GUEST_SECRET, run_s3_server

MESSAGES = [Message("user", "hello", id="m1"), Message("assistant", "hi", id="m2")]


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_s3_server(tmp_path_factory.mktemp("weed")) as url:
        yield url


@pytest.fixture
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AGENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "agentsecret")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.delenv("AWS_PROFILE", raising=False)


def create_storage(endpoint: str, bucket: str) -> S3Storage:
    storage = S3Storage(bucket, "agents/prod", endpoint_url=endpoint, require_role=False)
    storage._client.create_bucket(Bucket=bucket)
    return storage


@pytest.mark.req("S-STO-2")
@pytest.mark.usefixtures("credentials")
def test_archive_on_a_real_s3_server(endpoint: str) -> None:
    """Keys match the specification, objects carry their hash and are never replaced, events are batched."""
    storage = create_storage(endpoint, "archive")
    saved = storage.save_transcript("session-1", MESSAGES, step=1)
    assert saved["key"] == "s3://archive/agents/prod/session-1/transcript-pre-compact-001.jsonl"
    key = saved["key"].removeprefix("s3://archive/")
    stored = storage._client.get_object(Bucket="archive", Key=key)
    assert hashlib.sha256(stored["Body"].read()).hexdigest() == saved["sha256"] == stored["Metadata"]["sha256"]
    assert storage.save_transcript("session-1", MESSAGES, step=1) == saved
    assert storage.save_transcript("session-1", MESSAGES[:1], step=1)["step"] == 2
    assert storage.save_transcript("session-1", MESSAGES * 2)["step"] == 3
    assert storage.save_summary("session-1", MESSAGES[1], 1)["key"].endswith("session-1/summary-001.json")
    storage.save_event("session-1", {"event": "compact.check"})
    storage.save_event("session-1", {"event": "compact.archival"})
    assert storage.flush()
    storage.close()
    listed = storage._client.list_objects_v2(Bucket="archive", Prefix="agents/prod/session-1/events-")["Contents"]
    bodies = [storage._client.get_object(Bucket="archive", Key=item["Key"])["Body"].read() for item in listed]
    assert [json.loads(line)["event"] for line in b"".join(bodies).splitlines()] == [
        "compact.check",
        "compact.archival",
    ]


@pytest.mark.usefixtures("credentials")
def test_forbidden_bucket_and_wrong_key_raise(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error reaches the caller before it prunes."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", GUEST_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", GUEST_SECRET)
    storage = S3Storage("forbidden-bucket", endpoint_url=endpoint, require_role=False)
    with pytest.raises(storage._client.exceptions.ClientError, match="PutObject"):
        storage.save_transcript("s", MESSAGES, step=1)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    rejected = S3Storage("archive", endpoint_url=endpoint, require_role=False)
    with pytest.raises(rejected._client.exceptions.ClientError, match="SignatureDoesNotMatch"):
        rejected.save_transcript("s", MESSAGES, step=1)


@pytest.mark.usefixtures("credentials")
def test_unreachable_server_raises_within_seconds() -> None:
    """Retries are limited, so the agent does not wait long for an archive that is unreachable."""
    storage = S3Storage("archive", endpoint_url="http://127.0.0.1:1", require_role=False)
    started = time.monotonic()
    with pytest.raises(BotoCoreError):
        storage.save_transcript("s", MESSAGES, step=1)
    assert time.monotonic() - started < 30


def test_failed_event_upload_is_retried(capsys: pytest.CaptureFixture[str]) -> None:
    """A failed batch is logged once and retried. No event is lost or uploaded twice."""
    bodies: list[bytes] = []

    class Client:
        is_failing = True

        def put_object(self, **options: Any) -> None:
            if Client.is_failing:
                Client.is_failing = False
                raise ConnectionError("unreachable")
            bodies.append(options["Body"])

    storage = S3Storage("b", "", client=Client())
    storage.save_event("s", {"event": "compact.check"})
    assert storage.flush()
    storage.close()
    assert bodies == [b'{"event":"compact.check"}\n']
    assert capsys.readouterr().err.count("retrying") == 1


@pytest.mark.req("S-STO-2")
@pytest.mark.usefixtures("credentials")
def test_static_keys_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials must come from a role. A session token is accepted, because roles issue them."""
    with pytest.raises(ConfigError, match=r"storage\.require_role .* static key"):
        S3Storage("archive")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "from-a-role")
    assert S3Storage("archive", region="eu-central-1").bucket == "archive"


@pytest.mark.req("S-STO-2")
def test_objects_are_encrypted_with_the_kms_key() -> None:
    """With a key id, every object requests aws:kms encryption with it."""
    sent: list[dict[str, Any]] = []

    class Client:
        def put_object(self, **options: Any) -> None:
            sent.append(options)

    S3Storage("b", "", client=Client(), kms_key_id="alias/agents").save_transcript("s", MESSAGES, step=1)
    S3Storage("b", "", client=Client()).save_transcript("s", MESSAGES, step=1)
    assert (sent[0]["ServerSideEncryption"], sent[0]["SSEKMSKeyId"]) == ("aws:kms", "alias/agents")
    assert "ServerSideEncryption" not in sent[1]
    assert sent[0]["Key"] == "s/transcript-pre-compact-001.jsonl"
