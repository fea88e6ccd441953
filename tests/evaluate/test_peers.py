"""The simpler rules hold back what they should."""

from stream_dedup.evaluate.peers import held_as_exact, held_by_jaccard
from stream_dedup.evaluate.sets import body_sets, shingle_sets
from stream_dedup.fingerprint.fingerprint import Fingerprinter
from stream_dedup.fingerprint.scheme import Scheme
from stream_dedup.news.item import Item
from stream_dedup.settings import FingerprintSettings
from tests.evaluate.news import copies

MAKE = Fingerprinter(Scheme(FingerprintSettings()))


def test_a_body_with_few_other_words_is_held_back_by_jaccard_and_one_with_many_is_not() -> None:
    items = copies(2, [0.05, 0.3])
    assert held_by_jaccard(items, shingle_sets(body_sets(items, MAKE))) == {"0-1": "0-0", "1-1": "1-0"}


def test_an_exact_copy_has_the_same_words_in_headline_and_text() -> None:
    items = [
        Item("first", "Bridge opens", "It opened at noon.", "", 0),
        Item("copy", "Bridge  opens", "It opened, at noon", "", 0),
        Item("headline", "Elm bridge opens", "It opened at noon.", "", 0),
        Item("text", "Bridge opens", "It opened at one.", "", 0),
    ]
    assert held_as_exact(items, MAKE) == {"copy": "first"}
    # More items than one call of the kernel takes.
    many = [Item(str(n), f"Bridge {n % 600}", "It opened at noon.", "", 0) for n in range(1200)]
    assert held_as_exact(many, MAKE) == {str(n): str(n - 600) for n in range(600, 1200)}
