"""The exit code of the command, by the error that ends it."""

import pytest

from stream_dedup.cli import main
from stream_dedup.errors import ConfigError, InputError, StreamError, UsageError


@pytest.mark.parametrize(
    ("error", "code"),
    [(ConfigError, 2), (UsageError, 2), (InputError, 1), (StreamError, 1), (KeyboardInterrupt, 130)],
)
def test_wrong_usage_and_settings_exit_with_2_and_failures_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: type[BaseException], code: int
) -> None:
    def fail() -> None:
        raise error("a cause and a cure")

    monkeypatch.setattr(main, "app", fail)
    monkeypatch.setattr(main.logs, "machine_readable", lambda: False)
    with pytest.raises(SystemExit) as caught:
        main.main()
    assert caught.value.code == code
    assert capsys.readouterr().err == ("error: a cause and a cure\n" if code < 130 else "")
