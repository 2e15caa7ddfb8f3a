"""The support bot's knowledge: short policy passages, some documents in two versions."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Passage:
    """One passage of a policy page, as the index holds it."""

    chunk_id: str
    document_id: str
    version: str
    content: str


_PAGES: dict[tuple[str, str], tuple[str, ...]] = {
    ("refund-policy", "v7"): (
        (
            "Customers may request a refund within 30 days of delivery for items in original "
            "condition."
        ),
        (
            "Refunds are paid to the original payment method within 5 business days after the "
            "return is received."
        ),
        "A refund request needs the order number and the reason for the return.",
        "Sale items marked final sale are not eligible for a refund.",
    ),
    ("digital-goods", "v3"): (
        "Digital items such as e-books can be refunded within 14 days if they were not downloaded.",
        "Licence keys cannot be refunded once the key has been revealed.",
        "Subscriptions to digital items are refunded pro rata for the unused months.",
    ),
    ("shipping", "v5"): (
        "Standard shipping takes 3 to 5 business days and costs 4.90 EUR.",
        "Express shipping arrives the next business day and costs 12.50 EUR.",
        "Orders above 50 EUR ship free of charge with standard shipping.",
        "International shipping takes 10 to 14 business days.",
    ),
    ("warranty", "v4"): (
        "The warranty on electronics lasts 24 months from the date of purchase.",
        "Warranty repairs take up to 10 business days.",
        "The warranty does not cover water damage or broken screens.",
    ),
    ("gift-cards", "v2"): (
        "Gift cards are valid for 3 years from the date of issue.",
        "Gift cards cannot be exchanged for cash.",
        "A lost gift card can be replaced once if you still have the receipt.",
    ),
    ("payments", "v6"): (
        "We accept credit cards, PayPal and bank transfer as payment methods.",
        "Bank transfer orders are cancelled when no payment arrives within 7 days.",
        "Payment by instalments is offered for orders above 200 EUR.",
        "Invoices are sent by e-mail within 24 hours of dispatch.",
    ),
    ("loyalty", "v3"): (
        "Loyalty members earn 5 points for every 10 EUR spent.",
        "Loyalty points expire after 12 months without a purchase.",
        "Gold members get free express shipping after 8 orders a year.",
    ),
    ("damaged-items", "v2"): (
        "Damaged items must be reported within 48 hours of delivery with a photo.",
        "We replace damaged items free of charge within 6 business days.",
    ),
    ("exchanges", "v4"): (
        "Clothing can be exchanged for another size within 45 days of delivery.",
        "One exchange per order is free; each further exchange costs 3.50 EUR.",
    ),
    ("price-match", "v3"): (
        "We match a lower price found elsewhere within 21 days of purchase.",
        "Price match claims need a link to the offer and are answered within 2 business days.",
    ),
    ("accounts", "v5"): (
        "An account is deleted 30 days after you ask for deletion in the privacy settings.",
        "A password reset link stays valid for 60 minutes.",
    ),
    ("support", "v2"): (
        "Phone support is open Monday to Friday from 8 am to 6 pm.",
        "Support answers e-mails within 1 business day.",
    ),
    ("repairs", "v1"): (
        "An out of warranty repair estimate costs 29 EUR, credited when you accept the repair.",
        "Repaired items carry a guarantee of 6 months on the replaced parts.",
    ),
}

_OLD_PAGES: dict[tuple[str, str], tuple[str, ...]] = {
    ("refund-policy", "v6"): (
        (
            "Customers may request a refund within 14 days of delivery for items in original "
            "condition."
        ),
        (
            "Refunds are paid to the original payment method within 10 business days after the "
            "return is received."
        ),
    ),
    ("shipping", "v4"): (
        "Standard shipping takes 5 to 8 business days and costs 6.90 EUR.",
        "Orders above 80 EUR ship free of charge with standard shipping.",
    ),
    ("price-match", "v2"): ("We match a lower price found elsewhere within 7 days of purchase.",),
    ("warranty", "v3"): ("The warranty on electronics lasts 12 months from the date of purchase.",),
}


def _passages(pages: dict[tuple[str, str], tuple[str, ...]]) -> list[Passage]:
    return [
        Passage(f"{document}#{version}#{number}", document, version, text)
        for (document, version), texts in pages.items()
        for number, text in enumerate(texts)
    ]


def current_passages() -> list[Passage]:
    """What a healthy index holds: one version of each document."""
    return _passages(_PAGES)


def superseded_passages() -> list[Passage]:
    """Old versions that a careless re-index leaves behind."""
    return _passages(_OLD_PAGES)


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing customers ask about: ways to ask it, the passage that answers it, a follow-up.

    `follow_up` is (what the customer says next, the same as a standalone question, the passage
    that answers it).
    """

    answered_by: str
    asked: tuple[str, ...]
    follow_up: tuple[str, str, str] | None = None


FACTS: tuple[Fact, ...] = (
    Fact(
        "refund-policy#v7#0",
        (
            "How many days do I have to request a refund?",
            "Within how many days of delivery can I request a refund?",
            "Until when can customers request a refund for items in original condition?",
        ),
        (
            "And for digital items that I have not downloaded?",
            "Can digital items be refunded if they were not downloaded?",
            "digital-goods#v3#0",
        ),
    ),
    Fact(
        "refund-policy#v7#1",
        (
            "How long until refunds are paid to my original payment method?",
            "After the return is received, when are refunds paid?",
        ),
    ),
    Fact("refund-policy#v7#2", ("What does a refund request need?",)),
    Fact(
        "digital-goods#v3#0",
        (
            "Can digital items such as e-books be refunded?",
            "How many days for e-books to be refunded if not downloaded?",
        ),
    ),
    Fact(
        "shipping#v5#0",
        (
            "How many business days does standard shipping take?",
            "What does standard shipping cost and how long does it take?",
        ),
        (
            "And express?",
            "When does express shipping arrive and what does it cost?",
            "shipping#v5#1",
        ),
    ),
    Fact(
        "shipping#v5#1", ("When does express shipping arrive?", "What does express shipping cost?")
    ),
    Fact("shipping#v5#2", ("Above how many EUR do orders ship free of charge?",)),
    Fact("shipping#v5#3", ("How long does international shipping take?",)),
    Fact(
        "warranty#v4#0",
        (
            "How long does the warranty on electronics last?",
            "How many months does the warranty last?",
        ),
        (
            "And how long do the repairs take?",
            "How long do warranty repairs take?",
            "warranty#v4#1",
        ),
    ),
    Fact("warranty#v4#1", ("How many business days do warranty repairs take?",)),
    Fact(
        "gift-cards#v2#0",
        ("How long are gift cards valid?", "For how many years are gift cards valid?"),
    ),
    Fact("payments#v6#1", ("When are bank transfer orders cancelled?",)),
    Fact("payments#v6#2", ("Above how many EUR is payment by instalments offered?",)),
    Fact("payments#v6#3", ("When are invoices sent by e-mail?",)),
    Fact("loyalty#v3#0", ("How many points do loyalty members earn?",)),
    Fact(
        "loyalty#v3#1",
        ("When do loyalty points expire?", "After how many months do loyalty points expire?"),
    ),
    Fact("loyalty#v3#2", ("After how many orders do gold members get free express shipping?",)),
    Fact(
        "damaged-items#v2#0",
        (
            "Within how many hours must damaged items be reported?",
            "How soon must damaged items be reported?",
        ),
        (
            "And when do you replace them?",
            "When do you replace damaged items free of charge?",
            "damaged-items#v2#1",
        ),
    ),
    Fact("exchanges#v4#0", ("Within how many days can clothing be exchanged for another size?",)),
    Fact("exchanges#v4#1", ("What does each further exchange per order cost?",)),
    Fact(
        "price-match#v3#0",
        (
            "Do you match a lower price found elsewhere?",
            "Within how many days do you match a lower price?",
        ),
    ),
    Fact("price-match#v3#1", ("When are price match claims answered?",)),
    Fact("accounts#v5#0", ("When is my account deleted after I ask for deletion?",)),
    Fact("accounts#v5#1", ("How long does a password reset link stay valid?",)),
    Fact("support#v2#1", ("Within how many business days does support answer e-mails?",)),
    Fact("repairs#v1#0", ("What does an out of warranty repair estimate cost?",)),
    Fact("repairs#v1#1", ("How long is the guarantee on replaced parts of repaired items?",)),
)

VERSIONED_FACTS: tuple[Fact, ...] = tuple(
    fact
    for fact in FACTS
    if fact.answered_by
    in {"refund-policy#v7#0", "refund-policy#v7#1", "shipping#v5#0", "shipping#v5#2",
        "price-match#v3#0", "warranty#v4#0"}
)  # fmt: skip
"""Facts whose passage has an older version that says something else."""
