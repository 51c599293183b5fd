"""What is looked at in each exercise of the p4lang tutorials: what its README
tells a reader to do once the solution runs, and what it says will be seen."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List

from .actions import wait_until
from .pings import ping_all

PATIENCE = 90.0  # s, for what takes one or two on a machine with nothing else to do

TCP_SERVER = "import socket; s = socket.create_server(('', 7000)); print('listens'); s.accept()"
TCP_CLIENT = "import socket, sys; socket.create_connection((sys.argv[1], 7000), 3)"
# 1.1 Mb/s, over a link that carries 0.5.
UDP_LOAD = """import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + 12
while time.monotonic() < end:
    s.sendto(b'x' * 1400, (sys.argv[1], 7000))
    time.sleep(0.01)
"""


class Failed(Exception):
    """An exercise does not do what its README says."""


class Program:
    """A program that runs, in a host or beside the switches, and what it prints."""

    def __init__(self, name: str, popen: "subprocess.Popen[bytes]", log: str) -> None:
        self.name, self.popen, self.log = name, popen, log

    def text(self) -> str:
        """What it has printed."""
        try:
            with open(self.log, encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""  # not yet there

    def found(self, pattern: str) -> List[str]:
        """All that matches a pattern in it."""
        return re.findall(pattern, self.text(), re.MULTILINE)

    def wait_for(self, pattern: str, count: int = 1) -> List[str]:
        """Waits until a pattern has matched so often."""
        try:
            wait_until(self.log, lambda: len(self.found(pattern)) >= count, PATIENCE)
        except TimeoutError as err:
            raise Failed(f"{self.name}: {len(self.found(pattern))} of {count} times {pattern!r} in {self.log}") from err
        return self.found(pattern)


class Lab:
    """The network of an exercise."""

    def __init__(self, net: Any, folder: str) -> None:
        self.net, self.folder = net, folder
        self.logs = 0

    def start(self, where: str, *argv: str, typed: str = "") -> Program:
        """Starts Python on a script of the exercise, or on `-c` and code: in a
        host, or beside the switches where that is no host's name."""
        self.logs += 1
        name = f"{where} {argv[0] if argv[0] != '-c' else 'python'}"
        log = os.path.join(self.folder, "logs", f"{self.logs}-{name.replace(' ', '-')}.log")
        source = log + ".in"
        with open(source, "w", encoding="ascii") as f:
            f.write(typed)
        popen = self.net[where].popen if where in self.net else subprocess.Popen
        with open(log, "wb") as out, open(source, "rb") as stdin:
            process = popen([sys.executable, "-u", *argv], cwd=self.folder, stdin=stdin, stdout=out,
                            stderr=subprocess.STDOUT)
        return Program(name, process, log)

    def run(self, where: str, *argv: str, typed: str = "") -> str:
        """Runs a script to its end and returns what it printed."""
        program = self.start(where, *argv, typed=typed)
        try:
            code = program.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired as err:
            raise Failed(f"{program.name} has not ended after {PATIENCE:.0f} s: {program.log}") from err
        if code != 0:
            raise Failed(f"{program.name} ended with {code}: {program.log}")
        return program.text()

    def listen(self, host: str) -> Program:
        """Starts a host's receive.py, and waits until it has its socket."""
        program = self.start(host, "receive.py")

        def has_socket() -> bool:
            with open(f"/proc/{self.net[host].pid}/net/packet", encoding="ascii") as f:
                return len(f.readlines()) > 1

        wait_until(f"{host} listens", has_socket, PATIENCE)
        return program

    def ping(self, host: str, address: str, count: int, must: bool = True) -> None:
        """A host pings an address, and must be answered."""
        wait = "5" if must else "1"  # s
        out, _, code = self.net[host].pexec(["ping", "-n", f"-c{count}", "-i0.3", "-W", wait, address])
        if must and code != 0:
            raise Failed(f"{host} does not reach {address}:\n{out}")

    def pings(self) -> str:
        """All pairs ping."""
        pairs = len(self.net.hosts) * (len(self.net.hosts) - 1)
        loss = ping_all(self.net)
        if loss:
            raise Failed(f"{loss:.0f} % of {pairs} pings are lost")
        return f"{pairs} pings"


def basic(lab: Lab) -> str:
    """Forwarding."""
    return lab.pings()


def basic_tunnel(lab: Lab) -> str:
    """A header of the reader's own decides where a packet goes, whatever its address."""
    pings = lab.pings()
    h2, h3 = lab.listen("h2"), lab.listen("h3")
    lab.run("h1", "send.py", "10.0.2.2", "plain")
    lab.run("h1", "send.py", "10.0.2.2", "tunnelled", "--dst_id", "2")
    lab.run("h1", "send.py", "10.0.3.3", "diverted", "--dst_id", "2")
    for message in ("plain", "tunnelled", "diverted"):
        h2.wait_for(message)
    if h3.found("diverted"):
        raise Failed("what was tunnelled to h2 came to h3")
    return pings + ", tunnelled messages arrive where the tunnel leads"


def calc(lab: Lab) -> str:
    """The switch calculates."""
    sums = {"1+2": 3, "7-3": 4, "6&3": 2, "6|3": 7, "6^3": 5}
    out = lab.run("h1", "calc.py", typed="\n".join([*sums, "quit", ""]))
    for text, result in sums.items():
        if f"{text}\n{result}\n" not in out:
            raise Failed(f"{text} is not {result}:\n{out}")
    return f"{len(sums)} calculations"


def ecn(lab: Lab) -> str:
    """A queue marks packets; the link that has one carries 0.5 Mb/s."""
    pings = lab.pings()
    h2 = lab.listen("h2")
    lab.run("h1", "send.py", "10.0.2.2", "P4 is cool", "2")
    h2.wait_for(r"tos += 0x1$", 2)
    if h2.found(r"tos += 0x3$"):
        raise Failed("a packet is marked although there is no load")
    lab.start("h11", "-c", UDP_LOAD, "10.0.2.22")
    lab.run("h1", "send.py", "10.0.2.2", "P4 is cool", "10")
    h2.wait_for(r"tos += 0x3$")  # the kernel's sch_htb is what makes the link slow
    return pings + ", messages are marked under load and only then"


def firewall(lab: Lab) -> str:
    """Connections are made from inside only."""
    pings = lab.pings()
    for server in ("h2", "h3", "h1"):
        lab.start(server, "-c", TCP_SERVER).wait_for("listens")
    lab.run("h1", "-c", TCP_CLIENT, "10.0.2.2")
    lab.run("h1", "-c", TCP_CLIENT, "10.0.3.3")
    try:
        lab.run("h3", "-c", TCP_CLIENT, "10.0.1.1")
    except Failed:
        return pings + ", TCP passes inside and out, and is blocked in"
    raise Failed("h3 connects to h1 through the firewall")


def flowcache(lab: Lab) -> str:
    """A controller makes entries from packet-ins, and deletes them when they are
    idle. It passes packets on with the MAC they came with, so hosts drop them: the
    first ping makes the entries of its way there, the second those of the way
    back, and the third is answered. The solution ends when it adds or deletes an
    entry twice, so nothing else is sent meanwhile."""
    controller = lab.start("controller", "mycontroller.py")
    # The last of its writes; then it listens. Both are noted before they are done.
    Program("the controller", controller.popen, os.path.join(lab.folder, "logs", "s3-p4runtime-requests.txt")).wait_for(
        "packet_replication_engine_entry")
    time.sleep(1)
    added, deleted = "added table entry", "Deleted flow_cache entry"
    for already in (0, 4):
        controller.wait_for(deleted, already)
        for entries in (2, 4):
            lab.ping("h1", "10.0.2.2", 1, must=False)
            controller.wait_for(added, already + entries)
        lab.ping("h1", "10.0.2.2", 3)
        if len(controller.found(added)) > already + 4:
            raise Failed(f"packets went to the controller although there were entries: {controller.log}")
    controller.wait_for(r"MyEgress.egressPktInCounter \d+: [1-9]\d* packets", 8)
    if controller.found("Error|Traceback"):
        raise Failed(f"the controller met an error: {controller.log}")
    return "entries are made from packet-ins, carry pings, are deleted when idle, and made again"


def link_monitor(lab: Lab) -> str:
    """Probes bring back the loads of eight links."""
    pings = lab.pings()
    h1 = lab.listen("h1")
    lab.start("h1", "send.py")
    line = r"^Switch \d - Port \d: ([\d.e+-]+) Mbps$"
    idle = [float(x) for x in h1.wait_for(line, 2 * 9)[9:]]  # the first round has no time to go by
    lab.start("h1", "-c", UDP_LOAD, "10.0.4.4")

    def loaded() -> bool:
        return any(float(x) > max(0.1, 10 * max(idle)) for x in h1.found(line)[18:])

    try:
        wait_until("a probe with the load", loaded, PATIENCE)
    except TimeoutError as err:
        raise Failed(f"no probe tells of the load that was sent: {h1.log}") from err
    return pings + ", probes come back with the links' loads"


def load_balance(lab: Lab) -> str:
    """Connections are spread over two hosts."""
    h2, h3 = lab.listen("h2"), lab.listen("h3")
    count = 16
    for _ in range(count):
        lab.run("h1", "send.py", "10.0.0.1", "P4 is cool")
    deadline = time.monotonic() + PATIENCE
    shares: List[int] = []
    while sum(shares) < count and time.monotonic() < deadline:
        shares = [len(h.found("P4 is cool")) for h in (h2, h3)]
        time.sleep(0.1)
    if sum(shares) != count or min(shares) == 0:
        raise Failed(f"of {count} messages h2 and h3 have {shares}")
    return f"{count} messages arrive at either of two hosts, and at both"


def mri(lab: Lab) -> str:
    """Packets collect the switches they met, and the lengths of queues there."""
    pings = lab.pings()
    h2 = lab.listen("h2")
    lab.start("h11", "-c", UDP_LOAD, "10.0.2.22")
    lab.run("h1", "send.py", "10.0.2.2", "P4 is cool", "10")
    met = [int(x) for x in h2.wait_for(r"swid += (\d+)$", 4)]
    if met[:2] != [2, 1] or set(met) != {1, 2}:
        raise Failed(f"the switches met are {met}")
    h2.wait_for(r"qdepth += [1-9]\d*$")
    return pings + ", messages with the switches they met and their queues"


def multicast(lab: Lab) -> str:
    """ARP's broadcasts reach all hosts."""
    return lab.pings()


def p4runtime(lab: Lab) -> str:
    """A controller loads the program, and makes a tunnel with counters."""
    controller = lab.start("controller", "mycontroller.py")
    controller.wait_for("Reading tunnel counters")
    lab.ping("h1", "10.0.2.2", 4)
    lab.ping("h2", "10.0.1.1", 4)
    for counter in ("s1 MyIngress.ingressTunnelCounter 100", "s2 MyIngress.egressTunnelCounter 100",
                    "s2 MyIngress.ingressTunnelCounter 200", "s1 MyIngress.egressTunnelCounter 200"):
        controller.wait_for(re.escape(counter) + r": [1-9]\d* packets")
    return "the solution's controller, 8 pings through its tunnels, its counters count"


def qos(lab: Lab) -> str:
    """Protocols get classes of service."""
    pings = lab.pings()
    h2 = lab.listen("h2")
    for protocol, tos in (("UDP", "0xb9"), ("TCP", "0xb1")):
        lab.run("h1", "send.py", f"--p={protocol}", "--des=10.0.2.2", f"--m=over {protocol}", "--dur=2")
        h2.wait_for(rf"tos += {tos}$", 2)
    return pings + ", UDP and TCP are marked each in its way"


def source_routing(lab: Lab) -> str:
    """A packet goes by the ports its sender wrote down: five hops, of which each takes one of its 64."""
    h2 = lab.listen("h2")
    lab.run("h1", "send.py", "10.0.2.2", typed="2 3 2 2 1\nq\n")
    h2.wait_for(r"ttl += 59$")
    return "a message takes the five hops its sender wrote down"


@dataclass(frozen=True)
class Exercise:
    """An exercise, its check, and where it is not the usual, its topology and the
    program of switches that the topology gives none."""

    check: Callable[[Lab], str]
    topology: str = "topology.json"
    program: str = ""


EXERCISES: Dict[str, Exercise] = {
    "basic": Exercise(basic, "pod-topo/topology.json"),
    "basic_tunnel": Exercise(basic_tunnel),
    "calc": Exercise(calc),
    "ecn": Exercise(ecn),
    "firewall": Exercise(firewall, "pod-topo/topology.json", "basic"),
    "flowcache": Exercise(flowcache),
    "link_monitor": Exercise(link_monitor, "pod-topo/topology.json"),
    "load_balance": Exercise(load_balance),
    "mri": Exercise(mri),
    "multicast": Exercise(multicast, "sig-topo/topology.json"),
    "p4runtime": Exercise(p4runtime, program="advanced_tunnel"),
    "qos": Exercise(qos),
    "source_routing": Exercise(source_routing),
}
