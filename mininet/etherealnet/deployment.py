"""What a running fabric consists of: its folder, addresses and processes.

Every process and interface is written to a file before it is used, so that
clean() finds what a crash left behind. It ends processes by number, and only if
they started when the file says: nothing is ended by its name.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from typing import Any, Dict, IO, List, Optional, Sequence

from .fabric import Fabric, load, of_scenarios

DEFAULT_DIR = "/run/ethereal-mininet"
FILE_NAME = "deployment.json"  # by which commands find a fabric in DEFAULT_DIR

_PR_SET_PDEATHSIG = 1


class DeploymentError(Exception):
    """The fabric cannot be brought up."""


def _start_time(pid: int) -> Optional[int]:
    """When a process started, in the kernel's ticks, or None if there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            text = f.read()
    except OSError:
        return None
    # The name, in parentheses, may hold anything.
    fields = text[text.rindex(")") + 2:].split()
    return None if fields[0] in ("Z", "X") else int(fields[19])


def _namespace() -> int:
    """The number of this process's network namespace. A run of its own namespace,
    whose interfaces went with it, must not cost another run its namesakes."""
    return os.stat("/proc/self/ns/net").st_ino


def _die_with_parent() -> None:
    """Makes the kernel end this process when its parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Process:
    """A process of the deployment, with its log."""

    def __init__(self, name: str, popen: "subprocess.Popen[bytes]", log: str) -> None:
        self.name, self.popen, self.log = name, popen, log
        self.stopped = False  # by us

    def alive(self) -> bool:
        """Whether it runs."""
        return self.popen.poll() is None

    def check(self) -> None:
        """Raises if it has ended."""
        code = self.popen.poll()
        if code is not None:
            raise DeploymentError(f"{self.name} ended with {code}; the ends of its log {self.log}:\n{ends(self.log)}")

    def wait_for(self, text: str, timeout: float) -> None:
        """Waits until the log has text."""
        deadline = time.monotonic() + timeout
        while True:
            with open(self.log, encoding="utf-8", errors="replace") as f:
                if text in f.read():
                    return
            self.check()
            if time.monotonic() > deadline:
                raise DeploymentError(f"{self.name}: no {text!r} within {timeout:.0f} s:\n{ends(self.log)}")
            time.sleep(0.02)

    def stop(self, sig: int = signal.SIGTERM) -> None:
        """Ends it, by force if it takes more than five seconds."""
        self.stopped = True
        if self.alive():
            self.popen.send_signal(sig)
            try:
                self.popen.wait(5)
            except subprocess.TimeoutExpired:
                self.popen.kill()
        self.popen.wait()


def ends(path: str, lines: int = 8) -> str:
    """The first and the last lines of a file; programs print a wrong option first, and then their help."""
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.readlines()
    if len(text) > 2 * lines:
        text = text[:lines] + ["...\n"] + text[-lines:]
    return "".join(text).rstrip()


class Deployment:
    """The folder, addresses and processes of one fabric in Mininet."""

    def __init__(
        self,
        fabric_file: Optional[str],
        binary: str,
        directory: str = DEFAULT_DIR,
        bmv2: str = "simple_switch_grpc",
        port_base: int = 20000,
        scenarios: Sequence[str] = (),
    ) -> None:
        """Without a fabric file the fabric is that of the scenarios."""
        self.binary, self.bmv2 = binary, bmv2
        self.directory = os.path.abspath(directory)
        self._lock: Optional[IO[str]] = None
        if fabric_file is None:
            text = of_scenarios(binary, scenarios)
            self._lock = lock(directory)
            fabric_file = self.path("fabric.yaml")
            with open(fabric_file, "w", encoding="ascii") as f:
                f.write(text)
        self.fabric_file = os.path.abspath(fabric_file)
        self.port_base = port_base
        self.processes: List[Process] = []
        self._record: Optional[IO[str]] = None
        self._has_token = False
        self.fabric: Fabric = load(binary, self.fabric_file)

    # Addresses. Switches are in the root namespace and listen on its loopback.

    def p4runtime(self, node_id: int) -> str:
        """Where a switch serves P4Runtime."""
        return f"127.0.0.1:{self.port_base + node_id}"

    def thrift_port(self, node_id: int) -> int:
        """BMv2's Thrift port."""
        return self.port_base + 2000 + node_id

    def gnmi(self, node_id: int) -> str:
        """Where the sidecar of a switch serves gNMI."""
        return f"127.0.0.1:{self.port_base + 4000 + node_id}"

    @property
    def admin(self) -> str:
        """Where the controller serves its status."""
        return f"127.0.0.1:{self.port_base + 9999}"

    @property
    def agents(self) -> str:
        """The UNIX socket where hosts, each in its own namespace, find the controller."""
        return self.path("agents.sock")

    @property
    def token(self) -> str:
        """The file with the token that drains and cabling checks need."""
        return self.path("token")

    @property
    def view_secret(self) -> str:
        """The file with the secret of the path of the fabric's page."""
        return self.path("view.secret")

    def path(self, name: str) -> str:
        """A file of the deployment's folder."""
        return os.path.join(self.directory, name)

    # Life.

    def open(self) -> None:
        """Takes the folder, after cleaning up what a crash left in it."""
        if self._lock is None:
            self._lock = lock(self.directory)
        sweep(self.directory)
        self._record = open(self.path("record.jsonl"), "w", encoding="utf-8")  # pylint: disable=consider-using-with

    def record(self, **what: Any) -> None:
        """Notes what must be gone when all is over."""
        if self._record is None:
            self.open()
        assert self._record is not None
        self._record.write(json.dumps(what) + "\n")
        self._record.flush()

    def record_pid(self, pid: int) -> None:
        """Notes a process."""
        self.record(pid=pid, start=_start_time(pid))

    def record_interface(self, name: str) -> None:
        """Notes an interface of this network namespace."""
        self.record(interface=name, namespace=_namespace())

    def spawn(
        self, name: str, argv: Sequence[str], namespace: Optional[int] = None, pass_fds: Sequence[int] = ()
    ) -> Process:
        """Starts a process, in the network namespace of process `namespace` if
        there is one, with its output in NAME.log."""
        if self._record is None:
            self.open()
        log = self.path(name + ".log")
        prefix = [] if namespace is None else ["mnexec", "-a", str(namespace)]
        with open(log, "wb") as out:
            popen = subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
                [*prefix, *argv], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True, preexec_fn=_die_with_parent, pass_fds=pass_fds,
            )
        self.record_pid(popen.pid)
        process = Process(name, popen, log)
        self.processes.append(process)
        return process

    def check_processes(self) -> None:
        """Raises if one has ended that was not to."""
        for p in self.processes:
            if not p.stopped:
                p.check()

    def stop_processes(self) -> None:
        """Ends all processes that spawn() started."""
        for p in reversed(self.processes):
            if p.alive():
                p.popen.terminate()
        for p in reversed(self.processes):
            p.stop()
        self.processes = []

    def close(self) -> None:
        """Ends all processes and removes what they left."""
        self.stop_processes()
        if self._record is not None:
            self._record.close()
            self._record = None
            sweep(self.directory)
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    # Files.

    def write_view_secret(self) -> str:
        """Makes the secret of the page's path, and returns it."""
        secret = secrets.token_hex(16)
        with open(self.view_secret, "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(secret + "\n")
        return secret

    def write_token(self) -> str:
        """Makes the token for drains, once: `ethereal run` has read it when the controller is started again."""
        if self._has_token:
            return self.token
        with open(self.token, "w", encoding="ascii", opener=lambda p, f: os.open(p, f, 0o600)) as f:
            f.write(secrets.token_hex(16) + "\n")
        self._has_token = True
        return self.token

    def commands(self, link: str) -> str:
        """What to enter in another terminal. Commands find the fabric in the default folder by themselves."""
        if self.directory == DEFAULT_DIR:
            return f"{self.binary} status, verify, preflight, probe, drain {link}"
        admin = f"--admin {self.admin} --admin-token-file {self.token}"
        files = f"--fabric {self.fabric_file} --targets {self.path('targets.yaml')}"
        sockets = f"--fabric {self.fabric_file} --socket unix:{self.path('{host}.sock')}"
        lines = [f"status --admin {self.admin}", f"verify {files}", f"preflight {files} {admin}", f"probe {sockets}",
                 f"drain {link} {admin}"]
        return "".join(f"\n  {self.binary} {x}" for x in lines)

    def write_deployment(self, hosts: List[str], interface: str) -> str:
        """Writes what `ethereal run --deployment` reads, and returns the file's path."""
        doc = {
            "fabric": self.fabric_file, "targets": self.path("targets.yaml"), "hosts": hosts, "admin": self.admin,
            "admin_token_file": self.token, "event_log": self.path("events.jsonl"),
            "control": self.path("control.sock"), "interface": interface,
        }
        path = self.path(FILE_NAME)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(doc, f, indent=1)
        return path

    def agent(self, host: str) -> str:
        """The UNIX socket of a host's status."""
        return self.path(host + ".admin.sock")

    def write_targets(self, switch: Any, tables: Optional[Dict[str, Any]] = None) -> str:
        """Writes the controller's targets and returns the file's path. switch is the switches' class."""
        switches = {}
        for n in self.fabric.switches:
            target: Dict[str, Any] = {
                "p4runtime": self.p4runtime(n.id), "device_id": n.device_id, "profile": switch.kind,
            }
            if switch.sidecar:
                target["gnmi"] = self.gnmi(n.id)
            switches[n.name] = target
        hosts = {n.name: {"admin": "unix:" + self.agent(n.name)} for n in self.fabric.hosts}
        # A probe and its answer pass through some ten processes that share the cores: on a busy machine each can wait
        # for 100 ms, and each drops what exceeds its buffers. Only lost probes take the whole time.
        suspicion = {"probe_timeout": "2s", "probe_every": "50ms", "trials": 4}
        doc: Dict[str, Any] = {"switches": switches, "hosts": hosts, "suspicion": suspicion}
        if tables:
            doc["tables"] = tables
        path = self.path("targets.yaml")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(doc, f, indent=1)  # JSON is YAML
        return path


def lock(directory: str) -> IO[str]:
    """Takes a folder; whoever ends, by a crash too, gives it back."""
    os.makedirs(directory, mode=0o755, exist_ok=True)
    held = open(os.path.join(directory, "lock"), "w", encoding="ascii")  # pylint: disable=consider-using-with
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as err:
        held.close()
        raise DeploymentError(f"{directory} is in use; end the other run, or give another --dir") from err
    return held


def clean(directory: str) -> List[str]:
    """Removes what a run that crashed left behind, and says what that was."""
    if not os.path.exists(os.path.join(directory, "record.jsonl")):
        return []
    with lock(directory):
        return sweep(directory)


def sweep(directory: str) -> List[str]:
    """Ends the processes and removes the interfaces in a folder's record, and the
    file by which commands find the fabric. It returns what was left to do."""
    path = os.path.join(directory, "record.jsonl")
    try:
        os.remove(os.path.join(directory, FILE_NAME))
    except FileNotFoundError:
        pass
    done: List[str] = []
    try:
        with open(path, encoding="utf-8") as f:
            lines = f.read().splitlines()
    except FileNotFoundError:
        return done
    pids, interfaces = [], []
    for line in lines:
        try:
            what = json.loads(line)
        except ValueError:
            continue  # the crash cut it off
        if "pid" in what and what["start"] is not None and _start_time(what["pid"]) == what["start"]:
            pids.append((what["pid"], what["start"]))
        if "interface" in what and what.get("namespace", _namespace()) == _namespace():
            interfaces.append(what["interface"])
    for sig, patience in ((signal.SIGTERM, 3.0), (signal.SIGKILL, 3.0)):
        for pid, start in pids:
            if _start_time(pid) == start:
                done.append(f"process {pid}")
                try:
                    os.kill(pid, sig)
                except ProcessLookupError:
                    pass
        deadline = time.monotonic() + patience
        while any(_start_time(pid) == start for pid, start in pids) and time.monotonic() < deadline:
            time.sleep(0.02)
    for name in interfaces:
        if os.path.exists(f"/sys/class/net/{name}"):
            done.append(f"interface {name}")
            subprocess.run(["ip", "link", "del", name], check=False, capture_output=True)
    os.remove(path)
    return done


def find_binary(given: Optional[str]) -> str:
    """The ethereal binary: as given, in $ETHEREAL, beside this folder, or on
    the path."""
    here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for candidate in (given, os.environ.get("ETHEREAL"), os.path.join(here, "bin", "ethereal")):
        if candidate and os.access(candidate, os.X_OK):
            return os.path.abspath(candidate)
    found = shutil.which("ethereal")
    if found is None:
        raise DeploymentError("there is no ethereal binary; build it with `make`")
    return found


def find_bmv2(given: Optional[str]) -> str:
    """BMv2's binary: as given, in $BMV2, or on the path."""
    name = given or os.environ.get("BMV2") or "simple_switch_grpc"
    found = shutil.which(name)
    if found is None:
        raise DeploymentError(
            f"there is no {name}: install BMv2 (docs/guide/mininet.md, step 3) and put its path into BMV2, "
            "under sudo as in `sudo BMV2=FILE ...`, or use the Go switch, --switch go"
        )
    return found
