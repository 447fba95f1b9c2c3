"""Finished sessions of coding agents in the repository of a shop. Most are healthy, one has a refused summary."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

from ariadne.demo.repository import Repository
from ariadne.demo.script import PastSession, Step, Story, Turn

_SYSTEM = (
    "You are a coding agent in the repository shop. Work in small steps, read before you edit, and run the tests after "
    "every change."
)
_TOOLS = ("read_file", "grep", "edit_file", "create_file", "run_tests", "query_staging")

_LATE_FAILURE = """    def test_refresh_across_dst(session, device, clock):
        clock.set("2026-10-25T00:55:00Z")
        refresh_job.run(session)
        clock.advance(minutes=10)
>       assert tokens.decode(device.access_token)["sub"] == device.customer_id
E       jwt.exceptions.ExpiredSignatureError: Signature has expired

tests/test_tokens.py:27: ExpiredSignatureError"""
_DST_TEST = """

def test_refresh_across_dst(session, device, clock):
    clock.set("2026-10-25T00:55:00Z")
    refresh_job.run(session)
    clock.advance(minutes=10)
    assert tokens.decode(device.access_token)["sub"] == device.customer_id
"""
_STEP_ONE = """-- Step 1 of 4 of MIG-9. Takes no lock on customers for longer than the creation of a trigger.
CREATE TABLE customer_addresses (
    customer_id bigint NOT NULL REFERENCES customers (id),
    kind varchar(8) NOT NULL CHECK (kind IN ('shipping', 'billing')),
    street varchar(200),
    house_number varchar(20),
    postal_code varchar(20),
    city varchar(100),
    country varchar(2),
    PRIMARY KEY (customer_id, kind)
);
CREATE INDEX customer_addresses_country ON customer_addresses (country);

CREATE FUNCTION copy_customer_address() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO customer_addresses
    VALUES (NEW.id, 'shipping', NEW.street, NEW.house_number, NEW.postal_code, NEW.city, NEW.country)
    ON CONFLICT (customer_id, kind) DO UPDATE
    SET (street, house_number, postal_code, city, country)
        = (EXCLUDED.street, EXCLUDED.house_number, EXCLUDED.postal_code, EXCLUDED.city, EXCLUDED.country);
    RETURN NEW;
END $$;
CREATE TRIGGER customers_copy_address AFTER INSERT OR UPDATE ON customers
    FOR EACH ROW EXECUTE FUNCTION copy_customer_address();
"""
_BACKFILL = '''"""Step 2 of MIG-9: copy the addresses of customers that the trigger has not seen."""

from __future__ import annotations

import logging

from sqlalchemy import text
from sqlalchemy.orm import Session

log = logging.getLogger(__name__)

BATCH = 500
COPY = text("""
    INSERT INTO customer_addresses
    SELECT id, 'shipping', street, house_number, postal_code, city, country
    FROM customers WHERE id > :after ORDER BY id LIMIT :batch
    ON CONFLICT (customer_id, kind) DO NOTHING
""")


def run(session: Session) -> int:
    """Copy all addresses, with a commit after each batch, and return the last id."""
    last = session.scalar(text("SELECT max(id) FROM customers"))
    after = 0
    while after < last:
        session.execute(COPY, {"after": after, "batch": BATCH})
        after = session.scalar(text("SELECT max(id) FROM (SELECT id FROM customers WHERE id > :after "
                                    "ORDER BY id LIMIT :batch) AS batch"), {"after": after, "batch": BATCH})
        session.commit()
        log.info("copied up to customer %d of %d", after, last)
    return after
'''
_BACKFILL_LOCKS = """ step             | batches | longest lock ms | rows
------------------+---------+-----------------+---------
 1 trigger        |       1 |              38 |       0
 2 backfill       |    1731 |             240 |  865213
(2 rows)"""
_SWITCH = """-- Step 3 of 4 of MIG-9. The flag decides which table is read, so it can be taken back at any time.
BEGIN;
SET LOCAL lock_timeout = '900ms';
INSERT INTO feature_flags (name, enabled) VALUES ('addresses_from_own_table', false) ON CONFLICT DO NOTHING;
ALTER TABLE customer_addresses ALTER COLUMN kind SET NOT NULL;
COMMIT;
"""
_NIGHT_LOG = "\n".join(
    [
        "2026-11-18 23:50:00,114 INFO shop.sync.nightly: start, day 2026-11-17",
        *(
            f"2026-11-18 23:5{minute}:{second:02d},{second * 7 + 101} INFO shop.warehouse.client: PUT /orders 500 rows, 201 in {2.1 + second / 40:.1f} s"
            for minute in range(6)
            for second in range(3, 60, 4)
        ),
        "2026-11-18 23:52:31,870 WARNING shop.warehouse.client: PUT /orders 429, sent again after 5 s",
        "2026-11-18 23:56:02,440 INFO shop.sync.nightly: sync of 2026-11-17: 48211 rows",
    ]
)


def _auth(repository: Repository) -> Iterator[Turn]:
    yield Turn(
        "Explain why sessions on phones expire after 15 minutes (AUTH-118). Never log a token.",
        (
            repository.search("expires_at|datetime.now"),
            repository.read("shop/auth/tokens.py"),
            repository.read("shop/auth/refresh_job.py"),
            repository.read("shop/auth/models.py"),
            repository.run_tests(),
        ),
        "The refresh job compares local time with `expires_at`, a column without a time zone. The servers run in UTC and "
        "the job in Lisbon time, so in summer it looks an hour too late. By the way, `refresh` logs a token.",
    )
    yield Turn(
        "Use UTC everywhere in the token code, and take the token out of that log line.",
        (
            repository.edit("shop/auth/tokens.py", "    now = datetime.now()\n", "    now = datetime.now(UTC)\n"),
            repository.edit("shop/auth/tokens.py", "import datetime, timedelta", "import UTC, datetime, timedelta"),
            repository.edit(
                "shop/auth/tokens.py",
                'claims["exp"].strftime("%s")',
                'int(claims["exp"].timestamp())',
                says="`%s` ignores the time zone, so seconds come from `timestamp()`.",
            ),
            repository.edit(
                "shop/auth/tokens.py",
                'log.warning("an access token was sent as a refresh token: %s", token)',
                'log.warning("an access token was sent as a refresh token by customer %s", claims["sub"])',
            ),
            repository.edit("shop/auth/refresh_job.py", "datetime.now() + MARGIN", "datetime.now(UTC) + MARGIN"),
            repository.edit("shop/auth/refresh_job.py", "import datetime", "import UTC, datetime"),
            repository.run_tests(),
        ),
        "Token times are UTC now. Decision: `exp` is in whole seconds, because the apps compare integers. The log line "
        "names the customer instead of the token.",
    )
    yield Turn(
        "Add a test for the end of summer time.",
        (
            repository.read("tests/test_tokens.py"),
            repository.edit(
                "tests/test_tokens.py",
                "    assert refresh_job.run(session) == 1\n",
                f"    assert refresh_job.run(session) == 1\n{_DST_TEST}",
            ),
            repository.run_tests(
                failures={"test_refresh_across_dst": _LATE_FAILURE}, says="On the code before the fix:"
            ),
            repository.run_tests(says="And on the present code:"),
        ),
        "Added test_refresh_across_dst. It failed before the fix and passes now.",
    )
    yield Turn(
        "What is left to do?",
        (repository.read("shop/auth/tokens.py"), repository.search("DateTime\\(\\)"), repository.run_tests()),
        "Open: `device_sessions.expires_at` still has no time zone, which needs a migration. Everything else of AUTH-118 "
        "is done.",
    )


def _cart(repository: Repository) -> Iterator[Turn]:
    yield Turn(
        "Fix the rounding of discounts in the cart (CART-77): 3 x 9.99 with 10 % shows 26.98, the invoice 26.97. Keep "
        "prices in cents.",
        (
            repository.search("round|floor"),
            repository.read("shop/cart/discounts.py"),
            repository.read("tests/test_cart.py"),
            repository.read("shop/cart/api.py"),
            repository.run_tests(),
        ),
        "`apply` rounds each line after each discount, and `round` of a float goes wrong at half a cent. The invoice "
        "rounds once, half to even.",
    )
    yield Turn(
        "Round once, at the end, like the invoice.",
        (
            repository.edit("shop/cart/discounts.py", "    total = 0\n", "    total = Decimal(0)\n"),
            repository.edit(
                "shop/cart/discounts.py", "        cents = line.cents\n", "        cents = Decimal(line.cents)\n"
            ),
            repository.edit("shop/cart/discounts.py", "    return total\n", "    return round_half_even(total)\n"),
            repository.edit(
                "shop/cart/discounts.py",
                "def reduce(cents: int, discount: Discount) -> int:",
                "def reduce(cents: Decimal, discount: Discount) -> Decimal:",
            ),
            repository.edit(
                "shop/cart/discounts.py",
                "        return max(0, cents - int(discount.value * 100))\n    return round(cents * float(1 - discount.value / 100))",
                "        return max(Decimal(0), cents - discount.value * 100)\n    return cents * (1 - discount.value / 100)",
            ),
            repository.run_tests(),
        ),
        "Discounts are rounded once, at the end, with round_half_even. 3 x 9.99 with 10 % is 26.97.",
    )
    yield Turn(
        "Check whether vouchers use the same path.",
        (
            repository.read("shop/cart/vouchers.py"),
            repository.edit(
                "shop/cart/vouchers.py",
                "        return math.floor(cents * (100 - float(discount.value)) / 100)\n"
                "    return max(0, cents - int(discount.value * 100))",
                "        return round_half_even(reduce(Decimal(cents), discount))\n"
                "    return max(0, cents - int(discount.value * 100))",
            ),
            repository.edit("shop/cart/vouchers.py", "import math\n", ""),
            repository.edit(
                "shop/cart/vouchers.py",
                "from shop.cart.discounts import Discount\n",
                "from shop.cart.discounts import Discount, reduce, round_half_even\n",
            ),
            repository.run_tests(),
        ),
        "Vouchers had their own rounding, always down. Both use `reduce` and `round_half_even` now. Decision: vouchers "
        "stay after the discounts, because marketing prints it on them.",
    )
    yield Turn(
        "Does the API change? Then write the changelog entry.",
        (
            repository.read("shop/cart/api.py"),
            repository.create(
                "CHANGELOG.md",
                "## Unreleased\n\n### Fixed\n\n- Discounts and vouchers are rounded once, like invoices (CART-77).\n",
            ),
            repository.run_tests(),
        ),
        "No. The public API of cart/api.py is unchanged. The entry is in CHANGELOG.md under Fixed.",
    )


def _migration(repository: Repository) -> Iterator[Turn]:
    yield Turn(
        "Split the addresses off the customer table (MIG-9). Never lock it for more than a second: the checkout reads it "
        "on every request.",
        (
            repository.read("shop/customers/models.py"),
            repository.read("shop/customers/orders.py"),
            repository.search("Customer\\b|customers"),
            repository.run_tests(),
        ),
        "Planned in four steps, each below a second: 1 a new table and a trigger that copies changes, 2 a backfill in "
        "batches, 3 a flag that decides which table is read, 4 drop the old columns a week later.",
    )
    yield Turn(
        "Write step one. The trigger must also cover customers who change their address during the backfill.",
        (
            repository.read("migrations/0112_customer_preferences.sql"),
            repository.create("migrations/0113_customer_addresses.sql", _STEP_ONE),
            repository.run_tests(),
        ),
        "Step one adds customer_addresses and the trigger customers_copy_address, in migration 0113. The trigger wins over "
        "the backfill, because the backfill does nothing on a conflict.",
    )
    yield Turn(
        "Go on with the backfill, 500 rows at a time.",
        (
            repository.create("shop/customers/backfill.py", _BACKFILL),
            repository.read("shop/sync/nightly.py", says="I use the batch size of the nightly job."),
            repository.run_tests(),
        ),
        "The backfill commits every 500 rows and can be started again after an error.",
        summarizer_refuses=True,
    )
    yield Turn(
        "Measure it on staging.",
        (
            Step(
                "query_staging", {"sql": "SELECT * FROM migration_locks WHERE ticket = 'MIG-9'"}, _BACKFILL_LOCKS, 0.6
            ),
            repository.read("shop/customers/backfill.py"),
            repository.run_tests(),
        ),
        "The longest lock was 240 ms, of 865,213 rows in 1,731 batches.",
    )
    yield Turn(
        "Prepare the switch, and remember the limit for locks.",
        (
            repository.create("migrations/0114_read_addresses.sql", _SWITCH),
            repository.read("shop/customers/orders.py"),
            repository.run_tests(),
        ),
        "The switch is one transaction behind the flag addresses_from_own_table, with a lock_timeout of 900 ms, so it never "
        "locks for more than a second. Open: billing addresses are not copied yet.",
    )


def _nightly_sync(repository: Repository) -> Iterator[Turn]:
    yield Turn(
        "Did last night's sync finish?",
        (
            Step("read_file", {"path": "/var/log/shop/nightly.log"}, _NIGHT_LOG, 0.3),
            repository.read("shop/sync/nightly.py"),
        ),
        "Yes, 48,211 rows in 6 minutes. The warehouse answered 429 once, and that batch was sent again.",
    )


def _story(
    session_id: str, model: str, turns: Callable[[Repository], Iterator[Turn]], *, window_tokens: int = 4_200
) -> Story:
    return Story(
        session_id,
        "coder",
        model,
        window_tokens,
        _SYSTEM,
        tuple(turns(Repository("shop"))),
        live_from=99,
        tools=_TOOLS,
        user_pause_s=140,
    )


SESSIONS = (
    PastSession(_story("coding-AUTH-118", "gpt-5", _auth), timedelta(days=2, hours=7)),
    PastSession(_story("coding-CART-77", "claude-sonnet-4-5", _cart), timedelta(days=1, hours=3)),
    PastSession(_story("ops-nightly-sync", "gpt-5-mini", _nightly_sync, window_tokens=16_000), timedelta(hours=14)),
    PastSession(_story("coding-MIG-9", "gpt-5", _migration), timedelta(hours=5)),
)
