"""`stream-dedup`: the list of commands, and the only place that turns an error into a message and an exit code.

The list imports no command, and a command imports what its work needs when it runs. So `--help`, `--version`, a TAB and
a health check load neither arrays nor the Kafka client, which take up to 1 s of CPU.

Exit codes: 0 done; 1 the work failed (input, changelog, topics, broker); 2 wrong usage or settings; 130 interrupted.
An error of this project prints one line without a traceback; a bug prints its traceback. If the log is JSON, both are
log records.
"""

import errno
import logging
import os
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import click

from stream_dedup.cli import command, tool
from stream_dedup.errors import ConfigError, StreamDedupError, UsageError
from stream_dedup.extras import EXTRAS, needed
from stream_dedup.observe import logs
from stream_dedup.observe.logs import CleanStream
from stream_dedup.phrases import scheme_text, version_text

log = logging.getLogger(__name__)


# Add a command here: what to import for it, as `module:name` in `stream_dedup` (for a group, its commands by name), and
# the first line of its own help.
COMMANDS = {
    "run": ("cli.operate:run_command", "Run the worker on Kafka, until SIGTERM or Ctrl-C."),
    "demo": ("tools.cli.demo:demo_command", "See it work: a feed, the worker, what it holds back and why."),
    "kafka": ("tools.cli.demo:kafka_command", "Run a real Kafka on this machine, to try things out."),
    "feed": ("tools.cli.demo:feed_command", "Send a synthetic feed to the input topic, to try out a stack."),
    "check": ("tools.cli.check:check_command", "Show what is understood of a feed, before it is judged."),
    "trial": ("tools.cli.trial:trial_command", "Show what a worker would hold back of a live topic."),
    "feeds": ("tools.cli.poll:feeds_command", "Poll RSS, Atom and JSON feeds for new and changed entries."),
    "filter": ("tools.cli.corpora:filter_command", "Hold back near-duplicates in files and pipes."),
    "pairs": ("tools.cli.corpora:pairs_command", "Find all near-duplicate pairs and clusters of a corpus."),
    "explain": ("tools.cli.compare:explain_command", "Explain one decision: two items, the numbers, and why."),
    "evaluate": ("tools.cli.measure:evaluate_command", "Measure the decision on your own corpus and labels."),
    "sample": ("tools.cli.measure:sample_command", "Label borderline decisions; find the threshold for your feed."),
    "plan": ("tools.cli.plan:plan_command", "Plan memory and recall."),
    "reset": ("tools.cli.groups:reset_command", "Begin anew in the same topics."),
    "send": ("tools.cli.send:send_command", "Send the items of files to the input topic."),
    "tail": ("tools.cli.groups:tail_command", "Print headlines and verdicts as they come."),
    "give-back": ("tools.cli.groups:give_back_command", "Let a held-back item out by hand."),
    "migrate": ("tools.cli.state:migrate_command", "Build the changelog of new [fingerprint] settings."),
    "health": ("cli.operate:health_command", "Ask a running worker for its health."),
    "topics": ("tools.cli.topics:topics_commands", "Create, check and mend the topics."),
    "groups": ("tools.cli.groups:groups_commands", "Show the group, and set where it reads on."),
    "state": ("tools.cli.state:state_commands", "Inspect and verify a changelog or state directory."),
    "config": ("tools.cli.config:config_commands", "Show the settings in force and the references."),
}


class OrderedGroup(click.Group):
    """A group that lists its commands in their order."""

    def list_commands(self, _: click.Context) -> list[str]:
        return list(self.commands)


class LazyGroup(OrderedGroup):
    """A group that lists its commands without importing them, and imports one when it is run or asked for its help."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Import and return the command that these arguments name."""
        name, listed, rest = super().resolve_command(ctx, args)
        return name, listed if name is None else self.load(name), rest

    def load(self, name: str) -> click.Command:
        """Import and return the command or group of this name."""
        target, help = COMMANDS[name]
        found = tool(target)
        if isinstance(found, dict):
            return OrderedGroup(name, [command(*own) for own in found.items()], help=help)
        return command(name, found)


def _print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"stream-dedup, scheme {scheme_text()}, version {version_text()}")
        context.exit()


def _set_up_logs(verbose: bool) -> None:
    logs.set_up("text")  # `run` sets it up again for where stderr goes
    logging.getLogger().setLevel(logging.INFO if verbose else logging.WARNING)
    # The client logs every reconnect as a warning; our own records report outages.
    logging.getLogger("kafka").setLevel(logging.WARNING if verbose else logging.CRITICAL)
    logging.getLogger("stream_dedup").setLevel(logging.INFO)


app = LazyGroup(
    "stream-dedup",
    [click.Command(name, help=help) for name, (_, help) in COMMANDS.items()],  # `load` replaces them
    callback=_set_up_logs,
    help="Holds back near-duplicate news: on Kafka exactly once, or on files. "
    "Exit codes: 0 done, 1 the work failed, 2 wrong usage or settings, 130 interrupted.",
    params=[
        click.Option(
            ["--version"], is_flag=True, is_eager=True, expose_value=False, callback=_print_version,
            help="Print version and scheme.",
        ),
        click.Option(["--verbose", "-v"], is_flag=True, help="Also log what the Kafka client does."),
    ],
    context_settings={"show_default": True},
)  # fmt: skip


_NO_MEMORY = (
    "out of memory or threads. {}Give the process more memory (`stream-dedup plan --per-day N` says how much), or set "
    "a lower [worker] memory or [window] length. If there is enough, raise the limit of threads (ulimit -u, the "
    "container's pids limit)"
)
_RESTARTS = {
    "run": "Nothing is lost, and a restart goes on where the last commit ended. ",
    "filter": "Its outputs are not complete: run it again, which begins anew. ",
    "filter --state": "Nothing is lost, and the same command goes on where the last commit ended. ",
    "feeds --state": "Nothing is lost, and the same command goes on where it stopped. ",
    "pairs": "Its outputs are not complete: run it again, which begins anew. ",
}
"""What a restart of a command does, by command and option. Other commands keep nothing."""


def exit_code(error: type[StreamDedupError]) -> int:
    """Return the exit code of a command that this error ends.

    >>> exit_code(ConfigError), exit_code(StreamDedupError)
    (2, 1)
    """
    return 2 if issubclass(error, (ConfigError, UsageError)) else 1


def _is_shortage(error: BaseException | None) -> bool:
    """Return whether the system has refused memory or a thread, here or where the error comes from."""
    while error is not None:
        is_memory = isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM)
        if is_memory or "can't start new thread" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _report_failure(program: str, error: BaseException | None, print_traceback: Callable[[], object]) -> None:
    """Report an error that has no message for people: too little memory, or a bug."""
    if _is_shortage(error):
        _report_error(StreamDedupError(_NO_MEMORY.format(_restart(sys.argv[1:]))))
    elif logs.machine_readable():
        log.critical("%s failed; this is a bug, please report it", program, exc_info=error)
    else:
        print_traceback()


def main() -> None:
    """Run a command; the console entry point. Nothing that it prints can steer the terminal."""
    _open_standard_streams()
    with redirect_stdout(CleanStream(sys.stdout)), redirect_stderr(CleanStream(sys.stderr)):
        # For a thread that no caller waits for; the program goes on without it.
        threading.excepthook = lambda failed: _report_failure(
            "a thread", failed.exc_value, lambda: threading.__excepthook__(failed)
        )
        _run()


def _open_standard_streams() -> None:
    """Replace closed streams by /dev/null: the next file or socket would get the number, and what is printed."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))


def _run() -> None:
    try:
        sys.exit(app(standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except StreamDedupError as error:
        _report_error(error)
        sys.exit(exit_code(type(error)))
    except (KeyboardInterrupt, click.Abort):  # Ctrl-C; click's own
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name not in EXTRAS:
            raise
        _report_error(ConfigError(needed(error.name, "this command")))
        sys.exit(exit_code(ConfigError))
    except Exception as error:
        _report_failure("the program", error, traceback.print_exc)
        raise SystemExit(1) from error


def _restart(arguments: Sequence[str]) -> str:
    """Return the sentence on a restart of this command line; empty if it keeps nothing.

    >>> _restart(["filter", "a.jsonl", "--state=dir"])[:15], _restart(["filter", "a.jsonl"])[-13:], _restart(["plan"])
    ('Nothing is lost', 'begins anew. ', '')
    >>> _restart(["--verbose", "run"])[:15], _restart(["pairs", "--engine", "spark"])[-13:]
    ('Nothing is lost', 'begins anew. ')
    """
    command = next((name for name in arguments if name in COMMANDS), "")
    options = [f"{command} {argument.partition('=')[0]}" for argument in arguments]
    return next((_RESTARTS[name] for name in [*options, command] if name in _RESTARTS), "")


def _report_error(error: StreamDedupError) -> None:
    if logs.machine_readable():
        log.critical("%s", error, extra={"kind": type(error).__name__})
        return
    click.echo(f"error: {error}", err=True)
