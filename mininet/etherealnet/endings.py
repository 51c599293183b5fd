"""Ending on a signal."""

import signal
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Ended(BaseException):
    """A signal asks this program to end. After a KeyboardInterrupt Mininet's command
    line goes on."""


def ignore_signals() -> None:
    """Lets nothing interrupt what follows."""
    for s in SIGNALS:
        signal.signal(s, signal.SIG_IGN)


def end_on_signals() -> None:
    """Makes the first signal an exception, Ended, and ignores those after it. The
    kernel sends the signal of a parent's death once for each of its threads that
    ends, and a terminal's Ctrl-C comes from the terminal and from the parent: a
    second exception, in the midst of taking down, would leave the rest standing."""
    for s in SIGNALS:
        signal.signal(s, _ended)


def _ended(signum: int, _frame: Any) -> None:
    ignore_signals()
    raise Ended(signal.Signals(signum).name)
