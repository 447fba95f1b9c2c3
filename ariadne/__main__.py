"""Run a Django management command: `python -m ariadne migrate`, the same as `manage.py` in a checkout."""

from __future__ import annotations

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ariadne.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 - after the settings module is set

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
