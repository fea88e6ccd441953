"""Make the pictures of the pages, light and dark, from the demo's made-up feed: `python -m tests.observe.pictures`.

They show what a browser shows of the real page and the real report, so nobody draws them. Each has few colours, which
keeps a file below 100 KB.
"""

import shutil
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from stream_dedup.news.decode import Decoder
from stream_dedup.tools.demo.newsroom import sample_records
from stream_dedup.tools.report import Report
from tests.observe.watched import Watched

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
SIZE = {"width": 1000, "height": 720}
SCHEMES = ("light", "dark")
_COLOURS = 64
_STEP = 100  # items of a batch
# A pair with few differences, which is what most held-back items look like; the report begins with the doubtful ones.
_SHOW_PAIR = """() => {
    const pairs = [...document.querySelectorAll("#held details.one")].reverse()
    const one = pairs.find(each => [3, 4, 5, 6].includes(each.querySelectorAll("mark").length))
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
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        made = []
        for scheme in SCHEMES:
            page = browser.new_page(viewport=SIZE, color_scheme=scheme)
            page.goto(worker.url)
            made.append(_write(page, folder / f"page-{scheme}.png"))
            page.goto(report.as_uri())
            page.evaluate(_SHOW_PAIR)
            made.append(_write(page, folder / f"report-{scheme}.png"))
        browser.close()
    return made


def _write(page: Page, path: Path) -> Path:
    image = Image.open(BytesIO(page.screenshot())).convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE)
    image.save(path, optimize=True)
    return path


if __name__ == "__main__":
    for path in make(FOLDER, shutil.which("chromium") or "chromium"):
        print(path, path.stat().st_size)
