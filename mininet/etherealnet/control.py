"""The controller, as Mininet starts one."""

from __future__ import annotations

import signal
import subprocess
import time
from typing import Any, Dict, List, Optional

from mininet.node import Controller

from .deployment import Deployment, DeploymentError, Process
from .switches import GoSwitch


class FabricController(Controller):  # type: ignore[misc]
    """``ethereal controller`` for all switches of the deployment."""

    def __init__(
        self, name: str, deployment: Optional[Deployment] = None, switch: Any = GoSwitch,
        tables: Optional[Dict[str, Any]] = None, options: Optional[List[str]] = None, view: Optional[int] = None,
        **params: Any
    ) -> None:
        assert deployment is not None
        self.deployment, self.switch, self.tables = deployment, switch, tables
        self.options = options or []
        self.view = view  # descriptor of a socket for the fabric's page
        if view is not None:
            self.options += ["--listen-view", f"fd:{view}", "--view-secret-file", deployment.view_secret]
        self.process: Optional[Process] = None
        super().__init__(name, **params)
        deployment.record_pid(self.pid)

    def checkListening(self) -> None:
        """Mininet asks with telnet whether an OpenFlow controller is there."""

    def start(self) -> None:
        """Writes the targets and starts the process."""
        d = self.deployment
        targets = d.write_targets(self.switch, self.tables)
        self.process = d.spawn("controller", [
            d.binary, "controller", "--fabric", d.fabric_file, "--targets", targets,
            "--listen-agents", "unix:" + d.agents,
            "--listen-admin", d.admin, "--admin-token-file", d.write_token(), "--settle", "10s",
            "--event-log", d.path("events.jsonl"), *self.options,
        ], pass_fds=() if self.view is None else (self.view,))

    def kill(self) -> None:
        """Ends the process as a crash would."""
        if self.process is None:
            raise DeploymentError("there is no controller")
        self.process.stop(signal.SIGKILL)
        self.process = None

    def stop(self, *args: Any, **kwargs: Any) -> None:
        """Ends the process; the switches go on forwarding."""
        if self.process is not None:
            self.process.stop()
            self.process = None

    def status(self) -> str:
        """What ``ethereal status`` says, or nothing while it cannot say."""
        done = subprocess.run(
            [self.deployment.binary, "status", "--admin", self.deployment.admin],
            check=False, capture_output=True, text=True,
        )
        return done.stdout if done.returncode == 0 else ""

    def wait_ready(self, timeout: float = 60.0) -> float:
        """Waits until all switches are programmed; returns how long it took."""
        begin = time.monotonic()
        while True:
            self.deployment.check_processes()
            if ", ready, " in self.status():
                return time.monotonic() - begin
            if time.monotonic() - begin > timeout:
                raise DeploymentError(f"the controller is not ready after {timeout:.0f} s:\n{self.status()}")
            time.sleep(0.1)
