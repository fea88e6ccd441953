"""`stream-dedup`: the commands, and the one place where an error becomes a line and an exit code.

Exit codes: 0 done; 1 the work failed (input, changelog, topics, broker); 2 wrong usage or settings;
130 interrupted. Errors of ours print one line, never a traceback; a bug prints its traceback. Where the log is JSON
both are lines of the log.
"""

import logging
import sys

import typer
from rich.console import Console

from stream_dedup.cli.check import check_command
from stream_dedup.cli.common import version_text
from stream_dedup.cli.config import config_app
from stream_dedup.cli.demo import demo_command, feed_command
from stream_dedup.cli.evaluate import evaluate_command
from stream_dedup.cli.explain import explain_command
from stream_dedup.cli.filter import filter_command
from stream_dedup.cli.health import health_command
from stream_dedup.cli.migrate import migrate_command
from stream_dedup.cli.pairs import pairs_command
from stream_dedup.cli.plan import plan_command
from stream_dedup.cli.run import run_command
from stream_dedup.cli.sample import sample_command
from stream_dedup.cli.state import state_app
from stream_dedup.cli.topics import topics_app
from stream_dedup.cli.trial import trial_command
from stream_dedup.cli.warm import warm_command
from stream_dedup.cli.weights import weights_app
from stream_dedup.errors import ConfigError, StreamDedupError
from stream_dedup.observe import logs

log = logging.getLogger(__name__)

app = typer.Typer(
    name="stream-dedup",
    help="Holds back near-duplicate news: on Kafka exactly once, or on files. "
    "Exit codes: 0 done, 1 the work failed, 2 wrong usage or settings, 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)
app.command("run")(run_command)
app.command("demo")(demo_command)
app.command("feed")(feed_command)
app.command("check")(check_command)
app.command("trial")(trial_command)
app.command("filter")(filter_command)
app.command("pairs")(pairs_command)
app.command("explain")(explain_command)
app.command("evaluate")(evaluate_command)
app.command("sample")(sample_command)
app.command("plan")(plan_command)
app.command("migrate")(migrate_command)
app.command("health")(health_command)
app.command("warm")(warm_command)
app.add_typer(topics_app, name="topics")
app.add_typer(state_app, name="state")
app.add_typer(config_app, name="config")
app.add_typer(weights_app, name="weights")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(version_text())
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Log what the worker and the client do."),
) -> None:
    logs.set_up("text")  # `run` chooses by its settings
    logging.getLogger().setLevel(logging.INFO if verbose else logging.WARNING)
    # The client logs every reconnect as a warning; ours say what matters of it.
    logging.getLogger("kafka").setLevel(logging.WARNING if verbose else logging.CRITICAL)
    logging.getLogger("stream_dedup").setLevel(logging.INFO)


def main() -> None:
    """Console entry point."""
    try:
        app()
    except ConfigError as error:
        _complain(error)
        sys.exit(2)
    except StreamDedupError as error:
        _complain(error)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception:
        if not logs.machine_readable():
            raise
        log.critical("the program failed; this is a bug, please report it", exc_info=True)
        sys.exit(1)


def _complain(error: StreamDedupError) -> None:
    if logs.machine_readable():
        log.critical("%s", error, extra={"kind": type(error).__name__})
        return
    Console(stderr=True, highlight=False).print("error:", str(error), style=None, markup=False, soft_wrap=True)
