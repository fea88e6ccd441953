"""Make the pictures of the pages, light and dark, from the demo's made-up feed: `python -m tests.observe.pictures`.

They show what a browser shows of the real page and the real report, so nobody draws them. The drawings (drawn.html)
have the numbers of a real decision. Each picture has few colours, which keeps a file below 100 KB.
"""

import shutil
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from jinja2 import Environment
from PIL import Image
from playwright.sync_api import Page, sync_playwright

from stream_dedup.dedup.decider import Decider
from stream_dedup.news.decode import Decoder
from stream_dedup.news.item import Item
from stream_dedup.settings import load_settings
from stream_dedup.tools.demo.newsroom import sample_records
from stream_dedup.tools.marks import compare_items
from stream_dedup.tools.report import Report
from tests.observe.watched import Watched

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SIZE = {"width": 1000, "height": 720}
SCHEMES = ("light", "dark")
_COLOURS = 64
_STEP = 100  # items of a batch
# A pair with few differences, which is what most held-back items look like. The report begins with the doubtful ones;
# the last ones would show the empty end of the page.
_SHOW_PAIR = """() => {
    const pairs = [...document.querySelectorAll("#held details.one")].reverse().slice(5)
    const one = pairs.find(each => [2, 3].includes(each.querySelectorAll("mark").length))
    for (const each of pairs) each.open = each === one
    for (let fold = one.parentElement.closest("details"); fold; fold = fold.parentElement.closest("details"))
        fold.open = true
    one.scrollIntoView()
}"""


def make(folder: Path, program: str) -> list[Path]:
    """Write all pictures into a folder; return their paths. `program`: the browser."""
    with Watched() as worker, sync_playwright() as playwright, tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.html"
        decode, shown = Decoder(worker.settings.item), Report(worker.settings, report, "news.jsonl")
        records = enumerate(sample_records(3000, 7))
        items: list[Any] = [decode(value, key, 1_700_000_000_000 + n * 600, 0, n) for n, (key, value) in records]
        for start in range(0, len(items), _STEP):
            batch = items[start : start + _STEP]
            shown.add(batch, worker.judge(batch, lag={0: max(0, 400 - start)}), lambda _, line: f"news.jsonl:{line}")
        report.write_text(shown.html(), "utf-8")
        drawn = Path(scratch) / "drawn.html"
        drawn.write_text(_drawn(), "utf-8")
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        made = []
        for scheme in SCHEMES:
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.goto(worker.url)
            made.append(_write(page, folder / f"page-{scheme}.png"))
            page.goto(report.as_uri())
            page.evaluate(_SHOW_PAIR)
            made.append(_write(page, folder / f"report-{scheme}.png"))
            page.goto(drawn.as_uri())
            made += [_write(page, folder / f"{name}-{scheme}.png", f"#{name}") for name in ("topology", "decision")]
        browser.close()
    return made


_KNOWN = (
    "The bridge over the Elm opened again on Monday after eight months of repairs. The council paid 4 million for new "
    "bearings and a wider path for bicycles. Buses take the old route from Tuesday, and the ferry stops this week."
)
_LATER = (
    f"Read more on our site. {_KNOWN.partition(', and the ferry')[0]}.",
    _KNOWN.replace("4 million", "6 million"),
)


def _drawn() -> str:
    """The page of drawings: a text that repeats a known one, and one with another figure, as the defaults decide."""
    items = [
        Item(str(n), "Elm bridge opens again", text, f"{n}.example", 1_700_000_000_000 + n)
        for n, text in enumerate((_KNOWN, *_LATER))
    ]
    with Decider(load_settings()) as dedup:
        verdicts = dedup.judge(items).verdicts
    later = [
        (item.title, compare_items(items[0], item)[1].sides()[1], one)
        for item, one in zip(items[1:], verdicts[1:], strict=True)
    ]
    assert [verdict.forward for _, _, verdict in later] == [False, True], "one is held back, the other goes out"
    page = Environment(autoescape=True).from_string(Path(__file__).with_name("drawn.html").read_text("utf-8"))
    return page.render(known=items[0], later=later, threshold=f"{load_settings().decision.threshold:.2f}")


def _write(page: Page, path: Path, only: str = "html") -> Path:
    """Write the window, or only an element."""
    shot = page.screenshot() if only == "html" else page.locator(only).screenshot()
    image = Image.open(BytesIO(shot)).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
    return path


if __name__ == "__main__":
    for path in make(FOLDER, shutil.which("chromium") or "chromium"):
        print(path, path.stat().st_size)
