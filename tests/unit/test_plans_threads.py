"""What the embedded judge rests on says the same from many threads as from one."""

from __future__ import annotations

import random
import string
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import snowballstemmer

from stagewatch.scorer.text.words import stem

ENDINGS = ("ational", "ies", "edly", "ingly", "fulness", "ization", "ousli", "ement", "s", "ing")


@pytest.fixture
def eager_switches() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("eager_switches")
def test_threads_do_not_mix_their_words_up() -> None:
    chance = random.Random(5)
    # Words nobody has stemmed yet: a word that is cached is not stemmed again.
    words = [
        "".join(chance.choices(string.ascii_lowercase, k=9)) + chance.choice(ENDINGS)
        for _ in range(6000)
    ]
    alone = snowballstemmer.stemmer("english")
    wanted = [alone.stemWord(word) for word in words]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(stem, words)) == wanted
