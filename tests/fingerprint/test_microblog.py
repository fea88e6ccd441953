"""Eleven microblog posts, in English and Chinese: which of them are copies, by the usual methods and figures.

Four are copies: punctuation added, forwarded, a word changed, a word left out. Two are the weather reports of two days.
The others are unlike. Usual for posts are words as features (in Chinese those of jieba), 128 MinHash values in 16 bands
of 8 rows, whose threshold is a Jaccard of .71, and SimHashes of 64 bits.

Sources: Leskovec, Rajaraman, Ullman, "Mining of Massive Datasets", section 3.4; Charikar 2002 and Manku et al. 2007.
"""

from itertools import combinations

import pytest

from stream_dedup.dedup.deduplicator import Deduplicator
from stream_dedup.errors import ConfigError
from stream_dedup.fingerprint import characters
from stream_dedup.settings import load_settings
from tests.fingerprint.built import distances, items, maker

ENGLISH = [
    "Ferry over the Elm stopped after cracks were found in the hull, buses run every twenty minutes",
    "Ferry over the Elm stopped after cracks were found in the hull, buses run every twenty minutes!!",
    "RT @harbourpost: Ferry over the Elm stopped after cracks were found in the hull, buses run every twenty minutes",
    "Ferry over the Elm stopped after cracks were found in its hull, buses run every twenty minutes",
    "Nobody was hurt when the roof of the old market hall in Linden came down on Sunday evening",
    "Nobody hurt when the roof of the old market hall in Linden came down on Sunday evening",
    "Rain tonight, wind from the north, four degrees on the coast and frost inland",
    "Rain tonight, wind from the west, nine degrees on the coast and fog inland",
    "The council votes on Thursday about free parking near the market until Christmas",
    "Astronomers find a small asteroid that turns once in ninety seconds",
    "Ferry tickets cost two crowns from Monday",
]
CHINESE = [
    "横跨榆河的渡轮因船体发现裂缝今天停航，接驳公交车每二十分钟一班",
    "横跨榆河的渡轮因船体发现裂缝今天停航，接驳公交车每二十分钟一班！！",
    "转发@港口晚报：横跨榆河的渡轮因船体发现裂缝今天停航，接驳公交车每二十分钟一班",
    "横跨榆河的渡轮因船底发现裂缝今天停航，接驳公交车每二十分钟一班",
    "周日晚上菩提镇老集市大厅的屋顶突然坍塌，当时里面没有人，无人受伤",
    "周日晚菩提镇老集市大厅的屋顶突然坍塌，当时里面没有人，无人受伤",
    "今夜有雨，北风三级，沿海最低气温四度，内陆有霜冻",
    "今夜有雨，西风五级，沿海最低气温九度，内陆有大雾",
    "市议会周四表决圣诞节前集市附近免费停车的提案",
    "天文学家发现一颗每九十秒自转一圈的小行星",
    "渡轮票价从下周一起上调两元",
]
ORIGINAL_OF = {1: 0, 2: 0, 3: 0, 5: 4}
COPIES = {(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (4, 5)}
WEATHER = (6, 7)
UNLIKE = set(combinations(range(11), 2)) - COPIES - {WEATHER}
LANGUAGES = [
    pytest.param(ENGLISH, {}, id="English"),
    pytest.param(CHINESE, {"chinese": "words"}, id="Chinese words"),
    pytest.param(CHINESE, {}, id="Chinese characters"),
]


@pytest.mark.parametrize(("posts", "settings"), LANGUAGES)
@pytest.mark.parametrize(
    # Words of a shingle, and characters where there are no words; the least Jaccard of copies, the most of others.
    ("words", "characters", "copies", "others"),
    [(1, 2, 0.7, 0.65), (2, 3, 0.6, 0.45), (3, 5, 0.5, 0.35)],
)
def test_a_jaccard_tells_copies_from_other_posts(
    posts: list[str], settings: dict[str, object], words: int, characters: int, copies: float, others: float
) -> None:
    make = maker(shingle_words=words, shingle_characters=characters, **settings)
    sets = [make.exact(item).body for item in items(*posts)]
    jaccard = {(i, j): len(sets[i] & sets[j]) / len(sets[i] | sets[j]) for i, j in combinations(range(11), 2)}
    assert jaccard[0, 1] == 1
    assert min(jaccard[pair] for pair in COPIES) >= copies
    assert jaccard[WEATHER] <= others
    assert max(jaccard[pair] for pair in UNLIKE) <= 0.15


@pytest.mark.parametrize(("posts", "settings"), LANGUAGES)
@pytest.mark.parametrize(("bits", "copies", "others"), [(64, 9, 13), (128, 26, 27)])
def test_simhashes_of_words_are_near_for_copies_only(
    posts: list[str], settings: dict[str, object], bits: int, copies: int, others: int
) -> None:
    make = maker(family="simhash", features="tokens", bits=bits, **settings)
    prints = make(items(*posts)).signatures["simhash"]
    apart = {(i, j): int(distances(prints[i : i + 1], prints[j : j + 1])[0]) for i, j in combinations(range(11), 2)}
    assert apart[0, 1] == 0
    assert max(apart[pair] for pair in COPIES) <= copies
    assert min(apart[pair] for pair in UNLIKE | {WEATHER}) >= others


BODY_ALONE = {"rule": "jaccard", "body": 0.65}
STREAMS: list[tuple[dict[str, object], dict[str, object]]] = [
    ({}, {}),
    ({"shingle_words": 1, "shingle_characters": 2}, BODY_ALONE),
    ({"shingle_letters": 5}, BODY_ALONE),
]


@pytest.mark.parametrize(("posts", "settings"), LANGUAGES)
@pytest.mark.parametrize(("fingerprint", "decision"), STREAMS)
def test_the_stream_holds_back_the_copies(
    posts: list[str], settings: dict[str, object], fingerprint: dict[str, object], decision: dict[str, object]
) -> None:
    with Deduplicator(load_settings(fingerprint=settings | fingerprint, decision=decision)) as dedup:
        verdicts = dedup.judge(items(*posts)).verdicts
    found = {int(v.id): int(v.original.id) for v in verdicts if v and v.original and not v.forward}
    assert found == ORIGINAL_OF


def test_chinese_words_are_tokens() -> None:
    make = maker(chinese="words")
    assert len(make.tokens("渡轮今天停运。Ferry don’t stop").hashes) == 6
    assert make.tokens("渡轮 今天 停运").hashes.tolist() == make.tokens("渡轮今天停运").hashes.tolist()
    assert not make.tokens("渡轮今天停运").kinds.any(), "words, no characters"
    assert maker().tokens("渡轮今天停运").kinds.all()


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    characters.segmenter_id.cache_clear()
    characters._rjieba.cache_clear()
    monkeypatch.setattr(characters.importlib, "import_module", missing)
    with pytest.raises(ConfigError, match=r"pip install .*\[chinese\]"):
        maker(chinese="words")


@pytest.mark.parametrize("content", ["", "。", "\ud800新闻", "新" * 5000, "新闻\x00\n新闻"])
def test_odd_texts_are_segmented(content: str) -> None:
    make = maker(chinese="words")
    exact = make.exact(items(content)[0])
    assert make(items(content)).signatures["body_size"][0] == len(exact.body)
