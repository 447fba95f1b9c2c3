"""The login by e-mail: a customer asks for a code, gets it by mail, and types it."""

from __future__ import annotations

import re
import time

CODE = re.compile(r"\b\d{6}\b")


def test_login_with_a_code(browser, mailbox, customer):
    browser.open("/login")
    browser.fill("E-mail", customer.email)
    browser.click("Send me a code")
    time.sleep(2)
    message = mailbox.newest(to=customer.email)
    browser.fill("Code", CODE.search(message.text)[0])
    browser.click("Sign in")
    assert browser.text("h1") == f"Welcome back, {customer.first_name}"


def test_wrong_code_is_rejected(browser, mailbox, customer):
    browser.open("/login")
    browser.fill("E-mail", customer.email)
    browser.click("Send me a code")
    browser.fill("Code", "000000")
    browser.click("Sign in")
    assert browser.text("[role=alert]") == "This code is not valid."
