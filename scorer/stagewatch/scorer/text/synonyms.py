"""Groups of everyday words that ask for and state the same thing, for question and passage.

Hand-made and small, about service, policies and travel of information: an engine without a model
knows no other synonyms, and its documentation says so.
"""

from __future__ import annotations

from functools import lru_cache

from stagewatch.scorer.text.words import stem

_GROUPS = """
refund refunds refunded reimburse reimbursement moneyback
return returns returned sendback
cost costs price prices fee fees charge charges expense pay priced
cancel cancels cancellation terminate
deliver delivery delivered ship shipping shipped shipment dispatch courier
damaged defective faulty broken defect
buy buying purchase purchased bought order ordered
begin start begins starts
end ends expire expires expiry
hours opening open opened
help support assistance
phone telephone call
email mail
repair fix repairs
replace replacement exchange exchanged swap
guarantee warranty warranties
customer client customers
change modify alter edit update
need require required requires needed must
get receive obtain
remove delete erase
allowed permitted allow permit eligible
people persons person
big large
movie film films
car vehicle vehicles
illness disease diseases
job work employment
reach contact
cheap inexpensive
voucher coupon discount
luggage baggage bag
"""


@lru_cache(maxsize=1)
def _groups() -> dict[str, frozenset[str]]:
    table: dict[str, frozenset[str]] = {}
    for line in _GROUPS.strip().splitlines():
        roots = frozenset(stem(word) for word in line.split())
        for root in roots:
            table[root] = table.get(root, frozenset()) | roots
    return table


def alike(root: str) -> frozenset[str]:
    """Stems that may stand for `root`, itself not included."""
    return _groups().get(root, frozenset()) - {root}
