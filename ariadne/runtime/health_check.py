"""Exit with 0 if the local web process answers: `python -m ariadne.runtime.health_check [PORT]`.

A container runs this every ten seconds, so it imports nothing from the server: that import takes half a second.
"""

from __future__ import annotations

import http.client
import sys


def main(arguments: list[str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", int(arguments[0]) if arguments else 8000, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return 0 if connection.getresponse().status == 200 else 1
    except (OSError, http.client.HTTPException):
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
