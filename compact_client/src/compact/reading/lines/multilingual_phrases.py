"""Phrases in languages other than English that signal an instruction, a decision or an open item.

The lists are short and contain only unambiguous words. All phrases are lower case, as `line_classifier` expects.
"""

from __future__ import annotations

from typing import Final

# Scripts with spaces. These match as whole words.
STANDING_WORDS: Final = (
    "nie, niemals, immer, muss, müssen, nur, nicht, höchstens, mindestens, verboten",
    "jamais, toujours, doit, doivent, uniquement, seulement, au plus, au moins, interdit, ne (?:\\w+ )?pas",
    "nunca, siempre, debe, deben, solo, sólo, solamente, jamás, prohibido, como máximo, al menos",
    "sempre, deve, devem, apenas, não, proibido, mai, vietato, non (?:\\w+re|\\w+te)",  # codespell:ignore te
    "никогда, всегда, должен, должна, должны, нельзя, только, не, запрещено, максимум",
    "أبدا, أبدًا, يجب, لا, ممنوع, فقط, אסור, לעולם, תמיד, רק, חייב, אל",
)
DECISION_WORDS: Final = (
    "weil, deshalb, entschieden, stattdessen, parce que, décidé, donc, porque, decidido, en lugar de, perché, deciso",
    "потому что, решил, решили, لأن, قررت, כי, החלטתי",
)
OPEN_ITEM_WORDS: Final = (
    "noch offen, ausstehend, noch zu, fehlt noch, reste à, en attente, pas encore",  # codespell:ignore offen,reste
    "pendiente, falta, aún no, da fare",
    "ancora da, осталось, ещё не, لم يتم, متبقي, נותר, עדיין לא",
)
# Scripts without spaces. These match anywhere.
STANDING_SUBSTRINGS: Final = (
    "必须|必須|不要|不得|不可|不能|不准|禁止|务必|務必|只能|切勿|始终|永远|最多|至少|一定要|千万"
    "|必ず|絶対|しないで|してはいけ|ではいけ|のみ|以内|以下に|반드시|절대|하지 마|금지|만 사용|이하로"
)
DECISION_SUBSTRINGS: Final = "因为|因為|所以|决定|決定|原因|改用|ためです|なので|代わりに|때문에|결정"
OPEN_ITEM_SUBSTRINGS: Final = (
    "待办|还需要|还要|尚未|未完成|下一步|剩下|未完了|まだ|次のステップ|残り|아직|남은|다음 단계"
)
