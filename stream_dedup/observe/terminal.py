"""Escape control characters in what is printed and logged, so that foreign text cannot steer a terminal.

Headlines, ids and names of files, topics and settings are foreign text. A control character in it could rename the
window, rewrite earlier lines, or show a text in another order than it has. `escape_controls` is the one place that says
which characters those are. Everything a command prints passes it: standard output and standard error through a
`CleanStream`, consoles of rich (whose own codes must pass) in cli/console.py, log lines in logs.py. Outputs of data
(`--output -`) are written by file descriptor, and stay as they are.
"""

import re
from typing import Any

# C0 but tab and line feed, DEL, C1, separators of lines, marks of writing direction, unpaired surrogates.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escape_controls(text: str) -> str:
    r"""Show control characters as JSON escapes them; so JSON stays equal after parsing.

    >>> escape_controls("a\x1b[31m\tb\x9b1m \u202ec\n")
    'a\\u001b[31m\tb\\u009b1m \\u202ec\n'
    """
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class CleanStream:
    """A text stream with control characters escaped. `uncleaned`: the stream that it writes to."""

    def __init__(self, stream: Any) -> None:
        self.uncleaned = stream

    def write(self, text: str) -> int:
        self.uncleaned.write(escape_controls(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # its bytes would pass by
            raise AttributeError(name)
        return getattr(self.uncleaned, name)
