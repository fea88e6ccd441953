"""Bulletins: prices, weather, rates, draws and results of another day are never held back; the same ones again are."""

import re
from random import Random

import pytest

from stream_dedup.dedup.decider import Decider
from stream_dedup.news.item import Item
from tests.dedup import world
from tests.dedup.world import judged, told

# Headline and text; a pair of numbers stands for a number between them.
TOWNS = ["Kiel", "Lübeck", "Rostock", "Bremen", "Emden", "Husum", "Flensburg"]
MONEY = ["美元", "欧元", "日元", "英镑", "港元", "澳元", "加元", "瑞士法郎"]
BANKS = ["البنك الأهلي", "بنك مصر", "بنك القاهرة", "البنك التجاري", "بنك الإسكندرية", "بنك البركة"]
TEAMS = [
    "Elm United",
    "Harbour Town",
    "Linden Rovers",
    "Pinegrove",
    "Alder Falls",
    "Hill City",
    "Ford Athletic",
    "Quay",
]
KINDS = {
    "weather": (
        "Das Wetter an der Küste",
        "Der Wetterdienst erwartet für den {day}. November an der Küste wechselnde Bewölkung mit einzelnen Schauern. "
        + " ".join(f"In {town} werden <-4,14> Grad bei Wind der Stärke <2,8> erwartet." for town in TOWNS)
        + " Die Regenwahrscheinlichkeit liegt bei <10,95> Prozent, in der Nacht sinken die Werte auf <-9,5> Grad. "
        "Autofahrer müssen am Morgen stellenweise mit Nebel rechnen, teilt der Dienst mit.",
    ),
    "exchange": (
        "11月{day}日人民币汇率中间价公告",
        "中国外汇交易中心11月{day}日受权公布人民币汇率中间价。"
        + "，".join(f"1{one}对人民币<0.1000,9.0000>元" for one in MONEY)
        + "。"
        "人民币汇率中间价由外汇市场做市商在每日银行间外汇市场开盘前报价，去掉最高和最低报价后加权平均得出。"
        "前一交易日收盘报<6.9000,7.3000>元，夜盘收报<6.9000,7.3000>元。市场人士认为汇率将在合理均衡水平上保持基本稳定。",
    ),
    "results": (
        "County league: results and table",
        "Results of the county league on match day {day}: "
        + ", ".join(f"{a} <0,5>-<0,5> {b}" for a, b in zip(TEAMS[::2], TEAMS[1::2], strict=True))
        + f". The table after this round: {', '.join(f'{one} <3,30> points' for one in TEAMS)}. The next round will be "
        "played on Saturday at three in the afternoon, and tickets for all grounds are sold at the gate for <4,9> "
        "crowns. It counted <900,9000> visitors.",
    ),
    "bullion": (
        "आज सुनचाँदीको मूल्य कति छ?",
        "नेपाल सुनचाँदी व्यवसायी महासंघले मङ्सिर {day} गतेको लागि सुनको मूल्य प्रतितोला एक लाख <80,99> हजार <100,900> "
        "रुपैयाँ तोकेको छ। अघिल्लो दिन सुन प्रतितोला एक लाख <80,99> हजार रुपैयाँमा कारोबार भएको थियो। चाँदीको मूल्य भने "
        "प्रतितोला <1000,1900> रुपैयाँ कायम भएको छ। अन्तर्राष्ट्रिय बजारमा सुन प्रतिऔंस <1900,4100> डलरमा कारोबार "
        "भइरहेको महासंघले जनाएको छ। महासंघले हरेक दिन बिहान अन्तर्राष्ट्रिय बजारको मूल्यका आधारमा स्वदेशी बजारको "
        "भाउ निर्धारण गर्दै आएको छ।",
    ),
    "dollar": (
        "سعر الدولار اليوم في البنوك",
        "ننشر أسعار الدولار مقابل الجنيه في البنوك خلال تعاملات اليوم {day} نوفمبر، وفق آخر تحديث على مواقع البنوك. "
        + "، و".join(f"سجل الدولار في {one} <30.00,50.00> جنيه للشراء و<30.00,50.00> جنيه للبيع" for one in BANKS)
        + ". ويتابع المواطنون أسعار العملات الأجنبية كل يوم لمعرفة آخر التطورات في سوق الصرف.",
    ),
}
DIGITS = {"bullion": "०१२३४५६७८९", "dollar": "٠١٢٣٤٥٦٧٨٩"}


def drawn(kind: str, day: int, seed: int = 0) -> tuple[str, str]:
    """Headline and text of a day."""
    chance = Random(f"{kind} {seed} {day}")

    def number(place: re.Match[str]) -> str:
        low, high = place[1], place[2]
        return f"{chance.uniform(float(low), float(high)):.{len(low.partition('.')[2])}f}"

    headline, text = (re.sub("<(.+?),(.+?)>", number, part.format(day=day)) for part in KINDS[kind])
    return headline, text.translate(str.maketrans("0123456789", DIGITS.get(kind, "0123456789")))


def item(name: str, content: tuple[str, str], hour: float, source: str = "bulletins.example") -> Item:
    return world.item(name, content[1], source, hour, content[0])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", KINDS)
def test_a_bulletin_of_another_day_is_never_held_back(kind: str, seed: int) -> None:
    """Days in a row; the hour varies as that of a feed does."""
    hours, days = Random(seed), range(11, 18)
    items = [item(f"{day}", drawn(kind, day, seed), 24 * (day - 11) + hours.uniform(0, 5)) for day in days]
    assert [str(one.kind) for one in judged(Decider(), items) if not one.forward] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bulletin_sent_again_on_the_same_day_is_held_back(kind: str) -> None:
    title, text = content = drawn(kind, 14)
    items = [item("yesterday", drawn(kind, 13), -24), item("first", content, 0), item("again", content, 2)]
    items.append(item("elsewhere", (title, f"{text} ({title})"), 3, "other.example"))
    items.append(item("corrected a comma", (title, text.replace(",", ";", 1)), 4))
    assert told(judged(Decider(), items)[2:]) == [("duplicate", "first")] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_in_which_only_the_date_and_one_figure_are_new_is_let_through(kind: str) -> None:
    """As of a rate that hardly moves. A filter may hold a new figure by chance."""
    (title, text), held = drawn(kind, 14), []
    tomorrow = text.replace("14", "15", 1).replace("१४", "१५", 1).replace("١٤", "١٥", 1)
    figures = list(re.finditer(r"(?<![\w.])\d+(?:[.,]\d+)*", tomorrow))
    assert len(figures) > 5
    for n, one in enumerate(figures):
        changed = f"{tomorrow[: one.start()]}{one[0]}{one[0][-1]}{n}{tomorrow[one.end() :]}"
        items = [item("yesterday", (title, text), 0), item("today", (title, changed), 24)]
        held += [tomorrow[one.start() - 10 : one.end() + 10]] * (not judged(Decider(), items)[1].forward)
    assert len(held) <= len(figures) / 10, held
