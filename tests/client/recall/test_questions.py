"""Questions as people ask them: in sentences, in five languages, with a speaker, a time or a limit."""

from __future__ import annotations

import pytest
from compact.recall import PassageIndex, Source
from recall_builders import search

CHAT = [
    ("user", "2026-11-02", "Please remember: migrations run only on Mondays."),
    ("assistant", "2026-11-03", "I went through the migrations, and 3 of them are slow."),
    ("user", "2026-11-10", "The release is on Friday. Which proxy do we use?"),
    ("assistant", "2026-11-10", "We decided to use Caddy on port 4319, because nginx needs root."),
    ("tool", "2026-11-12", "deploy finished in 31 s, 4 containers restarted"),
    ("user", "2026-11-17", "The deploy failed yesterday, have a look."),
    ("assistant", "2026-11-18", "Die Datenbank wurde auf den neuen Server verschoben."),
    ("user", "2026-11-18", "La migración de las tablas terminó sin errores."),
    ("assistant", "2026-11-18", "Le serveur de test redémarre chaque nuit à trois heures."),
    ("user", "2026-11-18", "As tarefas agendadas foram canceladas ontem."),
]


@pytest.fixture(scope="module")
def index() -> PassageIndex:
    index = PassageIndex()
    filler = [(("user", "tool")[n % 2], "2026-11-01", f"Filler line {n} about something else.") for n in range(40)]
    chat = [*filler[:20], *CHAT, *filler[20:]]
    index.add([Source(text, role, text, n, f"{day}T10:00:00Z") for n, (role, day, text) in enumerate(chat)])
    return index


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("which port did we choose for the proxy and why?", "Caddy"),
        ("what did I say about migrations", "Mondays"),
        ("who goes through migrations?", "I went through"),
        ("wohin wurden die Datenbanken verschoben?", "Datenbank"),
        ("¿terminaron las migraciones de la tabla?", "migración"),
        ("quand est-ce que le serveur redémarre ?", "redémarre"),
        ("quais tarefas foram canceladas?", "tarefas"),
        ("deploy before:2026-11-13", "deploy finished"),
        ("deploy role:user", "deploy failed"),
        ("what happened to the deploy last Thursday?", "deploy finished"),
        ('"migrations run"', "Mondays"),
    ],
)
def test_a_question_finds_its_answer(index, question, found):
    assert found in search(index, question)[0]


@pytest.mark.parametrize("question", ["deploy role:assistant", "deploy after:2026-11-18", "deploy turn:3"])
def test_a_limit_is_kept(index, question):
    assert not any("deploy" in name for name in search(index, question))


def test_a_long_message_does_not_win_by_its_length():
    words = "When did the group support anybody? We go there often. Caroline is at home, the group is not. "
    index = PassageIndex()
    index.add([Source(f"x{n}", "user", f"filler {n}") for n in range(30)])
    index.add([Source("long", "user", words + "Horseback riding is fun for the whole group. " * 60)])
    index.add([Source(f"y{n}", "user", f"filler {n} again") for n in range(30)])
    index.add([Source("short", "user", "Caroline: I went to a LGBTQ support group yesterday.")])
    assert search(index, "When did Caroline go to the LGBTQ support group?")[0] == "short"


@pytest.mark.parametrize("query", ["secret_key_base", "where is secret_key_base set?", '"secret key base"'])
def test_an_exact_identifier_comes_first(query):
    index = PassageIndex()
    others = [Source(f"m{n}", "user", f"the secret {n} is a key, the base of every key and secret") for n in range(50)]
    index.add([*others[:25], Source("exact", "tool", "config has secret_key_base"), *others[25:]])
    index.add([Source("phrase", "tool", "the secret key base is elsewhere")])
    assert search(index, query)[0] == ("phrase" if '"' in query else "exact")


def test_a_word_that_is_common_in_another_language_is_searched():
    index = PassageIndex()
    index.add([Source("m1", "user", "todo: renew the certificate"), Source("m2", "user", "the certificate is valid")])
    assert search(index, "is there a todo about the certificate")[0] == "m1"
