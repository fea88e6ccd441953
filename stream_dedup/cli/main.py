"""`stream-dedup`: the commands, and the one place where an error becomes a line and an exit code.

Exit codes: 0 done; 1 the work failed (input, changelog, topics, broker); 2 wrong usage or settings;
130 interrupted. Errors of ours print one line, never a traceback; a bug prints its traceback. Where the log is JSON
both are lines of the log.
"""

import logging
import sys

import typer

from stream_dedup.cli.common import version_text
from stream_dedup.cli.lazy import Late, late_group
from stream_dedup.errors import ConfigError, StreamDedupError
from stream_dedup.observe import logs

log = logging.getLogger(__name__)

# A new command is a line here: where it is, and its line of help, which is the first line of its own. Nothing of it is
# imported before it is used: each command's module, in turn, imports at its top only what its options need.
COMMANDS = {
    "run": Late("run:run_command", "Run the worker on Kafka, until SIGTERM or Ctrl-C."),
    "demo": Late("demo:demo_command", "See it work: a feed, the worker, what is held back and why."),
    "feed": Late("demo:feed_command", "Send a made-up feed to the input topic, to try a stack out."),
    "check": Late("check:check_command", "Show what is understood of a feed, before it is judged."),
    "trial": Late("trial:trial_command", "Show what would be held back of a live topic; writes nothing."),
    "filter": Late("filter:filter_command", "Hold back near-duplicates in files and pipes."),
    "pairs": Late("pairs:pairs_command", "Find all near-duplicate pairs and clusters of a corpus."),
    "explain": Late("explain:explain_command", "Explain one decision: two items, the numbers, and why."),
    "evaluate": Late("evaluate:evaluate_command", "Measure the decision on your own corpus and labels."),
    "sample": Late("sample:sample_command", "Label borderline decisions, and know your own precision."),
    "plan": Late("plan:plan_command", "Plan the index: recall, memory, and the settings to paste."),
    "migrate": Late("migrate:migrate_command", "Build the memory of new [fingerprint] settings."),
    "health": Late("health:health_command", "Ask a running worker how it is."),
    "warm": Late("warm:warm_command", "Compile all kernels, so that the first start need not."),
    "topics": Late("topics:topics_app", "Make and check the topics."),
    "state": Late("state:state_app", "Look at what a changelog or a directory remembers."),
    "config": Late("config:config_app", "What is set, from where, and what could be."),
    "weights": Late("weights:weights_app", "Tables of how rare a feature is, for SimHash."),
}

app = typer.Typer(
    name="stream-dedup",
    cls=late_group(COMMANDS),
    help="Holds back near-duplicate news: on Kafka exactly once, or on files. "
    "Exit codes: 0 done, 1 the work failed, 2 wrong usage or settings, 130 interrupted.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=True,
)


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
    from rich.console import Console  # only where there is something to complain of

    Console(emoji=False, stderr=True, highlight=False).print(
        "error:", str(error), style=None, markup=False, soft_wrap=True
    )
