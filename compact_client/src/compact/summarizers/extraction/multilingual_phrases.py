"""The words by which a rule, a decision and an open point are known, for languages other than English.

Short lists of words that are hard to mistake: what they miss is still kept by its place and by what it names.
Text in lower case is expected, as in `kinds`.
"""

from __future__ import annotations

from typing import Final

# In scripts with spaces: whole words.
STANDING_WORDS: Final = (
    "nie, niemals, immer, muss, müssen, nur, nicht, höchstens, mindestens, verboten",
    "jamais, toujours, doit, doivent, uniquement, seulement, au plus, au moins, interdit, ne (?:\\w+ )?pas",
    "nunca, siempre, debe, deben, solo, sólo, solamente, jamás, prohibido, como máximo, al menos",
    "sempre, deve, devem, apenas, não, proibido, mai, vietato, non (?:\\w+re|\\w+te)",
    "никогда, всегда, должен, должна, должны, нельзя, только, не, запрещено, максимум",
    "أبدا, أبدًا, يجب, لا, ممنوع, فقط, אסור, לעולם, תמיד, רק, חייב, אל",
)
DECISION_WORDS: Final = (
    "weil, deshalb, entschieden, stattdessen, parce que, décidé, donc, porque, decidido, en lugar de, perché, deciso",
    "потому что, решил, решили, لأن, قررت, כי, החלטתי",
)
OPEN_WORDS: Final = (
    "noch offen, ausstehend, noch zu, fehlt noch, reste à, en attente, pas encore, pendiente, falta, aún no, da fare",
    "ancora da, осталось, ещё не, لم يتم, متبقي, נותר, עדיין לא",
)
# In scripts without: anywhere.
STANDING_SIGNS: Final = (
    "必须|必須|不要|不得|不可|不能|不准|禁止|务必|務必|只能|切勿|始终|永远|最多|至少|一定要|千万"
    "|必ず|絶対|しないで|してはいけ|ではいけ|のみ|以内|以下に|반드시|절대|하지 마|금지|만 사용|이하로"
)
DECISION_SIGNS: Final = "因为|因為|所以|决定|決定|原因|改用|ためです|なので|代わりに|때문에|결정"
OPEN_SIGNS: Final = "待办|还需要|还要|尚未|未完成|下一步|剩下|未完了|まだ|次のステップ|残り|아직|남은|다음 단계"
