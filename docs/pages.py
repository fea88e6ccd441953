"""Make the pages of the repository a site: a hook of mkdocs (docs/mkdocs.yml), which takes pages of one folder only.

README.md and all pages that `nav` names keep their paths, so that their relative links work here and on a code host.
Files that they link (settings files, results, pictures) come along. A link to a folder or to code becomes its text,
because the site has neither. `Fenced` is for the reference that mkdocstrings makes (docs/api.md).
"""

import re
from pathlib import Path, PurePosixPath
from posixpath import normpath
from typing import Any

from griffe import Extension, Object
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

_PICTURE = re.compile(r'(?:src|srcset)="([^":]+)"')
_LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s:]+)(?:#[^)\s]*)?\)")


def paths_in(nav: Any) -> list[str]:
    """The pages of a navigation.

    >>> paths_in([{"Start": "README.md"}, {"Use it": [{"Files": "docs/files.md"}]}])
    ['README.md', 'docs/files.md']
    """
    if isinstance(nav, str):
        return [nav]
    return [path for entry in (nav.values() if isinstance(nav, dict) else nav) for path in paths_in(entry)]


def root(config: MkDocsConfig) -> Path:
    """The folder of the repository."""
    return Path(config.config_file_path).parents[1]


def target(page: str, link: str) -> str:
    """The path in the repository that a link of a page leads to.

    >>> target("docs/operating.md", "../deploy/README.md")
    'deploy/README.md'
    """
    return normpath(PurePosixPath(page).parent / link)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages, and what they link."""
    pages = paths_in(config.nav)
    pages += [f"docs/{path.name}" for path in root(config).glob("docs/*.md")]  # a page that nav lacks is a warning
    texts = {page: (root(config) / page).read_text("utf-8") for page in dict.fromkeys(pages)}
    linked = [
        target(page, link)
        for page, text in texts.items()
        for link in [*(link for _, link in _LINK.findall(text)), *_PICTURE.findall(text)]
    ]
    for path in dict.fromkeys([*pages, *linked]):
        if (root(config) / path).is_file() and (path in pages or not path.endswith((".md", ".py"))):
            files.append(File(path, str(root(config)), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Replace links to what exists, but is no part of the site, by their text."""

    def shown(link: re.Match[str]) -> str:
        path = target(page.file.src_uri, link[2])
        is_outside = (root(config) / path).exists() and files.get_file_from_path(path) is None
        return link[1] if is_outside else link[0]

    return _LINK.sub(shown, markdown)


class Fenced(Extension):
    """Show the examples of docstrings as code: in Markdown they would be prose, and their lists links."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Fence each paragraph that begins with a prompt."""
        if obj.docstring:
            paragraphs = obj.docstring.value.split("\n\n")
            obj.docstring.value = "\n\n".join(
                f"```pycon\n{text}\n```" if text.startswith(">>>") else text for text in paragraphs
            )
