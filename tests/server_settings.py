"""Settings of tests and of their servers: those of the product, without what would only make tests wait."""

import os

from ariadne.settings import *  # noqa: F403

# The default hash takes 0.3 seconds of CPU per login, and there are hundreds of logins.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
ALERT_INTERVAL_S = 1
# A test of the bundles names another folder.
STATICFILES_DIRS = [os.environ.get("TEST_STATIC") or PAGES / "static"]  # noqa: F405
