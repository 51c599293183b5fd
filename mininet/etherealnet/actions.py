"""What `ethereal run` asks Mininet to do: end and start processes.

Each connection to a UNIX socket brings one order, a line of JSON such as
{"do": "node-down", "name": "core0"}, and takes one answer, {"error": ""}.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import time
from typing import Any, Callable

LIMIT = 4096  # bytes of an order


class ActionServer:
    """Answers orders while another process runs.

    It works in the thread that calls it: processes that are to die with this one
    must be started by its main thread."""

    def __init__(self, path: str, act: Callable[[str, str], None]) -> None:
        self.act = act
        if os.path.exists(path):
            os.remove(path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        os.chmod(path, 0o600)
        self.listener.listen()

    def serve_while(self, process: "subprocess.Popen[Any]") -> int:
        """Serves until the process ends, and returns its exit code."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            while process.poll() is None:
                if selector.select(timeout=0.1):
                    connection, _ = self.listener.accept()
                    with connection:
                        self.answer(connection)
        return process.returncode

    def answer(self, connection: socket.socket) -> None:
        """Carries out one order."""
        connection.settimeout(5)
        error = ""
        try:
            line = connection.makefile("rb").readline(LIMIT)
            order = json.loads(line)
            self.act(order["do"], order.get("name", ""))
        except Exception as err:  # pylint: disable=broad-exception-caught
            error = f"{type(err).__name__}: {err}"
        try:
            connection.sendall(json.dumps({"error": error}).encode() + b"\n")
        except OSError:
            pass  # who asked has gone

    def close(self) -> None:
        """Ends it."""
        self.listener.close()


def wait_until(what: str, ready: Callable[[], bool], timeout: float) -> None:
    """Polls until something is so."""
    deadline = time.monotonic() + timeout
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {timeout:.0f} s: {what}")
        time.sleep(0.05)
