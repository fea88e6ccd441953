"""Eleven microblog posts, in English and Chinese: which of them are copies.

Four are copies: punctuation added, forwarded, a word changed, a word left out. Two are the weather reports of two days.
The others are unlike.
"""

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.settings import load_settings
from tests.fingerprint.built import items

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
STREAMS: list[tuple[dict[str, object], dict[str, object]]] = [({}, {}), ({"shingles": "letters"}, {"jaccard": 0.65})]


@pytest.mark.parametrize("posts", [ENGLISH, CHINESE], ids=["English", "Chinese"])
@pytest.mark.parametrize(("fingerprint", "decision"), STREAMS)
def test_the_stream_holds_back_the_copies(
    posts: list[str], fingerprint: dict[str, object], decision: dict[str, object]
) -> None:
    with Decider(load_settings(fingerprint=fingerprint, decision=decision)) as dedup:
        verdicts = dedup.judge(items(*posts)).verdicts
    found = {int(v.id): int(v.original.id) for v in verdicts if v and v.original and not v.forward}
    assert found == ORIGINAL_OF
