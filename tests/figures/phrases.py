"""What edits say in each language: negations, days, notes of corrections, bylines, credits. All of it is made up."""

from typing import NamedTuple


class Days(NamedTuple):
    """day_of_month: a pattern of a day and its month, the day named `day`; weekdays: of one week."""

    day_of_month: str
    weekdays: tuple[str, ...]


def _before(months: str) -> str:
    return rf"(?<!\d)(?P<day>\d{{1,2}})\.?º?(?: de)? (?:{months})\b"


_EN = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Sept|Oct|Nov|Dec|January|February|March|April|June|July|August|September|October|November|December"
DAYS = {
    "en": Days(
        rf"\b(?:{_EN})\.? (?P<day>\d{{1,2}})(?![\d:])",
        ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    ),
    "de": Days(
        _before("Januar|Februar|März|April|Mai|Juni|Juli|August|September|Oktober|November|Dezember"),
        ("Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag", "Sonntag"),
    ),
    "es": Days(
        _before("enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|noviembre|diciembre"),
        ("lunes", "martes", "miércoles", "jueves", "viernes", "sábado", "domingo"),
    ),
    "fr": Days(
        _before("janvier|février|mars|avril|mai|juin|juillet|août|septembre|octobre|novembre|décembre"),
        ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche"),
    ),
    "it": Days(
        _before("gennaio|febbraio|marzo|aprile|maggio|giugno|luglio|agosto|settembre|ottobre|novembre|dicembre"),
        ("lunedì", "martedì", "mercoledì", "giovedì", "venerdì", "sabato", "domenica"),
    ),
    "pt": Days(
        _before("janeiro|fevereiro|março|abril|maio|junho|julho|agosto|setembro|outubro|novembro|dezembro"),
        ("segunda-feira", "terça-feira", "quarta-feira", "quinta-feira", "sexta-feira", "sábado", "domingo"),
    ),
    "ca": Days(
        r"(?<!\d)(?P<day>\d{1,2}) (?:de |d')(?:gener|febrer|març|abril|maig|juny|juliol|agost|setembre|octubre|novembre|desembre)\b",
        ("dilluns", "dimarts", "dimecres", "dijous", "divendres", "dissabte", "diumenge"),
    ),
    "ru": Days(
        _before("января|февраля|марта|апреля|мая|июня|июля|августа|сентября|октября|ноября|декабря"),
        ("понедельник", "вторник", "среду", "четверг", "пятницу", "субботу", "воскресенье"),
    ),
    "zh": Days(r"月(?P<day>\d{1,2})日", ("周一", "周二", "周三", "周四", "周五", "周六", "周日")),
    "ne": Days(r"(?!)(?P<day>)", ("आइतबार", "सोमबार", "मंगलबार", "बुधबार", "बिहीबार", "शुक्रबार", "शनिबार")),
    "hi": Days(
        r"(?<!\d)(?P<day>\d{1,2}) (?:जनवरी|फरवरी|मार्च|अप्रैल|मई|जून|जुलाई|अगस्त|सितंबर|अक्टूबर|नवंबर|दिसंबर)",
        ("सोमवार", "मंगलवार", "बुधवार", "गुरुवार", "शुक्रवार", "शनिवार", "रविवार"),
    ),
    "ar": Days(
        r"(?<!\d)(?P<day>\d{1,2}) (?:يناير|فبراير|مارس|أبريل|مايو|يونيو|يوليو|أغسطس|سبتمبر|أكتوبر|نوفمبر|ديسمبر)",
        ("الاثنين", "الثلاثاء", "الأربعاء", "الخميس", "الجمعة", "السبت", "الأحد"),
    ),
}
"""Languages with days that a headline may name."""

# Not behind a pronoun, which would have to follow the particle: "se ha", "si è".
_UNJOINED = "".join(f"(?<!\\b{one} )" for one in ("se", "si", "me", "mi", "le", "lo", "la", "ci", "es", "em", "té"))
NEGATIONS = {
    "en": (
        (r"\bguilty\b", "not guilty"),
        (r"\b(is|are|was|were|will|can|could|should|would|must|has|have|had|may|does|did)\b(?! not)", r"\1 not"),
    ),
    "de": (
        (r"\b(ist|sind|war|waren|wird|werden|kann|können|darf|dürfen|soll|sollen|muss|müssen|hat|haben|will|wollen)\b(?! nicht| kein)", r"\1 nicht"),
    ),
    "es": ((rf"{_UNJOINED}(?<!no )\b(es|son|fue|será|está|están|ha|han|puede|pueden|hay|tiene|va|quiere)\b", r"no \1"),),
    "fr": (
        (r"(?<!ne )\b(est|ont)\b(?! pas|-)", r"n’\1 pas"), (r"(?<!ne )\b(sont|sera|seront|peut|va|vont|doit|veut)\b(?! pas|-)", r"ne \1 pas"),
    ),
    "it": ((rf"{_UNJOINED}(?<!non )\b(è|sono|ha|hanno|sarà|può|va|deve)\b", r"non \1"),),
    "pt": ((rf"{_UNJOINED}(?<!não )\b(é|são|foi|será|está|estão|tem|pode|vai|deve)\b", r"não \1"),),
    "ca": ((rf"{_UNJOINED}(?<!no )\b(és|són|serà|està|ha|han|pot|té|vol)\b", r"no \1"),),
    "ru": ((r"(?<!не )\b(будет|будут|может|могут|был|была|были|стал|стала|получил|смогут|сможет|хочет)\b", r"не \1"),),
    "zh": ((r"([将將])(?![军軍士领領相来來近于於在不])", r"\1不"), (r"已(?![经經])", "未")),
    "ne": (
        (r"(?<=\s)छन्(?=\s|$|।)", "छैनन्"), (r"(?<=\s)छ(?=\s|$|।)", "छैन"), (r"(?<=\s)भयो(?=\s|$|।)", "भएन"),
        (r"(?<=\s)हुने(?=\s|$|।)", "नहुने"), (r"(?<=\s)गर्ने(?=\s|$|।)", "नगर्ने"),
    ),
    "hi": ((r"(?<!नहीं )(?<=\s)(है|हैं|होगा|होगी|करेगा|करेगी|करेंगे)(?=\s|$|।)", r"नहीं \1"),),
    "fa": ((r"(?<=\s)است\b", "نیست"), (r"(?<=\s)شد\b", "نشد"), (r"(?<=\s)کرد\b", "نکرد")),
}  # fmt: skip
"""A headline's verb and what denies it, for languages where a particle or an ending does."""

CORRECTIONS = {
    "en": "Correction: An earlier version of this article gave the figure as {old}. It is {new}.",
    "de": "Anmerkung der Redaktion: In einer früheren Fassung dieses Artikels hieß es {old}. Richtig ist {new}.",
    "es": "Corrección: Una versión anterior de este artículo decía {old}. La cifra correcta es {new}.",
    "fr": "Rectificatif : une version précédente de cet article indiquait {old}. Le chiffre exact est {new}.",
    "it": "Correzione: una versione precedente di questo articolo riportava {old}. La cifra corretta è {new}.",
    "pt": "Correção: uma versão anterior deste artigo dizia {old}. O número correto é {new}.",
    "ca": "Correcció: una versió anterior d'aquest article deia {old}. La xifra correcta és {new}.",
    "ru": "Исправление: в прежней версии этой статьи говорилось {old}. Верное число: {new}.",
    "zh": "更正：本文此前版本的数字为{old}，正确数字应为{new}。",
    "ne": "सच्याइएको: यस समाचारको पहिलेको संस्करणमा {old} लेखिएको थियो। सही संख्या {new} हो।",
    "hi": "सुधार: इस लेख के पिछले संस्करण में संख्या {old} दी गई थी। सही संख्या {new} है।",
    "ar": "تصحيح: ذكرت نسخة سابقة من هذا المقال الرقم {old}. الرقم الصحيح هو {new}.",
    "fa": "اصلاحیه: در نسخهٔ پیشین این مطلب عدد {old} آمده بود. عدد درست {new} است.",
}


class Furniture(NamedTuple):
    """What a site puts round an article."""

    byline: str
    dateline: str
    credit: str
    more: str
    newsletter: str
    related: str
    breaking: str


FURNITURE = {
    "en": Furniture(
        "By Jane Ashdown, staff writer", "ELMTOWN (Gazette) — ", "Photo: Jo Birch / Elm Pictures",
        "Read more at other.example",
        "Sign up for our newsletter. Every morning we send you the five stories that matter most. You can cancel whenever you like.",
        "Related", "BREAKING: ",
    ),
    "de": Furniture(
        "Von Jana Eschental", "Ulmstadt (epb) – ", "Foto: Jo Birke / Ulmenbild", "Mehr dazu auf other.example",
        "Abonnieren Sie unseren Newsletter. Jeden Morgen schicken wir Ihnen die fünf wichtigsten Meldungen des Tages. Sie können ihn jederzeit abbestellen.",
        "Mehr zum Thema", "Eilmeldung: ",
    ),
    "es": Furniture(
        "Por Juana Fresno", "VILLAOLMO (Gaceta) — ", "Foto: Jo Abedul / Imagen Olmo", "Leer más en other.example",
        "Suscríbase a nuestro boletín. Cada mañana le enviamos las cinco noticias más importantes del día. Puede darse de baja cuando quiera.",
        "Noticias relacionadas", "ÚLTIMA HORA: ",
    ),
    "fr": Furniture(
        "Par Jeanne Lefrêne", "ORMEVILLE (Gazette) — ", "Photo : Jo Bouleau / Images Orme", "Lire la suite sur other.example",
        "Abonnez-vous à notre lettre. Chaque matin, nous vous envoyons les cinq informations les plus importantes du jour. Vous pouvez vous désinscrire à tout moment.",
        "À lire aussi", "FLASH : ",
    ),
    "it": Furniture(
        "di Gianna Frassino", "OLMOPOLI (Gazzetta) — ", "Foto: Jo Betulla / Immagini Olmo", "Continua a leggere su other.example",
        "Iscriviti alla nostra newsletter. Ogni mattina ti mandiamo le cinque notizie più importanti della giornata. Puoi cancellarti quando vuoi.",
        "Leggi anche", "ULTIM'ORA: ",
    ),
    "pt": Furniture(
        "Por Joana Freixo", "OLMEIRO (Gazeta) — ", "Foto: Jo Bétula / Imagem Olmo", "Leia mais em other.example",
        "Assine a nossa newsletter. Todas as manhãs enviamos as cinco notícias mais importantes do dia. Pode cancelar quando quiser.",
        "Leia também", "URGENTE: ",
    ),
    "ca": Furniture(
        "Per Joana Freixe", "VILAOM (Gaseta) — ", "Foto: Jo Bedoll / Imatges Om", "Llegeix-ne més a other.example",
        "Subscriu-te al nostre butlletí. Cada matí t'enviem les cinc notícies més importants del dia. Te'n pots donar de baixa quan vulguis.",
        "També et pot interessar", "ÚLTIMA HORA: ",
    ),
    "ru": Furniture(
        "Автор: Яна Ясенева", "ВЯЗОВСК (Вестник) — ", "Фото: Ян Берёзов / Вяз-Медиа", "Читать далее на other.example",
        "Подпишитесь на нашу рассылку. Каждое утро мы присылаем пять самых важных новостей дня. Отписаться можно в любое время.",
        "Читайте также", "СРОЧНО: ",
    ),
    "zh": Furniture(
        "记者 林小榆", "榆城报讯　", "图片来源：榆树图片社", "更多内容请见 other.example",
        "欢迎订阅本报的每日电子快讯。每天早上我们为您送上当天最重要的五条新闻。您可以随时取消订阅。",
        "相关阅读", "快讯｜",
    ),
    "ne": Furniture(
        "संवाददाता: जुना एस", "एल्मनगर (गजेट) । ", "तस्बिर: जो बर्च", "थप पढ्न other.example हेर्नुहोस्",
        "हाम्रो दैनिक समाचार पत्रको सदस्य बन्नुहोस्। हरेक बिहान हामी तपाईंलाई दिनका पाँच महत्त्वपूर्ण समाचार पठाउँछौं। तपाईं जुनसुकै बेला सदस्यता छोड्न सक्नुहुन्छ।",
        "सम्बन्धित समाचार", "ताजा: ",
    ),
    "hi": Furniture(
        "संवाददाता: जूना ऐश", "एल्मनगर (गजट): ", "फोटो: जो बर्च", "और पढ़ें: other.example",
        "हमारे न्यूज़लेटर की सदस्यता लें। हर सुबह हम आपको दिन की पाँच सबसे ज़रूरी खबरें भेजते हैं। आप जब चाहें इसे बंद कर सकते हैं।",
        "यह भी पढ़ें", "ब्रेकिंग: ",
    ),
    "ar": Furniture(
        "بقلم: جنى الدردار", "مدينة الدردار (الجريدة) — ", "الصورة: جو بتولا", "اقرأ المزيد على other.example",
        "اشترك في نشرتنا البريدية. نرسل إليك كل صباح أهم خمسة أخبار في اليوم. يمكنك إلغاء الاشتراك في أي وقت تشاء.",
        "اقرأ أيضا", "عاجل: ",
    ),
    "fa": Furniture(
        "نویسنده: ژاله نارون", "نارون‌شهر (روزنامه) — ", "عکس: جو توس", "ادامه در other.example",
        "عضو خبرنامهٔ ما شوید. هر روز صبح پنج خبر مهم روز را برای شما می‌فرستیم. هر زمان که بخواهید می‌توانید آن را لغو کنید.",
        "بیشتر بخوانید", "فوری: ",
    ),
}  # fmt: skip
"""The furniture of a site that no corpus has."""

HONORIFICS = {
    "en": "Mr. ",
    "de": "Herr ",
    "es": "el señor ",
    "fr": "M. ",
    "it": "il signor ",
    "pt": "o senhor ",
    "ca": "el senyor ",
}
SPELT = {
    "en": ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    "de": ("zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn", "elf", "zwölf"),
}
"""The words for 2 to 12."""
KEPT = frozenset(
    "no not nor never without nicht kein keine keinen nie ohne sin jamás ne pas non nunca não sem sense не без out down up".split()
)
"""Words that no rewording of a headline may drop."""
