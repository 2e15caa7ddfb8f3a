"""Words that turn a statement around: negation, and pairs of opposites."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from stagewatch.scorer.text.words import stem
from stagewatch.scorer.text.wordset import word_set

NEGATION = word_set("not no never neither nor none nobody nothing nowhere")
_EMPHASIS = word_set("only just merely simply matter doubt problem")
"""Behind "not" or "no" these make an emphasis, not a negation."""
_COMPARED = word_set("more less fewer longer later earlier sooner greater higher lower")
"""Behind "not" or "no", and before "than", these make a bound; else "no longer" negates."""

_PAIRS = """
fell/rose rose/dropped rose/declined fell/grew grew/shrank won/lost bought/sold began/ended
above/below accept/reject accepted/refused active/inactive add/remove after/before agree/disagree
all/no all/none allow/deny allow/forbid allow/prevent allow/prohibit allowed/banned
allowed/forbidden allowed/prohibited always/never any/no any/none appear/disappear approve/reject
approved/denied arrive/depart arrive/leave ascending/descending asset/liability attach/detach
attack/defend attract/repel available/unavailable begin/end begin/finish best/worst better/worse
big/small birth/death both/neither build/demolish buy/sell cancel/keep cause/prevent
charge/discharge cheap/expensive cheaper/dearer clockwise/counterclockwise close/open closed/open
cold/hot common/rare compulsory/voluntary connect/disconnect create/destroy dangerous/safe
decline/grow decline/rise decrease/increase deep/shallow defeat/victory delay/advance deny/admit
deny/confirm deposit/withdraw different/same difficult/easy domestic/foreign
domestic/international earlier/later early/late easier/harder east/west eastern/western
employed/unemployed employee/employer empty/full enable/disable enter/exit entire/partial
everyone/nobody everything/nothing exceed/trail exclude/include excluding/including exempt/liable
existing/new expand/contract expensive/affordable export/import external/internal fail/succeed
failure/success fall/rise false/true fast/slow faster/slower female/male few/many fewer/more
first/last formal/informal forward/backward free/paid freeze/thaw frequently/rarely front/back
gain/lose gain/loss gather/scatter give/take good/bad grant/deny granted/denied greater/less
greater/smaller guilty/innocent hard/easy healthy/sick heavier/lighter heavy/light high/low
higher/less higher/lower highest/lowest horizontal/vertical hot/cool hotter/cooler
important/unimportant improve/deteriorate improve/worsen in/out include/omit indoor/outdoor
inner/outer inside/outside install/uninstall interior/exterior join/leave keep/discard
landlord/tenant large/small larger/smaller largest/smallest lead/follow least/most left/right
legal/illegal lend/borrow lengthen/shorten less/more lessee/lessor likely/unlikely lock/unlock
long/short longer/shorter longest/shortest loose/tight love/hate lower/raise major/minor
majority/minority mandatory/optional mandatory/voluntary married/divorced max/min
maximize/minimize maximum/minimum more/fewer more/less most/least natural/artificial near/far
negative/positive new/old newer/older newest/oldest night/day noisy/quiet normal/abnormal
north/south northern/southern numerator/denominator obey/disobey occupied/vacant odd/even
often/rarely often/seldom on/off online/offline open/shut optimistic/pessimistic
optional/necessary optional/required parent/child part/whole partial/full pass/fail passive/active
past/future permanent/temporary permit/forbid permitted/prohibited plaintiff/defendant plus/minus
poor/rich positive/negative possible/impossible powerful/weak predecessor/successor previous/next
primary/secondary prior/subsequent private/public profit/loss protect/harm prove/disprove
pull/push qualified/unqualified raise/lower rapid/slow receive/send reduce/increase reduce/raise
refundable/nonrefundable regular/irregular reject/accept release/capture reliable/unreliable
require/exempt required/optional returned/kept reward/punish rise/drop rough/smooth rural/urban
sell/buy sender/recipient senior/junior separate/combine separate/joint shallow/deep sharp/blunt
short/tall shorten/extend shrink/grow similar/different simple/complex simpler/complicated
single/multiple slowly/quickly soft/hard sometimes/never start/end start/finish start/stop
stop/continue strength/weakness strong/weak stronger/weaker success/failure sunrise/sunset
support/oppose sweet/sour taxable/exempt teacher/student temporary/permanent thick/thin
together/apart top/bottom transparent/opaque true/false trust/distrust unanimous/divided
under/over up/down upper/lower upward/downward useful/useless usually/rarely valid/invalid
victory/defeat virtue/vice visible/hidden waive/charge waived/charged warm/cool warmer/cooler
wet/dry wide/narrow win/lose with/without worse/better worst/best young/old younger/older
"""


@lru_cache(maxsize=1)
def _table() -> frozenset[tuple[str, str]]:
    found = set()
    for pair in _PAIRS.split():
        left, _, right = pair.partition("/")
        # Both as written and stemmed: "lower" and "low" must not fall together by chance.
        for a, b in ((left, right), (stem(left), stem(right))):
            if a != b:
                found |= {(a, b), (b, a)}
    return frozenset(found)


_NEGATIVE_PREFIXES = ("un", "in", "im", "ir", "il", "dis", "non", "de", "mis")


def opposite(word: str, other: str) -> bool:
    """True when two lower-case words are a known pair of opposites, or differ by a negating
    prefix or by -less against -ful.
    """
    if word == other:
        return False
    table = _table()
    if (word, other) in table or (stem(word), stem(other)) in table:
        return True
    for short, long in ((word, other), (other, word)):
        for prefix in _NEGATIVE_PREFIXES:
            if len(short) >= 4 and long == prefix + short:
                return True
        if short.endswith("less") and long.endswith("ful") and short[:-4] == long[:-3]:
            return True
    return False


SOFT_NEGATION = word_set(
    """
    avoid avoids refrain without unable fail fails failed lack lacks except unless hardly barely
    rarely seldom neither either prevent prevents stop stops
    """
)
"""Words that may stand for a negation: where they occur the polarity is not compared."""


def negated_form(word: str, others: Sequence[str]) -> bool:
    """True when `word` is one of `others` with a negating prefix ("uncomfortable")."""
    return any(
        len(word) - len(prefix) >= 4 and word.startswith(prefix) and word[len(prefix) :] in others
        for prefix in _NEGATIVE_PREFIXES
    )


def negations(words: Sequence[str]) -> list[int]:
    """Positions of the words that negate; emphases such as "not only" and "no later" are none."""
    return [
        i
        for i, word in enumerate(words)
        if word in NEGATION and not _no_negation(words[i + 1 : i + 3])
    ]


def _no_negation(after: Sequence[str]) -> bool:
    if not after:
        return False
    return after[0] in _EMPHASIS or (after[0] in _COMPARED and list(after[1:]) == ["than"])
