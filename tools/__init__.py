"""What the Makefile calls: lock files, browser, JavaScript check, requirements matrix. Never imported by the product."""
