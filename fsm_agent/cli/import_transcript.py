"""``fsm-agent import``: the transcript of another agent as a log from which a run can go on."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from .places import LOGS_HELP
from .problems import FAILED, Problem
from .run import DEFAULT_MODEL


@click.command(
    epilog="Examples: fsm-agent import session.jsonl; fsm-agent import session.jsonl -o mine.jsonl --model claude-sonnet-5-5"
)
@click.argument("transcript", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="LOG", help=f"The new log.  [default: one in {LOGS_HELP}]"
)
@click.option("--model", metavar="NAME", help="The model to go on with.  [default: the one that replied last]")
def command(transcript: Path, output: Path | None, model: str | None) -> int:
    """Make a log from a session transcript (JSON lines) or a stream-json capture of a coding agent.

    Calls and results are paired, thinking without a signature and what sub-agents said are left out; each such thing is
    told. The log holds no run yet: the next prompt goes on from the conversation.
    """
    from ..core.config import ConfigError, LoopConfig
    from ..core.state import initial
    from ..log.journal import Journal
    from ..log.transcripts import TranscriptError, import_transcript
    from ..session.agent import new_id
    from ..session.assemble import with_models
    from .console import say
    from .places import log_folder

    try:
        read = import_transcript(transcript)
    except TranscriptError as error:
        raise Problem(str(error), FAILED) from None
    except OSError as error:
        raise Problem(f"{error.filename or transcript}: {error.strerror}") from None
    name = model or read.model or DEFAULT_MODEL
    session, run = new_id(), new_id()
    place = log_folder() / session / f"{run}.jsonl" if output is None else output
    try:
        config = with_models(LoopConfig(model=name))
        journal = Journal.create(place, config, initial(config, read.messages), session, run)
    except ConfigError as error:
        raise Problem(str(error)) from None
    except FileExistsError:
        raise Problem(f"{place}: there is a file already; a log is never overwritten") from None
    except OSError as error:
        raise Problem(f"{error.filename or place}: {error.strerror}") from None
    journal.release()
    for note in read.notes:
        say(note)
    size = sum(message.tokens for message in read.messages)
    click.echo(f"{place}")
    click.echo(f"{len(read.messages)} messages, about {size:,} tokens, {name}")
    click.echo(f"go on: fsm-agent run --resume {shlex.quote(str(place))} 'your next prompt'")
    return 0
