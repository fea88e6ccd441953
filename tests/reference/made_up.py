"""Made-up items for comparisons with the specification: many scripts, odd characters, menus, wires, figures."""

from random import Random

from stream_dedup.news.item import Item

TALE = (
    "the old ferry between two banks of Elm was taken out service on Monday morning engineers had found cracks in hull "
    "town said four hundred people use crossing every day to reach market and school internationalisation don't café "
    "Straße ЁЛКА новости समाचार नेपालको أخبار الوِزارَة می\u200cبندد הַגֶּשֶׁר 뉴스 İstanbul ﬁn naïve co-operate Zürich"
)
NUMBERS = "38 1,000 7.5 3:1 2026-11-23 १२३ ٣٨ １２ 2nd G7 999999999999999999999999999999 ½ 10:30, 4/5-6"
ODD = (
    "新闻联播|市长|ข่าววันนี้|ニュースｶﾞ|iPhone17发布|e\u0301|\u1112\u1161\u11ab|…|“quoted”|—|👩\u200d🚀|\u200b|\u00ad|\x00|\ud800|\U000e0041|’|'|_|"
    "Mr. Miller|p.m.|17. November|Gov.|info.elm at|?!|हुन्छ।|新大桥通车。|کیا۔|؟|\u0958|"
    "İ\u0307|ﷺ½…ﬃ|\U000e0041é|可\uf9dc臺灣|می\u200c|फ़\u094d|ʼ＇׳|"
    "Prices rose by 38 percent on Monday in all towns of the coast.| |.|. |, |\n|\n\n|\n     |! |? |。|।| - | _ |\t"
)
TITLES = (
    "Ferry over the Elm stopped after cracks were found - The Harbor Post;Opinion | Who pays for the new bridge;Elm;;"
    "CORRECTED-Bridge over the Elm costs 83 million;Rates at 4.75 | Markets;新桥今天正式通车_新闻网;"
    "Elm beats Alder 3-1;Ferry over the Elm stopped after cracks were found;Alder beats Elm 3-1;..."
)
WORDS, FIGURES, HEADLINES = TALE.split(), NUMBERS.split(), TITLES.split(";")
PIECES = [*WORDS, *FIGURES, *ODD.split("|"), "a" * 70]
CHINESE = "市长星期一上午在河边宣布新大桥正式通车今天有三十八万人参加"
FORM = "The council of the town has decided on the matter {} in its session of this week, and on nothing else."


def sentence(draw: Random, script: str = "") -> str:
    if script == "Chinese":
        return "".join(draw.choices(CHINESE, k=draw.randrange(4, 40))) + draw.choice("。，！")
    words = draw.choices(WORDS if script else WORDS[:36], k=draw.randrange(3, 26))
    for at in range(len(words)):
        if draw.random() < 0.08:
            words[at] = draw.choice(FIGURES)
        elif draw.random() < 0.3:
            words[at] += draw.choice(["s", "ing", f"x{draw.randrange(400)}", ","])
    return " ".join(words) + draw.choice([". ", ". ", ".\n", "! ", "\n", ".” "])


def text_of(draw: Random, length: int) -> str:
    """`length` sentences and menu lines, of one script or of all."""
    script = draw.choice(["", "", "all", "Chinese"])
    menus = ["Home\n", "News 24\nSport and weather\n"]
    text = "".join(draw.choice(menus) if draw.random() < 0.15 else sentence(draw, script) for _ in range(length))
    if draw.random() < 0.15:  # as a news wire wraps its lines
        words = text.split()
        text = "\n".join(" ".join(words[at : at + 9]) for at in range(0, len(words), 9))
    return text


def article(draw: Random, name: str, time: int = 0, length: int | None = None) -> Item:
    length = draw.randrange(12) if length is None else length
    return Item(name, draw.choice(HEADLINES), text_of(draw, length), draw.choice(["", "a.example", "b.example"]), time)


def edited(draw: Random, item: Item, name: str, time: int) -> Item:
    """The item again: as it is, cut, with more, other figures, other words, another headline or source."""
    text, title, source = item.text, item.title, item.source
    for _ in range(draw.randrange(4)):
        sentences, kind = text.split(". "), draw.randrange(7)
        if kind == 0:
            text = ". ".join(sentences[: draw.randrange(len(sentences)) + 1])
        elif kind == 1:
            text = ". ".join(sentences[draw.randrange(len(sentences)) :])
        elif kind == 2:
            text += " " + text_of(draw, draw.choice([1, 1, 3, 12]))
        elif kind == 3:
            text = text.replace(draw.choice(FIGURES), draw.choice(FIGURES))
        elif kind == 4:
            text = text.replace(draw.choice(WORDS), "linden" + draw.choice("abc"))
        elif kind == 5:
            title = draw.choice([*HEADLINES, title.upper(), f"{title} - Site", f"{title} (Corrected)"])
        else:
            source = draw.choice(["", "a.example", "c.example"])
            text = draw.choice([text, f"Correction: An earlier version of this article was wrong. {text}"])
    return Item(name, title, text, source, time)
