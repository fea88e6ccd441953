"""The page in a real Chromium: hostile news runs no script, the page is accessible, and it updates itself."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.errors import BadItem, TransactionFailed
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.tools.demo.newsroom import sample_records
from tests.observe.watched import Watched, report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Interpreted as markup, each would set a flag, open a dialog or load something, wherever it is inserted.
PAYLOADS = [
    "<script>window.hit=1</script>",
    "</script><script>window.hit=1</script>",
    "<img src=x onerror=window.hit=1>",
    "\"><img src=x onerror=window.hit=1>",
    "'><svg/onload=window.hit=1>",
    "<svg><script>window.hit=1</script></svg>",
    "<svg><animate onbegin=window.hit=1 attributeName=x dur=1s>",
    "<details open ontoggle=window.hit=1>",
    "<iframe srcdoc='<script>parent.hit=1</script>'></iframe>",
    "<iframe src=javascript:parent.hit=1></iframe>",
    "<a href=javascript:window.hit=1 id=clickme>click</a>",
    "<form action=javascript:window.hit=1><button>go</button></form>",
    "<input autofocus onfocus=window.hit=1>",
    "<body onload=window.hit=1>",
    "<math><mtext></math><img src=x onerror=window.hit=1>",
    "<base href=//evil.example/>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<meta http-equiv=refresh content='0;url=//evil.example/'>",
    "<style>*{background:url(//evil.example/)}</style>",
    "<template><script>window.hit=1</script></template>",
    "</bdi></p></section></main><script>window.hit=1</script>",
    "</title></textarea></style></noscript><script>window.hit=1</script>",
    "--><script>window.hit=1</script><!--",
    "]]><script>window.hit=1</script>",
    "{{ 7*'7' }}{% for x in (1).__class__.__base__.__subclasses__() %}{% endfor %}",
    "${alert(1)}`;window.hit=1//",
    "\" autofocus onfocus=window.hit=1 x=\"",
    "'; window.hit=1; '",
    "&lt;script&gt;window.hit=1&lt;/script&gt;",
    "<scr\x00ipt>window.hit=1</scr\x00ipt>",
    "\u202e<script>window.hit=1</script>\u2066",
    "+ADw-script+AD4-window.hit=1+ADw-/script+AD4-",
    "<marquee onstart=window.hit=1>",
    "<video><source onerror=window.hit=1>",
    "javascript:window.hit=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def busy() -> Iterator[Watched]:
    """A worker with synthetic news, an error and a lag."""
    with Watched() as worker:
        decode = Decoder(worker.settings.item)
        records = enumerate(sample_records(200, 7))
        worker.judge([decode(value, key, 1_700_000_000_000 + n, 0, n) for n, (key, value) in records], lag={0: 9})
        worker.watch.error(TransactionFailed("committing: the broker is gone"), 0.2)
        yield worker


class Listener:
    """A log of dialogs, errors, console messages and foreign requests of a page."""

    def __init__(self, page: "Page", origin: str) -> None:
        self.messages: list[str] = []
        page.on("dialog", lambda event: (self.messages.append(f"dialog {event.message}"), event.dismiss()))
        page.on("pageerror", lambda event: self.messages.append(f"error {event}"))
        page.on("console", lambda event: self.messages.append(f"console {event.text}"))
        page.on("request", lambda event: event.url.startswith(origin) or self.messages.append(f"request {event.url}"))
        page.on(
            "framenavigated", lambda event: event.url.startswith(origin) or self.messages.append(f"frame {event.url}")
        )


def hostile(worker: Watched) -> None:
    """Put every payload into every field that comes from outside."""
    for payload in PAYLOADS:
        text = f"{payload} The bridge opened on Monday. {payload}"
        first = Item(f"1{payload}", payload, text, payload, 1_700_000_000_000, 0, 1)
        copy = Item(f"2{payload}", f"{payload} again", f"{text} Late.", payload, 1_700_000_000_000, 0, 2)
        unique = Verdict(first.id, Kind.UNIQUE, Stage.NONE, True, None, Evidence(0.5))
        evidence = Evidence(0.5, 0.5, 0.5, cut=payload)
        held_back = Verdict(copy.id, Kind.UPDATE, Stage.POLICY, False, Original(first.id, 1, 0, 1), evidence, payload)
        unknown_original = Verdict(
            f"3{payload}", Kind.DUPLICATE, Stage.BODY, False, Original(f"4{payload}", 1, 0, 1), Evidence(body=0.9)
        )
        bad_item = Verdict(payload, Kind.BAD, Stage.NONE, False, reason=payload)
        other = Item(unknown_original.id, payload, payload, payload, 1)
        items = [first, copy, other, BadItem(payload, payload, payload)]
        worker.watch.batch(report(items, [unique, held_back, unknown_original, bad_item]))
        worker.watch.error(TransactionFailed(payload), 0.1)


def test_hostile_news_runs_no_script_and_is_shown_verbatim(watched: Watched, page: "Page") -> None:
    hostile(watched)
    listener = Listener(page, watched.url)
    page.goto(watched.url + "/", wait_until="load")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    shown = page.inner_text("#held")
    for payload in PAYLOADS[-len(page.query_selector_all("#held details.one")) // 2 + 1 :]:
        assert payload.replace("\x00", "") in shown.replace("\ufffd", "")
    elements = "a, img, iframe, video, math, base, marquee, style, template, meta, link, script"
    assert page.locator(f"main :is({elements})").count() == 0
    assert page.locator("main svg").count() == 3, "the charts"
    page.evaluate("refresh()")  # a script now renders the parts
    page.wait_for_timeout(300)
    assert page.evaluate("window.hit") is None
    assert listener.messages == []


def test_a_hostile_search_runs_no_script(watched: Watched, page: "Page") -> None:
    hostile(watched)
    watched.recent._latest["held back"].clear()  # the list has its own test; pages load faster without it
    listener = Listener(page, watched.url)
    page.goto(watched.url + "/")
    for name in [*(f"2{payload}" for payload in PAYLOADS), "".join(PAYLOADS)]:  # the last id is not found
        page.evaluate("name => { document.getElementById('id').value = name }", name)
        with page.expect_navigation(wait_until="load"):
            page.evaluate("document.querySelector('form').submit()")
        assert page.input_value("#id").replace("\ufffd", "\x00") == name.strip()
        assert page.locator("main :is(img, iframe, base, style, script, a)").count() == 0
    assert page.evaluate("window.hit") is None
    assert listener.messages == []


def test_the_content_security_policy_blocks_injected_markup(watched: Watched, page: "Page") -> None:
    listener = Listener(page, watched.url)
    page.goto(watched.url + "/")
    for payload in ("<img src=/icon.svg onload=window.hit=1>", "<p style='color:red' onclick=window.hit=1 id=p>x</p>"):
        page.evaluate("bad => document.body.insertAdjacentHTML('beforeend', bad)", payload)
    page.evaluate("document.getElementById('p').click()")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hit") is None
    assert sum("Content Security Policy" in message for message in listener.messages) >= 3


@pytest.mark.parametrize(
    ("scheme", "width", "query"),
    [("light", 360, "?id=FOUND"), ("dark", 1200, "?id=FOUND"), ("light", 1200, "?id=unknown"), ("dark", 360, "")],
)
def test_the_page_is_accessible(busy: Watched, browser: "Browser", scheme: Any, width: int, query: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    held_back = busy.recent.latest("held back")
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    page.goto(f"{busy.url}/{query.replace('FOUND', held_back[0].item.verdict.id)}")
    results = Axe().run(page)
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.close()
    assert results.violations_count == 0, results.generate_report()


def test_it_updates_itself_keeps_details_open_and_reports_a_lost_connection(page: "Page") -> None:
    text = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."

    def copy(number: int, more: str = "") -> Item:
        return Item(str(number), "Elm bridge opens", text + more, f"{number}.example", number)

    with Watched() as worker:
        worker.judge([copy(1), copy(2)])
        page.goto(worker.url + "/")
        assert page.locator("details[open]").count() == 1
        assert page.inner_text("#pause") == "Pause updates"
        worker.judge([copy(3, " Late.")])
        page.evaluate("refresh()")
        page.wait_for_selector("#held-2", state="attached")
        assert [page.evaluate(f"document.getElementById('held-{n}').open") for n in (2, 1)] == [False, True]
        page.click("#pause")
        assert page.get_attribute("#pause", "aria-pressed") == "true"
        worker.judge([copy(4, " Later.")])
        page.evaluate("refresh()")
        page.wait_for_timeout(200)
        assert page.locator("#held-3").count() == 0
        assert page.is_hidden("#connection")
    page.click("#pause")
    page.wait_for_selector("#connection", state="visible")


def test_the_page_works_without_scripts(busy: Watched, browser: "Browser") -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(busy.url + "/")
    page.fill("#id", busy.recent.latest("held back")[0].item.verdict.id)
    page.press("#id", "Enter")
    page.wait_for_url("**/?id=*")
    assert "Held back:" in page.inner_text("#found")
    assert page.is_hidden("#pause")
    context.close()
