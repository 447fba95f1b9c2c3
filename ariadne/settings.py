"""Server settings, read from the environment, with defaults for a laptop.

An invalid value stops the process with an error that names the variable. The comments that start with `#:` are the
descriptions in docs/CONFIGURATION.md.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import ipaddress
import os
import secrets
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured

from ariadne.paths import PAGES, ROOT

# Names that have been read. The first three belong to the client, which may run on the same machine.
_known_names = {"ARIADNE_URL", "ARIADNE_API_KEY", "ARIADNE_API_TOKEN"}


def env_str(name: str, default: str = "") -> str:
    _known_names.add(name)
    return os.environ.get(name, default).strip()


def unknown_variables() -> list[str]:
    """Return the ARIADNE_* variables that no setting reads. They are probably misspelled."""
    ours = (name for name in os.environ if name.startswith("ARIADNE_") and not name.startswith("ARIADNE_OIDC_"))
    return sorted(name for name in ours if name not in _known_names)


def env_bool(name: str, default: bool) -> bool:
    value = env_str(name).lower()
    if value in {"", None}:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name}={value!r} is not valid. Use 1 or 0.")


def env_int(name: str, default: int) -> int:
    value = env_str(name)
    if not value:
        return default
    try:
        return int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={value!r} is not an integer") from None


def env_list(name: str, default: str = "") -> list[str]:
    return [part.strip() for part in env_str(name, default).split(",") if part.strip()]


def env_networks(name: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    try:
        return [ipaddress.ip_network(network) for network in env_list(name)]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be a list of networks such as 10.1.0.0/16: {error}") from None


def env_required(name: str) -> str:
    if value := env_str(name):
        return value
    raise ImproperlyConfigured(f"{name} must be set when ARIADNE_OIDC_CLIENT_ID is")


def new_signing_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def new_secret() -> str:
    return secrets.token_urlsafe(48)


def env_secret(name: str, file: Path, make: Callable[[], str] = new_secret) -> str:
    """Return the secret from the environment or from `file`, which is created with mode 600 if it does not exist."""
    if value := env_str(name):
        return value
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        pass
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = file.with_name(f".{file.name}.{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(make())
    # Linking is atomic. If several processes start at once, one creates the file and the others read it.
    with contextlib.suppress(FileExistsError):
        os.link(new, file)
    new.unlink()
    return file.read_text().strip()


def script_hash(text: str) -> str:
    """Return the source expression with which a content security policy allows one inline script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def database(url: str, data_dir: Path) -> dict[str, Any]:
    """Return Django's settings for `DATABASE_URL`, or for the embedded server that `make up` runs on `data_dir`."""
    # Connections are not kept per thread. Under ASGI each request has its own thread, and each would hold one.
    common = {"ENGINE": "django.db.backends.postgresql", "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True}
    if not url:
        from ariadne.runtime.postgres import socket_dir  # noqa: PLC0415 - needed only without DATABASE_URL

        return {**common, "NAME": "ariadne", "USER": "ariadne", "HOST": str(socket_dir(data_dir))}
    parts = urlsplit(url)
    if parts.scheme not in {"postgres", "postgresql"} or not parts.path.strip("/"):
        raise ImproperlyConfigured("DATABASE_URL must look like postgresql://user:password@host:5432/name")
    options = dict(parse_qsl(parts.query))
    return {
        **common,
        "NAME": unquote(parts.path.lstrip("/")),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": options.pop("host", "") or unquote(parts.hostname or ""),
        "PORT": options.pop("port", "") or str(parts.port or ""),
        "OPTIONS": options,
    }


#: The folder for the embedded Postgres, the secrets and `credentials.json`. A relative path starts at the checkout, or
#: at the working directory of an installed server.
DATA_DIR = Path(env_str("DATA_DIR", ".ariadne"))
DATA_DIR = DATA_DIR if DATA_DIR.is_absolute() else ROOT / DATA_DIR

#: Set to 1 for any server other than a laptop: TLS only, secure cookies, HSTS.
PRODUCTION = env_bool("ARIADNE_PRODUCTION", False)
#: Show tracebacks in the browser. Not allowed in production.
DEBUG = env_bool("ARIADNE_DEBUG", False)
if PRODUCTION and DEBUG:
    raise ImproperlyConfigured(
        "ARIADNE_DEBUG=1 shows tracebacks to every visitor and is not allowed with ARIADNE_PRODUCTION=1"
    )
#: Signs login cookies. Must be the same in all web processes.
SECRET_KEY = env_secret("ARIADNE_SECRET_KEY", DATA_DIR / "secret_key")
#: Signs audit bundles. 32 bytes in base64, the same in all web processes.
SIGNING_KEY = env_secret("ARIADNE_SIGNING_KEY", DATA_DIR / "signing_key", make=new_signing_key)
if len(SIGNING_KEY) != len(new_signing_key()):
    raise ImproperlyConfigured("ARIADNE_SIGNING_KEY must be 32 bytes in base64")
#: Public keys of earlier signing keys, separated by commas. Their signatures stay valid and they stay published.
RETIRED_SIGNING_KEYS = env_list("ARIADNE_RETIRED_SIGNING_KEYS")
if any(len(key) != len(new_signing_key()) for key in RETIRED_SIGNING_KEYS):
    raise ImproperlyConfigured("ARIADNE_RETIRED_SIGNING_KEYS: each entry must be a public key, 32 bytes in base64")
#: Host names under which the server is reachable. Requests for other hosts are rejected.
ALLOWED_HOSTS = env_list("ARIADNE_HOSTS", "127.0.0.1,localhost,[::1]")
#: Origins whose forms and websockets are accepted behind TLS, such as `https://ariadne.example.com`.
CSRF_TRUSTED_ORIGINS = env_list("ARIADNE_ORIGINS")

#: `postgresql://user:password@host:5432/name`, Postgres 15 or newer. If empty, the embedded server is used.
DATABASES = {"default": database(env_str("DATABASE_URL"), DATA_DIR)}
#: Database connections per web process for pages, the API and live views. Ingest has its own.
DATABASE_CONNECTIONS = env_int("ARIADNE_DATABASE_CONNECTIONS", 16)
#: `redis://host:6379/0`, the channel layer between web processes. Not needed with one web process.
REDIS_URL = env_str("REDIS_URL")
CHANNEL_LAYERS = {
    "default": (
        {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [REDIS_URL]}}
        if REDIS_URL
        else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
    )
}

INSTALLED_APPS = [
    "daphne",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "rest_framework",
    "drf_spectacular",
    "axes",
    "csp",
    "ariadne",
    "ingest",
    "viewer",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "csp.middleware.CSPMiddleware",
    "django_permissions_policy.PermissionsPolicyMiddleware",
    "viewer.middleware.page_defaults",
    "ariadne.runtime.db_middleware.reject_while_database_is_down",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "viewer.audit.receivers.log_denied_requests",
    "axes.middleware.AxesMiddleware",
]
ROOT_URLCONF = "ariadne.urls"
ASGI_APPLICATION = "ariadne.asgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [PAGES / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "viewer.page_frame.context",
            ]
        },
    }
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

STATIC_URL = "/static/"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "ariadne.runtime.static_files.VersionedStorage"},
}
STATICFILES_DIRS = [PAGES / "static"]

LANGUAGE_CODE = "en-us"
TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "session-list"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("MinimumLengthValidator", "CommonPasswordValidator", "NumericPasswordValidator")
]

AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "viewer.accounts.login_limits.PasswordBackend"]
AXES_HANDLER = "viewer.accounts.login_limits.LoginLimits"
AXES_LOCKOUT_CALLABLE = "viewer.accounts.login_limits.wait_response"
#: Failed logins after which a username is locked for the network that tried: an IPv4 address, or an IPv6 /64.
AXES_FAILURE_LIMIT = env_int("ARIADNE_LOGIN_ATTEMPTS", 5)
#: Minutes for which it stays locked.
AXES_COOLOFF_TIME = timedelta(minutes=env_int("ARIADNE_LOGIN_LOCK_MINUTES", 15))
AXES_CLIENT_IP_CALLABLE = "viewer.accounts.login_limits.request_network"
AXES_DISABLE_ACCESS_LOG = True  # the audit log records logins
AXES_VERBOSE = False

#: Number of trusted proxies in front of the server. `X-Forwarded-For` is used only for the entries that they added.
TRUSTED_PROXIES = env_int("ARIADNE_PROXIES", 1 if PRODUCTION else 0)
#: Hours until a login expires.
SESSION_COOKIE_AGE = int(timedelta(hours=env_int("ARIADNE_SESSION_HOURS", 12)).total_seconds())
SESSION_COOKIE_HTTPONLY = True
SESSION_ENGINE = "viewer.accounts.login_sessions"
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
# Pages need no device. An empty list disables a feature.
PERMISSIONS_POLICY: dict[str, list[str]] = {
    name: [] for name in ("camera", "microphone", "geolocation", "payment", "usb", "browsing-topics")
}
# Scripts that must run before the first paint are part of the page. Nothing else inline is allowed.
INLINE_SCRIPTS = {name: (PAGES / f"static/js/inline/{name}.js").read_text() for name in ("theme", "first-paint")}
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF, *map(script_hash, INLINE_SCRIPTS.values())],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
    }
}
if PRODUCTION:
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    # Browsers accept cookies with the `__Host-` prefix only over TLS, for this host and for the path /.
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-session", "__Host-csrf"
    #: Redirect HTTP to HTTPS in production. Set to 0 if the proxy does it.
    SECURE_SSL_REDIRECT = env_bool("ARIADNE_SSL_REDIRECT", True)
    if TRUSTED_PROXIES:
        SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = int(timedelta(days=365).total_seconds())
    SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = True

#: Seconds between anchors of the archive and the audit log. 0 turns them off in this process.
ANCHOR_INTERVAL_S = env_int("ARIADNE_ANCHOR_INTERVAL_S", 3600)
#: The address of an RFC 3161 timestamp service that confirms each anchor. Needs the package rfc3161-client.
ANCHOR_TIMESTAMP_URL = env_str("ARIADNE_ANCHOR_TIMESTAMP_URL")
#: A PEM file with the root certificates of the timestamp service.
ANCHOR_TIMESTAMP_CA = env_str("ARIADNE_ANCHOR_TIMESTAMP_CA")
if ANCHOR_TIMESTAMP_URL and not ANCHOR_TIMESTAMP_CA:
    raise ImproperlyConfigured("ARIADNE_ANCHOR_TIMESTAMP_URL needs ARIADNE_ANCHOR_TIMESTAMP_CA, a PEM file.")
#: An S3 bucket with object lock that gets a copy of each anchor. Needs the package boto3, with its credentials.
ANCHOR_BUCKET = env_str("ARIADNE_ANCHOR_BUCKET")
#: The address of the S3 service, if it is not AWS.
ANCHOR_BUCKET_ENDPOINT = env_str("ARIADNE_ANCHOR_BUCKET_ENDPOINT")
#: Days for which the bucket must keep each anchor.
ANCHOR_BUCKET_DAYS = env_int("ARIADNE_ANCHOR_BUCKET_DAYS", 365)

#: Address of this server in the links of alerts, such as `https://ariadne.example.com`.
PUBLIC_URL = env_str("ARIADNE_PUBLIC_URL", next(iter(CSRF_TRUSTED_ORIGINS), "http://127.0.0.1:8000")).rstrip("/")
#: Seconds between evaluations of alert rules. 0 turns evaluation and delivery off in this process.
ALERT_INTERVAL_S = env_int("ARIADNE_ALERT_INTERVAL_S", 15)
#: Private networks that webhooks may reach, such as `10.1.0.0/16`. All other private addresses are refused.
ALERT_NETWORKS = env_networks("ARIADNE_ALERT_NETWORKS")
#: The mail server for alerts. If empty, alerts cannot be sent by e-mail.
EMAIL_HOST = env_str("ARIADNE_EMAIL_HOST")
#: The port of the mail server.
EMAIL_PORT = env_int("ARIADNE_EMAIL_PORT", 587)
#: The login at the mail server.
EMAIL_HOST_USER = env_str("ARIADNE_EMAIL_USER")
#: The password at the mail server.
EMAIL_HOST_PASSWORD = env_str("ARIADNE_EMAIL_PASSWORD")
#: Encryption of the connection to the mail server: `starttls`, `ssl` or `none`.
EMAIL_SECURITY = env_str("ARIADNE_EMAIL_SECURITY", "starttls")
if EMAIL_SECURITY not in {"starttls", "ssl", "none"}:
    raise ImproperlyConfigured(f"ARIADNE_EMAIL_SECURITY={EMAIL_SECURITY!r} is not starttls, ssl or none")
EMAIL_USE_TLS, EMAIL_USE_SSL = EMAIL_SECURITY == "starttls", EMAIL_SECURITY == "ssl"
EMAIL_TIMEOUT = 8
#: The sender of alerts.
DEFAULT_FROM_EMAIL = env_str("ARIADNE_EMAIL_FROM", "ariadne@localhost")

#: Require a reason for each transcript download through the API too. Pages always ask for one.
REQUIRE_REASON = env_bool("ARIADNE_REQUIRE_REASON", False)

# With a client id, every provider URL is required.
#: The client id at the provider. Setting it turns on single sign-on (OpenID Connect).
OIDC_RP_CLIENT_ID = env_str("ARIADNE_OIDC_CLIENT_ID")
SSO = bool(OIDC_RP_CLIENT_ID)
if SSO:
    INSTALLED_APPS.append("mozilla_django_oidc")
    AUTHENTICATION_BACKENDS.append("viewer.accounts.sso.Backend")
    #: The client secret at the provider.
    OIDC_RP_CLIENT_SECRET = env_required("ARIADNE_OIDC_CLIENT_SECRET")
    #: The provider's authorization endpoint.
    OIDC_OP_AUTHORIZATION_ENDPOINT = env_required("ARIADNE_OIDC_AUTHORIZATION_URL")
    #: The provider's token endpoint.
    OIDC_OP_TOKEN_ENDPOINT = env_required("ARIADNE_OIDC_TOKEN_URL")
    #: The provider's user-info endpoint.
    OIDC_OP_USER_ENDPOINT = env_required("ARIADNE_OIDC_USER_URL")
    #: The provider's signing keys.
    OIDC_OP_JWKS_ENDPOINT = env_required("ARIADNE_OIDC_JWKS_URL")
    #: The signature algorithm of the provider.
    OIDC_RP_SIGN_ALGO = env_str("ARIADNE_OIDC_ALGORITHM", "RS256")
    #: The scopes to request.
    OIDC_RP_SCOPES = env_str("ARIADNE_OIDC_SCOPES", "openid email profile")
    #: The claim with a person's groups (operators, developers, auditors, admins). If empty, groups are managed here.
    OIDC_GROUPS_CLAIM = env_str("ARIADNE_OIDC_GROUPS_CLAIM")
    OIDC_USE_PKCE = True
    LOGIN_REDIRECT_URL_FAILURE = "/login/?sso=failed"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "viewer.accounts.authentication.TokenAuthentication",
        "viewer.accounts.authentication.PasswordAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS = {"TITLE": "Ariadne", "VERSION": "1", "SERVE_INCLUDE_SCHEMA": False}

#: Seconds after which a request without a response is answered with 503.
REQUEST_TIMEOUT_S = env_int("ARIADNE_REQUEST_TIMEOUT_S", 60)
# An event may contain a 5 MB tool output, and a body may contain a batch of events.
#: The largest request body after decompression.
INGEST_MAX_BODY_BYTES = env_int("ARIADNE_INGEST_MAX_BODY_BYTES", 32 * 1024 * 1024)
#: The maximum number of events in one request.
INGEST_MAX_EVENTS = env_int("ARIADNE_INGEST_MAX_EVENTS", 10_000)
# Two cores store 11,000 to 26,000 events per second (tests/bench/ingest/README.md). The rates are twice that, so that
# they stop mistakes and attacks. The backlog, in seconds of the capacity that this process measures, keeps a busy
# project from filling the queue.
#: Events per second that one key may send to one process. 0 means no limit.
INGEST_KEY_EVENTS_PER_S = env_int("ARIADNE_INGEST_KEY_EVENTS_PER_S", 50_000)
#: Events per second that all keys of one project may send to one process. 0 means no limit.
INGEST_PROJECT_EVENTS_PER_S = env_int("ARIADNE_INGEST_PROJECT_EVENTS_PER_S", 50_000)
#: Seconds of work that one project may have in the write queue. Above it, its requests are answered with 429.
INGEST_MAX_BACKLOG_S = env_int("ARIADNE_INGEST_MAX_BACKLOG_S", 2)
#: Bytes per second that one key may send to one process. 0 means no limit.
INGEST_KEY_BYTES_PER_S = env_int("ARIADNE_INGEST_KEY_BYTES_PER_S", 128 * 1024 * 1024)
#: Seconds for a request to arrive, in addition to the time that its body takes at 64 kB per second.
INGEST_READ_TIMEOUT_S = env_int("ARIADNE_INGEST_READ_TIMEOUT_S", 30)
#: Seconds after which a pending commit is answered with 503, so that the client retries.
INGEST_ANSWER_TIMEOUT_S = env_int("ARIADNE_INGEST_ANSWER_TIMEOUT_S", 10)
# Two, so that a large body of one project does not stop the bodies of others. More would only compete for the CPU.
#: Processes that decode and redact bodies above 16 kB, for each web process. 0 decodes them in the web process.
INGEST_DECODE_PROCESSES = env_int("ARIADNE_INGEST_DECODE_PROCESSES", 2)
#: Seconds after which decoding a body is stopped and answered with 413.
INGEST_DECODE_TIMEOUT_S = env_int("ARIADNE_INGEST_DECODE_TIMEOUT_S", 30)
#: Bytes of request bodies that one process keeps in memory. Above it, requests are answered with 503.
INGEST_MAX_HELD_BYTES = env_int("ARIADNE_INGEST_MAX_HELD_BYTES", 256 * 1024 * 1024)

#: Keep the search index and stored compaction pages up to date. With 0, search finds only what was indexed before.
SEARCH_INDEX = env_bool("ARIADNE_SEARCH_INDEX", True)

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
#: DEBUG, INFO, WARNING or ERROR. Logs go to stderr.
LOG_LEVEL = env_str("ARIADNE_LOG_LEVEL", "WARNING").upper()
if LOG_LEVEL not in LOG_LEVELS:
    raise ImproperlyConfigured(f"ARIADNE_LOG_LEVEL={LOG_LEVEL!r} is not one of {', '.join(LOG_LEVELS)}")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "ariadne.runtime.log_format.LineFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s %(message)s",
        },
        "notice": {"()": "ariadne.runtime.log_format.LineFormatter", "format": "%(levelname)s %(name)s %(message)s"},
    },
    "filters": {"requests": {"()": "ariadne.runtime.log_format.RequestLimit"}},
    "handlers": {
        "stderr": {"class": "logging.StreamHandler", "formatter": "line", "filters": ["requests"]},
        "notices": {
            "()": "ingest.notices.NoticeHandler",
            "file": DATA_DIR / "notices.log",
            "formatter": "notice",
        },
    },
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
    # psycopg warns about each pipeline that an error ended, and the error itself is logged where it is handled.
    "loggers": {
        "ariadne": {"handlers": ["notices"]},
        "psycopg": {"level": "ERROR"},
        # It writes a traceback for each attempt to reach Redis. `ingest.storage.notifications` names the outage once.
        "channels_redis": {"level": "CRITICAL"},
        "psycopg.pool": {"level": LOG_LEVEL},
    },
}
