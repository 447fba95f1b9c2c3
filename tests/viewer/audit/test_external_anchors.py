"""Anchors at a timestamp service (openssl) and in an S3 bucket with object lock (SeaweedFS)."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from people import client_for, create_project, create_transcript, create_user
from s3_server import ACCESS_KEY, SECRET_KEY, run_s3_server

from ingest.models import AnchorMark
from viewer.audit import log
from viewer.audit.anchors import anchor_series, external_anchors
from viewer.audit.log import Action, Origin

pytestmark = pytest.mark.django_db

_CONFIG = """
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:true
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[tsa]
basicConstraints = critical, CA:false
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, timeStamping
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
[tsa_config]
serial = {folder}/serial
signer_cert = {folder}/tsa.pem
signer_key = {folder}/tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256, sha384, sha512
accuracy = secs:1
ess_cert_id_alg = sha256
"""


def openssl(*arguments: str, data: bytes = b"") -> bytes:
    program = shutil.which("openssl")
    assert program, "openssl is missing"
    return subprocess.run([program, *arguments], input=data, capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the certificate authority and the certificate of a timestamp service."""
    folder = tmp_path_factory.mktemp("tsa")
    config = folder / "openssl.cnf"
    config.write_text(_CONFIG.format(folder=folder))
    (folder / "serial").write_text("01\n")
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-config", str(config))
    ca, key = str(folder / "ca.pem"), str(folder / "ca.key")
    openssl("req", "-x509", *new_key, "-subj", "/CN=CA", "-extensions", "ca", "-keyout", key, "-out", ca, "-days", "9")
    request = str(folder / "tsa.csr")
    openssl("req", *new_key, "-subj", "/CN=TSA", "-keyout", str(folder / "tsa.key"), "-out", request)
    signing = ("-CA", ca, "-CAkey", key, "-CAcreateserial", "-days", "9")
    extensions = ("-extfile", str(config), "-extensions", "tsa", "-out", str(folder / "tsa.pem"))
    openssl("x509", "-req", "-in", request, *signing, *extensions)
    return folder


@pytest.fixture
def timestamp_url(authority: Path) -> Iterator[str]:
    """A timestamp service that answers with `openssl ts`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            query = authority / "query.tsq"
            query.write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            options = ("-queryfile", str(query), "-config", str(authority / "openssl.cnf"), "-section", "tsa_config")
            answer = openssl("ts", "-reply", *options)
            self.send_response(200)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def stamped(settings, timestamp_url: str, authority: Path) -> None:
    settings.ANCHOR_TIMESTAMP_URL = timestamp_url
    settings.ANCHOR_TIMESTAMP_CA = str(authority / "ca.pem")


@pytest.mark.usefixtures("stamped")
def test_each_anchor_gets_a_timestamp_that_openssl_accepts(data_dir: Path, authority: Path):
    anchor = anchor_series.write()
    assert anchor_series.verify().problems == []
    answer, signed = data_dir / "anchor_timestamps" / "00000001.tsr", data_dir / "line"
    signed.write_bytes(anchor.line)
    checked = openssl("ts", "-verify", "-in", str(answer), "-data", str(signed), "-CAfile", str(authority / "ca.pem"))
    assert b"Verification: OK" in checked


@pytest.mark.usefixtures("stamped")
def test_a_timestamp_of_another_anchor_is_found(data_dir: Path):
    """Someone who has the server's key signs a changed anchor again. The timestamp does not fit."""
    anchor_series.write()
    log.record(Origin(1, "ann"), Action.LOGIN)
    anchor_series.write()
    folder = data_dir / "anchor_timestamps"
    (folder / "00000002.tsr").write_bytes((folder / "00000001.tsr").read_bytes())
    assert anchor_series.verify().problems == ["The timestamp of anchor 2 is not valid for this anchor."]
    (folder / "00000002.tsr").write_bytes(b"damaged")
    assert anchor_series.verify().problems == ["The timestamp of anchor 2 is not valid for this anchor."]


def test_an_unreachable_service_is_reported_and_retried(settings, timestamp_url: str, authority: Path):
    """The anchor is written anyway. The next one takes the missing timestamp with it."""
    settings.ANCHOR_TIMESTAMP_CA = str(authority / "ca.pem")
    settings.ANCHOR_TIMESTAMP_URL = "http://127.0.0.1:9"
    anchor_series.write()
    (status,) = external_anchors.statuses()
    assert status.number == 0 and "refused" in status.error
    ours = create_project()
    page = client_for(create_user("auditor", ours)).get("/audit/").content.decode()
    assert "Timestamp service" in page and "refused" in page
    settings.ANCHOR_TIMESTAMP_URL = timestamp_url
    anchor_series.write()
    (status,) = external_anchors.statuses()
    assert (status.number, status.error) == (2, "")
    assert external_anchors.services()[0].numbers() == {1, 2}


def test_an_answer_of_another_authority_is_not_accepted(settings, timestamp_url: str, tmp_path: Path):
    other = tmp_path / "other.pem"
    config = tmp_path / "openssl.cnf"
    config.write_text(_CONFIG.format(folder=tmp_path))
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-config", str(config))
    openssl(
        *("req", "-x509", *key, "-subj", "/CN=Other", "-extensions", "ca"),
        *("-keyout", str(tmp_path / "other.key"), "-out", str(other)),
    )
    settings.ANCHOR_TIMESTAMP_URL, settings.ANCHOR_TIMESTAMP_CA = timestamp_url, str(other)
    anchor_series.write()
    (status,) = external_anchors.statuses()
    assert status.number == 0 and "VerificationError" in status.error


@pytest.fixture(scope="module")
def s3_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with run_s3_server(tmp_path_factory.mktemp("weed")) as url:
        yield url


@pytest.fixture
def bucket(settings, s3_url: str, monkeypatch, request: pytest.FixtureRequest) -> Any:
    """A new bucket with object lock, configured for anchors."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("s3", endpoint_url=s3_url)
    name = f"anchors-{abs(hash(request.node.name)) % 10**8}"
    client.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    settings.ANCHOR_BUCKET, settings.ANCHOR_BUCKET_ENDPOINT = name, s3_url
    settings.ANCHOR_BUCKET_DAYS = 1
    return client


def test_anchors_in_the_bucket_cannot_be_deleted(bucket: Any, settings):
    anchor = anchor_series.write()
    assert anchor_series.verify().problems == []
    (version,) = bucket.list_object_versions(Bucket=settings.ANCHOR_BUCKET)["Versions"]
    with pytest.raises(ClientError, match="AccessDenied"):
        bucket.delete_object(Bucket=settings.ANCHOR_BUCKET, Key=version["Key"], VersionId=version["VersionId"])
    bucket.delete_object(Bucket=settings.ANCHOR_BUCKET, Key=version["Key"])  # only hides it
    bucket.put_object(Bucket=settings.ANCHOR_BUCKET, Key=version["Key"], Body=b"forged")
    assert anchor_series.verify().problems == []
    assert external_anchors.services()[0].find_problem(anchor) == ""


@pytest.mark.req("A-ARC-2")
@pytest.mark.usefixtures("bucket")
def test_an_older_backup_of_everything_is_found(data_dir: Path):
    """Database, anchor file and mark are all from yesterday. Only the bucket knows of the newer anchor."""
    ours = create_project()
    create_transcript(ours)
    anchor_series.write()
    mark, file = AnchorMark.objects.get(), (data_dir / "anchors.jsonl").read_bytes()
    anchor_series.write()
    AnchorMark.objects.all().delete()
    mark.save(force_insert=True)
    (data_dir / "anchors.jsonl").write_bytes(file)
    (problem,) = anchor_series.verify().problems
    assert "Anchor 2 is in the locked bucket but not in the anchor file." in problem


@pytest.mark.usefixtures("bucket")
def test_copies_of_an_earlier_series_are_no_problem_after_a_restart(data_dir: Path):
    """Everything was restored from yesterday. The new series continues the numbers of the bucket."""
    anchor_series.write()
    mark, file = AnchorMark.objects.get(), (data_dir / "anchors.jsonl").read_bytes()
    anchor_series.write()
    anchor_series.write()
    AnchorMark.objects.all().delete()
    mark.save(force_insert=True)
    (data_dir / "anchors.jsonl").write_bytes(file)
    assert anchor_series.verify().status == "failed"
    assert anchor_series.restart(Origin(None, "root"), "restored").number == 4
    assert anchor_series.verify().status == "anchored"
    (data_dir / "anchors.jsonl").unlink()
    assert anchor_series.verify().status == "failed"


@pytest.mark.usefixtures("bucket")
def test_a_history_that_was_anchored_again_differs_from_the_bucket(data_dir: Path):
    """Someone with the database, DATA_DIR and the signing key starts over. The bucket has the first version."""
    anchor_series.write()
    (data_dir / "anchors.jsonl").unlink()
    AnchorMark.objects.all().delete()
    log.record(Origin(1, "forged"), Action.LOGIN)
    anchor_series.write()
    assert anchor_series.verify().problems == ["Anchor 1 differs from its copy in the locked bucket."]


def test_an_unreachable_bucket_is_a_finding_and_not_a_crash(bucket: Any, settings):
    anchor_series.write()
    settings.ANCHOR_BUCKET = "missing-bucket"
    (problem,) = anchor_series.verify().problems
    assert problem.startswith("The locked bucket could not be checked:")
