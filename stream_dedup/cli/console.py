"""The console of the commands: rich's, for text of strangers.

It prints text as it is: no markup (`[red]`, `[link=...]`), no names of emoji, and control characters escaped.
"""

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from stream_dedup.observe.logs import escape_controls


class CleanConsole(Console):
    """Escapes what is rendered, and writes past the stream that would also escape rich's own codes."""

    def __init__(self, *, stderr: bool = False, **options: Any) -> None:
        stream = sys.stderr if stderr else sys.stdout
        file = getattr(stream, "uncleaned", stream)
        super().__init__(file=file, stderr=stderr, markup=False, emoji=False, highlight=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_controls(segment.text), segment.style)


def warn(console: Console, text: str, *, soft_wrap: bool = True) -> None:
    """Print a warning."""
    console.print(Text.assemble(("warning:", "bold yellow"), f" {text}"), soft_wrap=soft_wrap)
