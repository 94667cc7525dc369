"""Words: what counts as one, which say nothing, and the plain stem that joins singular and plural."""

from __future__ import annotations

import re

__all__ = ["PALE_WORDS", "STOP_WORDS", "stem", "words"]

# Identifiers stay whole: `str.format`, `__new__`, `don't` are one word each.
_WORD = re.compile(r"\w+(?:[.'’-]\w+)*", re.UNICODE)

STOP_WORDS = frozenset(
    """
    a about above across after again against all almost alone along already also although always am among an and another any anyone
    anything are aren't around as at away back be became because become becomes been before behind being below between both but by
    call called calls came can can't cannot case cases come comes could couldn't course did didn't do does doesn't doing don't done
    down due during e.g each either else enough etc even ever every everything example except far few first following follows for
    former from further gave get gets give given gives go goes going got had has have having he her here hers herself him himself
    his how however i i'm i.e if in indeed instead into is isn't it it's its itself just kind know known last later latter least less
    let like likely little long look made make makes making man many may me means might mine more most much must my myself near need
    needs neither never next no nor not note nothing now of off often on once one ones only onto or other others otherwise our ours
    out over own particular per perhaps place possible put quite rather really result results returned returns return same saw say
    says second see seem seemed seems seen set several shall she should shouldn't simply since so some something sometimes still such
    sure take taken takes tell than that that's the their them themselves then there there's therefore these they thing things think
    this those though three through thus to together too took toward true two under until up upon us use used uses useful using usual
    usually value values very via want was wasn't way ways we well went were weren't what when where whether which while who whole
    whom whose why will with within without won't word work would wouldn't yes yet you your yours
    """.split()
)

# Words that carry a sentence but name nothing: no term begins or ends with one. Given as stems.
PALE_WORDS = frozenset(
    """
    able accept access accessed act add added affect allow allowed appear applied apply appropriate attempt automatically available
    avoid based begin behave bring cause caused certain change changed check clear close common compute computed consider considered
    consist contain contained containing correct correspond corresponding create created current currently default defined define
    defining denote depend describe described determine determined difference different directly discussed display effect empty enough
    ensure entire equivalent exact exactly exist existing expect explicit explicitly extra final find followed form formed found full
    fully general generally happen help hold identified identical ignored immediate implement implemented implicitly important include
    included including indicate involve issue keep large leave left level main mean mention mentioned middle modified modify multiple
    namely necessary necessarily new normal normally note number obtain occur old omitted open optional order original part parts pass
    passed passing perform performed permitted point possibly present previous print produce produced proper properly provide provided
    purpose raise raised reach read refer referred remain remaining replace replaced represent require required respectively retrieve
    run search searched select selected sense separate show shown similar single slightly small special specific specified specify
    standard start started starting stop store stored subject suitable support supported talk treat treated try turn type typically
    undefined unless usage valid wanted warning write written wrong yield yielded
    """.split()
)


def words(text: str) -> list[str]:
    """The words of a text as it spells them; numbers are none."""
    return [word for word in _WORD.findall(text) if any(character.isalpha() for character in word)]


def stem(word: str) -> str:
    """The lower-case word without its plural ending, by the S-stemmer of Harman (1991), "How effective is suffixing?"."""
    low = word.lower().replace("’", "'").removesuffix("'s")
    if len(low) < 4 or "_" in low or "." in low:
        return low
    if low.endswith("ies") and not low.endswith(("eies", "aies")):
        return low[:-3] + "y"
    if low.endswith("es") and not low.endswith(("aes", "ees", "oes")):
        return low[:-1]
    if low.endswith("s") and not low.endswith(("us", "ss")):
        return low[:-1]
    return low
