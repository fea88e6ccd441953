"""The page in a real Chromium: hostile news runs nothing, everybody can read it, and it keeps itself up to date."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from stream_dedup.dedup.verdict import Evidence, Kind, Original, Stage, Verdict
from stream_dedup.demo.sample import sample_records
from stream_dedup.errors import BadItem, TransactionFailed
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from tests.observe.watched import Watched, report

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

# Each would set a flag, open a dialog or load something if it were taken for markup, in whatever place it stands.
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


@pytest.fixture
def watched() -> Iterator[Watched]:
    one = Watched(load_settings(observe={"port": 0}))
    yield one
    one.close()


@pytest.fixture(scope="module")
def busy() -> Iterator[Watched]:
    """Made-up news, an error, a lag."""
    settings = load_settings(observe={"port": 0})
    one, decode = Watched(settings), Decoder(settings.item)
    records = list(sample_records(200, 7))
    one.judge([decode(value, key, 1_700_000_000_000 + n, 0, n) for n, (key, value) in enumerate(records)], lag={0: 9})
    one.watch.error(TransactionFailed("committing: the broker is gone"), 0.2)
    yield one
    one.close()


class Listener:
    """What a page did beside showing itself."""

    def __init__(self, page: "Page", origin: str) -> None:
        self.heard: list[str] = []
        page.on("dialog", lambda one: (self.heard.append(f"dialog {one.message}"), one.dismiss()))
        page.on("pageerror", lambda one: self.heard.append(f"error {one}"))
        page.on("console", lambda one: self.heard.append(f"console {one.text}"))
        page.on("request", lambda one: one.url.startswith(origin) or self.heard.append(f"request {one.url}"))
        page.on("framenavigated", lambda one: one.url.startswith(origin) or self.heard.append(f"frame {one.url}"))


def hostile(one: Watched) -> None:
    """Every payload in every field that comes from outside."""
    for bad in PAYLOADS:
        first = Item(f"1{bad}", bad, f"{bad} The bridge opened on Monday. {bad}", bad, 1_700_000_000_000, 0, 1)
        copy = Item(
            f"2{bad}", f"{bad} again", f"{bad} The bridge opened on Sunday. {bad}", bad, 1_700_000_000_000, 0, 2
        )
        unique = Verdict(first.id, Kind.UNIQUE, Stage.GUARD, True, None, Evidence(guard=bad))
        held = Verdict(
            copy.id,
            Kind.UPDATE,
            Stage.POLICY,
            False,
            Original(first.id, 1, 0, 1),
            Evidence(0.5, 0.5, 0.5, 0.5, cut=bad),
            bad,
        )
        lost = Verdict(f"3{bad}", Kind.DUPLICATE, Stage.LEAD, False, Original(f"4{bad}", 1, 0, 1), Evidence(lead=0.9))
        dead = Verdict(bad, Kind.BAD, Stage.NONE, False, reason=bad)
        items = [first, copy, Item(lost.id, bad, bad, bad, 1), BadItem(bad, bad, bad)]
        one.watch.batch(report(items, [unique, held, lost, dead]))
        one.watch.error(TransactionFailed(bad), 0.1)


def test_hostile_news_runs_nothing_and_is_shown_as_it_came(watched: Watched, browser: "Browser") -> None:
    hostile(watched)
    page = browser.new_page()
    listener = Listener(page, watched.url)
    page.goto(watched.url + "/", wait_until="load")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    shown = page.inner_text("#held")
    for bad in PAYLOADS[-len(page.query_selector_all("#held > details")) // 2 + 1 :]:
        assert bad.replace("\x00", "") in shown.replace("\ufffd", "")
    assert (
        page.locator("main :is(img, iframe, video, math, base, marquee, style, template, meta, link, script)").count()
        == 0
    )
    assert page.locator("main a").count() == 0
    assert page.locator("main svg").count() == 4, "the charts"
    page.evaluate("refresh()")  # the parts come again, by another way
    page.wait_for_timeout(300)
    assert page.evaluate("window.hit") is None
    assert listener.heard == []
    page.close()


def test_a_hostile_search_runs_nothing(watched: Watched, browser: "Browser") -> None:
    hostile(watched)
    watched.watch.recent._held_back.clear()  # the list has its own test; without it each of these pages comes sooner
    page = browser.new_page()
    listener = Listener(page, watched.url)
    page.goto(watched.url + "/")
    for name in (*(f"2{bad}" for bad in PAYLOADS), "".join(PAYLOADS)):  # those found, and one that is not
        page.evaluate("name => { document.getElementById('id').value = name }", name)
        with page.expect_navigation(wait_until="load"):
            page.evaluate("document.querySelector('form').submit()")
        assert page.input_value("#id").replace("\ufffd", "\x00") == name.strip()
        assert page.locator("main :is(img, iframe, base, style, script, a)").count() == 0
    assert page.evaluate("window.hit") is None
    assert listener.heard == []
    page.close()


def test_the_policy_would_stop_what_escaping_let_through(watched: Watched, browser: "Browser") -> None:
    page = browser.new_page()
    listener = Listener(page, watched.url)
    page.goto(watched.url + "/")
    for bad in ("<img src=/icon.svg onload=window.hit=1>", "<p style='color:red' onclick=window.hit=1 id=p>x</p>"):
        page.evaluate("bad => document.body.insertAdjacentHTML('beforeend', bad)", bad)
    page.evaluate("document.getElementById('p').click()")
    page.wait_for_timeout(200)
    assert page.evaluate("window.hit") is None
    assert sum("Content Security Policy" in told for told in listener.heard) >= 3
    page.close()


@pytest.mark.parametrize(
    ("scheme", "width", "query"),
    [("light", 360, "?id=FOUND"), ("dark", 1200, "?id=FOUND"), ("light", 1200, "?id=nobody"), ("dark", 360, "")],
)
def test_everybody_can_read_it(busy: Watched, browser: "Browser", scheme: Any, width: int, query: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    held = busy.watch.recent.held_back()
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True)
    page.goto(f"{busy.url}/{query.replace('FOUND', held[0].item.verdict.id)}")
    found = Axe().run(page)
    page.close()
    assert found.violations_count == 0, found.generate_report()


def test_on_a_phone_nothing_is_wider_than_the_screen(busy: Watched, browser: "Browser") -> None:
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.goto(f"{busy.url}/?id={busy.watch.recent.held_back()[0].item.verdict.id}")
    page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    page.close()


def test_it_keeps_itself_up_to_date_leaves_open_what_a_reader_opened_and_says_when_the_worker_is_gone(
    browser: "Browser",
) -> None:
    one = Watched(load_settings(observe={"port": 0}))
    text = "The bridge over the Elm opened on Monday after two years of work, the mayor of the town said at noon."
    try:
        one.judge(
            [Item("1", "Elm bridge opens", text, "a.example", 1), Item("2", "Elm bridge opens", text, "b.example", 2)]
        )
        page = browser.new_page()
        page.goto(one.url + "/")
        assert page.locator("details[open]").count() == 1
        assert page.inner_text("#pause") == "Pause updates"
        one.judge([Item("3", "Elm bridge opens", text + " Late.", "c.example", 3)])
        page.evaluate("refresh()")
        page.wait_for_selector("#held-2", state="attached")
        assert [page.evaluate("id => document.getElementById(id).open", name) for name in ("held-2", "held-1")] == [
            False,
            True,
        ]
        page.click("#pause")
        assert page.get_attribute("#pause", "aria-pressed") == "true"
        one.judge([Item("4", "Elm bridge opens", text + " Later.", "d.example", 4)])
        page.evaluate("refresh()")
        page.wait_for_timeout(200)
        assert page.locator("#held-3").count() == 0
        assert page.is_hidden("#connection")
    finally:
        one.close()
    page.click("#pause")
    page.wait_for_selector("#connection", state="visible")
    page.close()


def test_without_scripts_the_page_says_all_the_same(busy: Watched, browser: "Browser") -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(busy.url + "/")
    page.fill("#id", busy.watch.recent.held_back()[0].item.verdict.id)
    page.press("#id", "Enter")
    page.wait_for_url("**/?id=*")
    assert "Held back:" in page.inner_text("#found")
    assert page.is_hidden("#pause")
    context.close()
