#!/usr/bin/env python
"""Run a Django management command in a checkout."""

from ariadne.__main__ import main

if __name__ == "__main__":
    main()
