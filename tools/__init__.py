"""Development tools that the Makefile calls: lock files, browser, JavaScript, prose, requirements."""
