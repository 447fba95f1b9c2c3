"""Every setting of the server, from the environment, with a default that works on a laptop.

A value that makes no sense stops the process here, with the name of the variable, before anything is served.
"""

from __future__ import annotations

import base64
import contextlib
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

_asked_for = {"ARIADNE_URL", "ARIADNE_API_KEY", "ARIADNE_API_TOKEN"}  # those of the client, on the same machine


def envstr(name: str, default: str = "") -> str:
    _asked_for.add(name)
    return os.environ.get(name, default).strip()


def unknown_variables() -> list[str]:
    """What is set under our name and nobody reads: most likely mistyped."""
    ours = (name for name in os.environ if name.startswith("ARIADNE_") and not name.startswith("ARIADNE_OIDC_"))
    return sorted(name for name in ours if name not in _asked_for)


def envbool(name: str, default: bool) -> bool:
    value = envstr(name).lower()
    if value in {"", None}:
        return default
    if value in {"1", "true", "yes", "on"}:
        return True
    if value in {"0", "false", "no", "off"}:
        return False
    raise ImproperlyConfigured(f"{name}={value!r} is not a yes or a no: use 1 or 0")


def envint(name: str, default: int) -> int:
    value = envstr(name)
    if not value:
        return default
    try:
        return int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={value!r} is not a whole number") from None


def envlist(name: str, default: str = "") -> list[str]:
    return [part.strip() for part in envstr(name, default).split(",") if part.strip()]


def envrequired(name: str) -> str:
    if value := envstr(name):
        return value
    raise ImproperlyConfigured(f"{name} must be set when ARIADNE_OIDC_CLIENT_ID is")


def new_signing_key() -> str:
    return base64.b64encode(secrets.token_bytes(32)).decode()


def new_secret() -> str:
    return secrets.token_urlsafe(48)


def envsecret(name: str, file: Path, make: Callable[[], str] = new_secret) -> str:
    """The secret from the environment, else from `file`, which is made (mode 600) at first use."""
    if value := envstr(name):
        return value
    try:
        return file.read_text().strip()
    except FileNotFoundError:
        pass
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    new = file.with_name(f".{file.name}.{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(make())
    # A link is whole or not there at all: of several processes that start at once, one decides and none reads half.
    with contextlib.suppress(FileExistsError):
        os.link(new, file)
    new.unlink()
    return file.read_text().strip()


def database(url: str, data_dir: Path) -> dict[str, Any]:
    """Django's description of `DATABASE_URL`, or of the embedded server that `make up` runs on `data_dir`."""
    # Not kept per thread: under ASGI every request has a thread of its own, and each would hold a connection.
    common = {"ENGINE": "django.db.backends.postgresql", "CONN_MAX_AGE": 0, "CONN_HEALTH_CHECKS": True}
    if not url:
        from ariadne.runtime.postgres import socket_dir  # noqa: PLC0415 - not needed where a server is named

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
        "PORT": str(parts.port or ""),
        "OPTIONS": options,
    }


#: The folder of the embedded Postgres, the secrets and `credentials.json`; relative to the checkout, or to the
#: working directory of an installed server.
DATA_DIR = Path(envstr("DATA_DIR", ".ariadne"))
DATA_DIR = DATA_DIR if DATA_DIR.is_absolute() else ROOT / DATA_DIR

# A laptop serves on loopback without TLS; anything else is production and says so.
#: Anything but a laptop: TLS only, secure cookies, HSTS.
PRODUCTION = envbool("ARIADNE_PRODUCTION", False)
#: Tracebacks in the browser. Refused in production.
DEBUG = envbool("ARIADNE_DEBUG", False)
if PRODUCTION and DEBUG:
    raise ImproperlyConfigured("ARIADNE_DEBUG=1 shows tracebacks to strangers: not with ARIADNE_PRODUCTION=1")
#: Signs logins. The same for all web processes.
SECRET_KEY = envsecret("ARIADNE_SECRET_KEY", DATA_DIR / "secret_key")
#: Signs audit bundles: the base64 of 32 bytes. The same for all web processes.
SIGNING_KEY = envsecret("ARIADNE_SIGNING_KEY", DATA_DIR / "signing_key", make=new_signing_key)
if len(SIGNING_KEY) != len(new_signing_key()):
    raise ImproperlyConfigured("ARIADNE_SIGNING_KEY is not the base64 of 32 bytes")
#: Public keys of earlier signing keys, with commas between: what they signed stays valid, and they stay published.
RETIRED_SIGNING_KEYS = envlist("ARIADNE_RETIRED_SIGNING_KEYS")
if any(len(key) != len(new_signing_key()) for key in RETIRED_SIGNING_KEYS):
    raise ImproperlyConfigured("ARIADNE_RETIRED_SIGNING_KEYS: each must be a public key, the base64 of 32 bytes")
#: The names under which people reach the server; any other is refused.
ALLOWED_HOSTS = envlist("ARIADNE_HOSTS", "127.0.0.1,localhost,[::1]")
#: Origins whose forms and websockets are accepted behind TLS, such as `https://ariadne.example.com`.
CSRF_TRUSTED_ORIGINS = envlist("ARIADNE_ORIGINS")

#: `postgresql://user:password@host:5432/name`, Postgres 15 or newer. Empty: the embedded server of `DATA_DIR`.
DATABASES = {"default": database(envstr("DATABASE_URL"), DATA_DIR)}
#: How many database connections a web process may hold for pages, the API and live views; ingest has its own.
DATABASE_CONNECTIONS = envint("ARIADNE_DATABASE_CONNECTIONS", 16)
#: `redis://host:6379/0`: carries notices between web processes. Empty: one web process, nothing needed.
REDIS_URL = envstr("REDIS_URL")
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
    "csp.middleware.CSPMiddleware",
    "viewer.middleware.privacy_headers",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "ariadne.runtime.db_middleware.while_away",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "viewer.audit.log.refusals",
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
STATIC_ROOT = DATA_DIR / "static"
with contextlib.suppress(OSError):  # a read-only DATA_DIR is somebody else's, and filled already
    STATIC_ROOT.mkdir(parents=True, exist_ok=True)
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "ariadne.staticfiles.HashedStorage"},
}
STATICFILES_DIRS = [PAGES / "static"]
WHITENOISE_USE_FINDERS = True

LANGUAGE_CODE = "en-gb"
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

AUTHENTICATION_BACKENDS = ["axes.backends.AxesStandaloneBackend", "django.contrib.auth.backends.ModelBackend"]
# Locks the pair, so that a stranger who guesses at a name cannot keep its owner out.
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
#: Wrong passwords after which a name is locked for the address that tried.
AXES_FAILURE_LIMIT = envint("ARIADNE_LOGIN_ATTEMPTS", 5)
#: How long it stays locked.
AXES_COOLOFF_TIME = timedelta(minutes=envint("ARIADNE_LOGIN_LOCK_MINUTES", 15))
AXES_RESET_ON_SUCCESS = True
AXES_LOCKOUT_TEMPLATE = "registration/locked.html"
AXES_CLIENT_IP_CALLABLE = "viewer.audit.log.request_address"
AXES_DISABLE_ACCESS_LOG = True  # the audit log has it
AXES_VERBOSE = False

#: How many proxies of yours stand in front: `X-Forwarded-For` is believed only as far as they wrote it.
TRUSTED_PROXIES = envint("ARIADNE_PROXIES", 1 if PRODUCTION else 0)
#: How long a login lasts.
SESSION_COOKIE_AGE = int(timedelta(hours=envint("ARIADNE_SESSION_HOURS", 12)).total_seconds())
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
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
    # Browsers accept these names only over TLS, for this host alone and from its root.
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-session", "__Host-csrf"
    #: In production, send plain HTTP to HTTPS. 0 where the proxy does it.
    SECURE_SSL_REDIRECT = envbool("ARIADNE_SSL_REDIRECT", True)
    if TRUSTED_PROXIES:
        SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = int(timedelta(days=365).total_seconds())
    SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = True

#: Pages ask why a transcript is downloaded; programs need not say, unless this is 1.
REQUIRE_REASON = envbool("ARIADNE_REQUIRE_REASON", False)

# Single sign-on is on when a client id is set; then every address of the provider must be.
#: Turns single sign-on (OpenID Connect) on.
OIDC_RP_CLIENT_ID = envstr("ARIADNE_OIDC_CLIENT_ID")
SSO = bool(OIDC_RP_CLIENT_ID)
if SSO:
    INSTALLED_APPS.append("mozilla_django_oidc")
    AUTHENTICATION_BACKENDS.append("viewer.accounts.sso.Backend")
    #: The client secret at the provider.
    OIDC_RP_CLIENT_SECRET = envrequired("ARIADNE_OIDC_CLIENT_SECRET")
    #: The provider's authorization endpoint.
    OIDC_OP_AUTHORIZATION_ENDPOINT = envrequired("ARIADNE_OIDC_AUTHORIZATION_URL")
    #: The provider's token endpoint.
    OIDC_OP_TOKEN_ENDPOINT = envrequired("ARIADNE_OIDC_TOKEN_URL")
    #: The provider's user-info endpoint.
    OIDC_OP_USER_ENDPOINT = envrequired("ARIADNE_OIDC_USER_URL")
    #: The provider's signing keys.
    OIDC_OP_JWKS_ENDPOINT = envrequired("ARIADNE_OIDC_JWKS_URL")
    #: How the provider signs.
    OIDC_RP_SIGN_ALGO = envstr("ARIADNE_OIDC_ALGORITHM", "RS256")
    #: What is asked of the provider.
    OIDC_RP_SCOPES = envstr("ARIADNE_OIDC_SCOPES", "openid email profile")
    #: The claim that holds a person's groups (operators, developers, auditors, admins). Empty: groups are kept here.
    OIDC_GROUPS_CLAIM = envstr("ARIADNE_OIDC_GROUPS_CLAIM")
    OIDC_USE_PKCE = True
    LOGIN_REDIRECT_URL_FAILURE = "login"

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "viewer.accounts.api_tokens.TokenAuthentication",
        "viewer.accounts.api_tokens.PasswordAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS = {"TITLE": "Ariadne", "VERSION": "1", "SERVE_INCLUDE_SCHEMA": False}

# Ingest limits. An event may carry a 5 MB tool output; a body holds a batch of ordinary ones.
#: The largest request, on the inflated bytes.
INGEST_MAX_BODY_BYTES = envint("ARIADNE_INGEST_MAX_BODY_BYTES", 32 * 1024 * 1024)
#: The most events in one request.
INGEST_MAX_EVENTS = envint("ARIADNE_INGEST_MAX_EVENTS", 10_000)
# Per key and process; 0 is no limit. High enough that only a mistake or an attack meets them.
#: Events a second that one key may send to one process; 0 is no limit.
INGEST_KEY_EVENTS_PER_S = envint("ARIADNE_INGEST_KEY_EVENTS_PER_S", 100_000)
#: Bytes a second that one key may send to one process; 0 is no limit.
INGEST_KEY_BYTES_PER_S = envint("ARIADNE_INGEST_KEY_BYTES_PER_S", 128 * 1024 * 1024)
#: A request must have arrived after this long, and the time that its body takes at 64 kB a second.
INGEST_READ_TIMEOUT_S = envint("ARIADNE_INGEST_READ_TIMEOUT_S", 30)
#: A commit that takes longer is answered with 503; clients give up after a few seconds and send again.
INGEST_ANSWER_TIMEOUT_S = envint("ARIADNE_INGEST_ANSWER_TIMEOUT_S", 10)
#: Bodies that one process holds in memory at once; more is answered with 503.
INGEST_MAX_HELD_BYTES = envint("ARIADNE_INGEST_MAX_HELD_BYTES", 256 * 1024 * 1024)

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
#: DEBUG, INFO, WARNING or ERROR, to stderr.
LOG_LEVEL = envstr("ARIADNE_LOG_LEVEL", "WARNING").upper()
if LOG_LEVEL not in LOG_LEVELS:
    raise ImproperlyConfigured(f"ARIADNE_LOG_LEVEL={LOG_LEVEL!r} is not one of {', '.join(LOG_LEVELS)}")
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": LOG_LEVEL},
}
