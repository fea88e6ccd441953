"""Bulletins: prices, weather, rates, draws and results of another day are never held back; the same ones again are."""

import re
from collections.abc import Callable
from random import Random

import pytest

from stream_dedup.news.item import Item
from tests.dedup.test_readers import judged
from tests.dedup.world import HOUR, START, told

DEVANAGARI = str.maketrans("0123456789", "०१२३४५६७८९")
ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")

Bulletin = Callable[[int, Random], tuple[str, str]]


def weather(day: int, r: Random) -> tuple[str, str]:
    towns = ["Kiel", "Lübeck", "Rostock", "Bremen", "Emden", "Husum", "Flensburg"]
    lines = [
        f"In {town} werden {r.randint(-4, 14)} Grad bei Wind der Stärke {r.randint(2, 8)} erwartet." for town in towns
    ]
    text = (
        f"Der Wetterdienst erwartet für den {day}. November an der Küste wechselnde Bewölkung mit einzelnen Schauern. "
        + " ".join(lines)
        + f" Die Regenwahrscheinlichkeit liegt bei {r.randint(10, 95)} Prozent, in der Nacht sinken die Werte auf "
        f"{r.randint(-9, 5)} Grad. Autofahrer müssen am Morgen stellenweise mit Nebel rechnen, teilt der Dienst mit."
    )
    return "Das Wetter an der Küste", text


def exchange(day: int, r: Random) -> tuple[str, str]:
    money = ["美元", "欧元", "日元", "英镑", "港元", "澳元", "加元", "瑞士法郎"]
    lines = "，".join(f"1{one}对人民币{r.uniform(0.1, 9):.4f}元" for one in money)
    text = (
        f"中国外汇交易中心11月{day}日受权公布人民币汇率中间价。{lines}。"
        "人民币汇率中间价由外汇市场做市商在每日银行间外汇市场开盘前报价，"
        f"去掉最高和最低报价后加权平均得出。前一交易日收盘报{r.uniform(6.9, 7.3):.4f}元，"
        f"夜盘收报{r.uniform(6.9, 7.3):.4f}元。市场人士认为汇率将在合理均衡水平上保持基本稳定。"
    )
    return f"11月{day}日人民币汇率中间价公告", text


def lottery(day: int, r: Random) -> tuple[str, str]:
    numbers = ", ".join(str(n) for n in sorted(r.sample(range(1, 50), 6)))
    text = (
        f"Estos son los números del sorteo de la lotería primitiva celebrado el {day} de noviembre: {numbers}, con el "
        f"complementario {r.randint(1, 49)} y el reintegro {r.randint(0, 9)}. El premio de los acertantes de seis "
        f"asciende a {r.randint(2, 40)}.{r.randint(100, 999)}.000 euros. Hay {r.randint(2, 300)} con cinco aciertos, "
        f"que cobran {r.randint(900, 9000)} euros cada uno, y {r.randint(5000, 20000)} con cuatro. Los premios se "
        "pueden cobrar durante los tres meses siguientes al sorteo en cualquier administración de lotería. El próximo "
        "sorteo se celebra pasado mañana a las nueve y media de la noche."
    )
    return "Lotería primitiva: comprobar los números del sorteo", text


def results(day: int, r: Random) -> tuple[str, str]:
    teams = [
        "Elm United",
        "Harbour Town",
        "Linden Rovers",
        "Pinegrove",
        "Alder Falls",
        "Hill City",
        "Ford Athletic",
        "Quay",
    ]
    r.shuffle(teams)
    played = [f"{a} {r.randint(0, 5)}-{r.randint(0, 5)} {b}" for a, b in zip(teams[::2], teams[1::2], strict=True)]
    table = [f"{place}. {one} {r.randint(3, 30)} points" for place, one in enumerate(sorted(teams), 1)]
    text = (
        f"Results of the county league on match day {day}: {', '.join(played)}. The table after this round: "
        f"{', '.join(table)}. The next round will be played on Saturday at three in the afternoon, and tickets for all "
        f"grounds are sold at the gate for {r.randint(4, 9)} crowns. It counted {r.randint(900, 9000)} visitors."
    )
    return "County league: results and table", text


def bullion(day: int, r: Random) -> tuple[str, str]:
    low, high = r.randint(80, 99), r.randint(100, 190)
    text = (
        f"नेपाल सुनचाँदी व्यवसायी महासंघले मङ्सिर {day} गतेको लागि सुनको मूल्य प्रतितोला एक लाख {low} हजार {r.randint(1, 9) * 100} "
        f"रुपैयाँ तोकेको छ। अघिल्लो दिन सुन प्रतितोला एक लाख {r.randint(80, 99)} हजार रुपैयाँमा कारोबार भएको थियो। चाँदीको मूल्य भने "
        f"प्रतितोला {high * 10} रुपैयाँ कायम भएको छ। अन्तर्राष्ट्रिय बजारमा सुन प्रतिऔंस {r.randint(1900, 4100)} डलरमा कारोबार "
        "भइरहेको महासंघले जनाएको छ। महासंघले हरेक दिन बिहान अन्तर्राष्ट्रिय बजारको मूल्यका आधारमा स्वदेशी बजारको "
        "भाउ निर्धारण गर्दै आएको छ।"
    )
    return "आज सुनचाँदीको मूल्य कति छ?", text.translate(DEVANAGARI)


def dollar(day: int, r: Random) -> tuple[str, str]:
    banks = ["البنك الأهلي", "بنك مصر", "بنك القاهرة", "البنك التجاري", "بنك الإسكندرية", "بنك البركة"]
    pair = "{:.2f} جنيه للشراء و{:.2f} جنيه للبيع"
    lines = [f"سجل الدولار في {one} {pair.format(r.uniform(30, 50), r.uniform(30, 50))}" for one in banks]
    text = (
        f"ننشر أسعار الدولار مقابل الجنيه في البنوك خلال تعاملات اليوم {day} نوفمبر، وفق آخر تحديث على مواقع البنوك. "
        + "، و".join(lines)
        + ". ويتابع المواطنون أسعار العملات الأجنبية كل يوم لمعرفة آخر التطورات في سوق الصرف."
    )
    return "سعر الدولار اليوم في البنوك", text.translate(ARABIC)


KINDS: list[Bulletin] = [weather, exchange, lottery, results, bullion, dollar]


def item(name: str, content: tuple[str, str], hour: float, source: str = "bulletins.example") -> Item:
    return Item(name, *content, source, START + int(hour * HOUR))


def drawn(kind: Bulletin, day: int, seed: int) -> tuple[str, str]:
    return kind(day, Random(f"{kind.__name__} {seed} {day}"))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", KINDS)
def test_a_bulletin_of_another_day_is_never_held_back(kind: Bulletin, seed: int) -> None:
    """Days in a row; the hour varies as that of a feed does, and a second site has the same form."""
    hours = Random(seed)
    days = range(11, 18)
    items = [item(f"{day}", drawn(kind, day, seed), 24 * (day - 11) + hours.uniform(0, 5)) for day in days]
    assert [str(one.kind) for one in judged(*items) if not one.forward] == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_bulletin_sent_again_on_the_same_day_is_held_back(kind: Bulletin) -> None:
    title, text = content = drawn(kind, 14, 1)
    items = [item("yesterday", drawn(kind, 13, 1), -24), item("first", content, 0)]
    items.append(item("again", content, 2))
    items.append(item("elsewhere", (title, f"{text} ({title})"), 3, "other.example"))
    items.append(item("corrected a comma", (title, text.replace(",", ";", 1)), 4))
    verdicts = judged(*items)
    assert told(verdicts[2:]) == [("duplicate", "first")] * 3


@pytest.mark.parametrize("kind", KINDS)
def test_a_list_in_which_only_the_date_and_one_figure_are_new_is_let_through(kind: Bulletin) -> None:
    """As of a rate that hardly moves. A filter may hold a new figure by chance."""
    title, text = drawn(kind, 14, 2)
    tomorrow = text.replace("14", "15", 1).replace("१४", "१५", 1).replace("١٤", "١٥", 1)
    figures = list(re.finditer(r"(?<![\w.])\d+(?:[.,]\d+)*", tomorrow))
    assert len(figures) > 5
    held = []
    for n, one in enumerate(figures):
        changed = f"{tomorrow[: one.start()]}{one[0]}{one[0][-1]}{n}{tomorrow[one.end() :]}"
        if not judged(item("yesterday", (title, text), 0), item("today", (title, changed), 24))[1].forward:
            held.append(tomorrow[one.start() - 10 : one.end() + 10])
    assert len(held) <= len(figures) / 10, held
