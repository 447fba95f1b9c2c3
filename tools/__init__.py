"""What the Makefile calls: lock files, browser, JavaScript, requirements. The product never imports it."""
