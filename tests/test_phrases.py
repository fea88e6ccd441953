"""Commands in messages can be run as they stand."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from stream_dedup import phrases


@pytest.mark.parametrize(
    ("origin", "source"),
    [
        ('{"url": "file://FOLDER/a%20clone", "dir_info": {"editable": true}}', "--editable 'FOLDER/a clone[report]'"),
        ('{"url": "file://FOLDER/a%20clone", "dir_info": {}}', "'FOLDER/a clone[report]'"),
        ('{"url": "file://FOLDER/gone.whl", "archive_info": {}}', "'PATH-OF-CLONE-OR-WHEEL[report]'"),
        ('{"url": "https://me:password@git.example/x.whl"}', "'PATH-OF-CLONE-OR-WHEEL[report]'"),
        (None, "'PATH-OF-CLONE-OR-WHEEL[report]'"),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came(
    origin: str | None, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a clone").mkdir()
    text = origin and origin.replace("FOLDER", str(tmp_path))
    monkeypatch.setattr(phrases, "distribution", lambda _: SimpleNamespace(read_text=lambda _: text))
    expected = f"{sys.executable} -m pip install {source.replace('FOLDER', str(tmp_path))}"
    assert phrases.install_command("report") == expected


def test_no_message_names_an_index_that_lacks_the_package() -> None:
    root = Path(phrases.__file__).parent
    assert not [path for path in root.rglob("*.py") if "stream-dedup[" in path.read_text("utf-8")]
