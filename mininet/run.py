#!/usr/bin/python3
"""Boots a fabric in Mininet, programs it, and tries it.

    sudo bin/ethereal mininet run                     # the Go switch
    sudo bin/ethereal mininet run --switch kernel     # the same, forwarding in the kernel
    sudo bin/ethereal mininet run --switch bmv2       # the same with simple_switch_grpc
    sudo bin/ethereal mininet up                      # no experiment: Mininet's command line
    sudo bin/ethereal mininet up --view               # with the live page of the fabric
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

try:
    from mininet.cli import CLI
    from mininet.link import Link
    from mininet.log import setLogLevel
    from mininet.net import Mininet
except ImportError as problem:
    sys.exit(f"{problem}: install Mininet (Debian, Ubuntu: apt-get install mininet), and run this with "
             "/usr/bin/python3; scripts/check says what else is missing")

# pylint: disable=wrong-import-position
from functools import partial

from etherealnet.actions import ActionServer, wait_until
from etherealnet.control import FabricController
from etherealnet.deployment import DEFAULT_DIR, FILE_NAME, Deployment, DeploymentError, find_binary, find_bmv2, clean
from etherealnet.endings import Ended, end_on_signals, ignore_signals
from etherealnet.fabric import FabricError
from etherealnet.hosts import FabricHost
from etherealnet.links import CheckedTCLink, LinkError
from etherealnet.pings import PingError, ping_all, require_ping
from etherealnet.switches import SWITCHES, delete_links
from etherealnet.topology import FabricTopo

TABLES: Dict[str, Dict[str, Any]] = {  # the controller's tables, by the labels' carrier
    "udp-sport": {"carrier_v4": "udp-sport", "carrier_v6": "udp-sport"},
    "ipv6-flowlabel": {"carrier_v4": "udp-sport", "carrier_v6": "ipv6-flowlabel"},
    "srv6-usid": {"carrier_v4": "none", "carrier_v6": "srv6-usid"},
}


def parse(argv: List[str]) -> argparse.Namespace:
    """Reads the command line."""
    p = argparse.ArgumentParser(prog="ethereal mininet run",
                                description="Boots a fabric of P4 switches in Mininet, programs it, and tries it.")
    p.add_argument("--fabric", metavar="FILE",
                   help="the fabric, as `ethereal topo` prints it (default: that of the experiments)")
    p.add_argument("--switch", choices=sorted(SWITCHES), default="go",
                   help="go: ethereal switch; kernel: the same, forwarding in the kernel what it can; "
                   "bmv2: simple_switch_grpc with ethereal gnmi beside it (default: go)")
    p.add_argument("experiments", nargs="*", metavar="EXPERIMENT",
                   help="experiments to carry out (default: an all-to-all whose first uplink is taken down by gNMI)")
    p.add_argument("--probe", action="store_true",
                   help="show what every path from every host loses, and its round trip")
    p.add_argument("--ping-only", action="store_true", help="no agents and no experiment")
    p.add_argument("--up", action="store_true", help=argparse.SUPPRESS)  # ethereal mininet up
    p.add_argument("--html", metavar="FILE", help="write the experiments' timelines, an HTML page, to FILE")
    p.add_argument("--record", metavar="FILE", help="write all that happened in them to FILE, as JSON lines")
    p.add_argument("--carrier", choices=sorted(TABLES), default="udp-sport", metavar="FIELD",
                   help="carry labels in this field, whatever the experiments say: "
                        "udp-sport (default), ipv6-flowlabel or srv6-usid")
    p.add_argument("--rate", default="500kb/s", metavar="RATE",
                   help="at which hosts send before an experiment says otherwise (default: 500kb/s)")
    p.add_argument("--cli", action="store_true", help="open Mininet's command line at the end")
    p.add_argument("--view", action="store_true",
                   help="serve the live page of the fabric on this machine, and print its address")
    p.add_argument("--listen-view", metavar="ADDR",
                   help="serve a page at ADDR, HOST:PORT, under a secret path that is printed; on the loopback "
                        "(with --view 127.0.0.1:0)")
    p.add_argument("--bw", type=float, metavar="MBIT",
                   help="rate of every link, in Mbit/s (default: as fast as it goes)")
    p.add_argument("--delay", metavar="TIME", help="delay of every link, one way, as in 1ms")
    p.add_argument("--loss", type=float, metavar="PERCENT", help="loss of every link, each way")
    p.add_argument("--mtu", type=int, default=9000, metavar="BYTES",
                   help="of the interfaces of hosts and switches (default: 9000)")
    p.add_argument("--ethereal", metavar="FILE",
                   help="the ethereal binary (default: $ETHEREAL, bin/ethereal, the path)")
    p.add_argument("--bmv2", metavar="FILE", help="simple_switch_grpc (default: $BMV2, the path)")
    p.add_argument("--dir", default=DEFAULT_DIR, metavar="DIR", help=f"logs and state (default: {DEFAULT_DIR})")
    p.add_argument("--port-base", type=int, default=20000, metavar="PORT", help="first TCP port used on the loopback")
    p.add_argument("--isolate", action="store_true",
                   help="run in a network namespace of its own, away from the machine's interfaces")
    p.add_argument("--clean", action="store_true", help="remove what a run that crashed left behind, and end")
    p.add_argument("--verbose", action="store_true", help="Mininet's own output")
    args = p.parse_args(argv)
    if not args.experiments:
        args.fabric = args.fabric or os.path.join(HERE, "fabric.yaml")
    for path in [*([args.fabric] if args.fabric else []), *args.experiments]:
        if not os.path.exists(path):
            p.error(f"there is no {path}")
    if args.up:
        args.cli = True
    if args.view and args.listen_view is None:
        args.listen_view = "127.0.0.1:0"
    if args.listen_view is not None:
        host, _, port = args.listen_view.rpartition(":")
        if not port.isdigit() or not host:
            p.error(f"--listen-view {args.listen_view}: write an address and a port, as in 127.0.0.1:0")
        if host != "localhost" and not re.fullmatch(r"127(\.\d{1,3}){3}", host):
            p.error(f"--listen-view {args.listen_view}: the page is served at a loopback address, as in 127.0.0.1:0")
    return args


ISOLATED = "ETHEREAL_ISOLATED"  # in the environment of a run that --isolate started again
UNPACKED = "ETHEREAL_UNPACKED"  # likewise: the folder of this script, which ethereal mininet made and this run removes
VIEW_SOCKET = "ETHEREAL_VIEW_SOCKET"  # likewise: the number of the page's socket, of the machine's own namespace


def page_socket(address: str) -> socket.socket:
    """Opens the socket of the fabric's page, or returns the one that was passed on."""
    passed = os.environ.pop(VIEW_SOCKET, "")
    if passed:
        return socket.socket(fileno=int(passed))
    host, _, port = address.rpartition(":")
    return socket.create_server((host, int(port)))


class Stages:
    """Prints what happens, and how long it took."""

    def __init__(self) -> None:
        self.begin = self.last = time.monotonic()

    def done(self, what: str) -> None:
        """Says that a stage is over."""
        now = time.monotonic()
        print(f"{what:<58} {now - self.last:7.2f} s", flush=True)
        self.last = now


def verify(deployment: Deployment) -> None:
    """Proves the tables that the switches hold."""
    done = subprocess.run(
        [deployment.binary, "verify", "--fabric", deployment.fabric_file, "--targets", deployment.path("targets.yaml")],
        check=False, capture_output=True, text=True,
    )
    if done.returncode != 0:
        raise DeploymentError(f"verify: {done.stdout}{done.stderr}")


def preflight(deployment: Deployment) -> str:
    """Looks at all that a deployment depends on, cables and agents included;
    returns how many lines are green, and how many are of what nobody can see."""
    done = subprocess.run(
        [
            deployment.binary, "preflight", "--strict", "--fabric", deployment.fabric_file,
            "--targets", deployment.path("targets.yaml"), "--admin", deployment.admin,
            "--admin-token-file", deployment.token, "--wait", "20s",
        ],
        check=False, capture_output=True, text=True,
    )
    if done.returncode != 0:
        raise DeploymentError(f"preflight: {done.stdout}{done.stderr}")
    return done.stdout.strip().splitlines()[-1]


def validate(deployment: Deployment, files: List[str]) -> None:
    """Refuses experiments that cannot be carried out here, before anything is booted."""
    done = subprocess.run(
        [deployment.binary, "validate", "--world", "mininet", *files], check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise DeploymentError(done.stderr.strip())


def start_agents(args: argparse.Namespace, net: Any) -> None:
    """Starts the hosts' agents and waits until they answer, and the controller has all of them."""
    for host in net.hosts:
        host.start_agent(args.rate)
    for host in net.hosts:
        wait_until(f"{host.name}'s agent answers", lambda h=host: os.path.exists(h.socket), 30)  # type: ignore[misc]
    joined = f" {len(net.hosts)} agents, 0 of them behind"
    wait_until("the agents reach the controller", lambda: joined in net.controllers[0].status(), 60)


def probe(deployment: Deployment) -> None:
    """Prints what every path from every host loses, and its round trip."""
    subprocess.run(
        [
            deployment.binary, "probe", "--fabric", deployment.fabric_file,
            "--socket", "unix:" + deployment.path("{host}.sock"), "--timeout", "2s",
        ],
        check=True,
    )


def experiments(args: argparse.Namespace, net: Any, deployment: Deployment) -> int:
    """Carries out experiments; returns the exit code."""
    controller = net.controllers[0]

    def act(do: str, name: str) -> None:
        if do == "node-down":
            net.get(name).kill()
        elif do == "node-up":
            net.get(name).revive()
            if controller.process is not None:
                controller.wait_ready()
        elif do == "controller-down":
            controller.kill()
        elif do == "controller-up":
            controller.start()
            controller.wait_ready()
        elif do in ("agent-down", "agent-up"):
            net.get(name).stall_agent(do == "agent-down")
        else:
            raise ValueError(f"{do!r} cannot be done here")

    server = ActionServer(deployment.path("control.sock"), act)
    files = args.experiments or [os.path.join(HERE, "experiments", "single-link.yaml")]
    argv = [deployment.binary, "run", "--world", "mininet", "--deployment", deployment.path(FILE_NAME),
            "--carrier", args.carrier, *files]
    for flag in ("html", "record"):
        if getattr(args, flag):
            argv += ["--" + flag, getattr(args, flag)]
    try:
        with subprocess.Popen(argv) as process:
            deployment.record_pid(process.pid)
            try:
                return server.serve_while(process)
            except BaseException:
                process.terminate()
                raise
    finally:
        server.close()


def run(args: argparse.Namespace) -> int:
    """Boots, tries, and takes down."""
    require_ping()
    stages = Stages()
    switch = SWITCHES[args.switch]
    deployment = Deployment(
        args.fabric, find_binary(args.ethereal), args.dir,
        find_bmv2(args.bmv2) if args.switch == "bmv2" else "simple_switch_grpc", args.port_base,
        scenarios=args.experiments,
    )
    net: Optional[Any] = None
    page = None if args.listen_view is None else page_socket(args.listen_view)
    try:
        if args.experiments and not (args.up or args.ping_only):
            validate(deployment, args.experiments)
        deployment.open()
        shaped = args.bw is not None or args.delay is not None or args.loss is not None
        topo = FabricTopo(deployment=deployment, mtu=args.mtu, bw=args.bw, delay=args.delay, loss=args.loss)
        net = Mininet(
            topo=topo, switch=switch, host=FabricHost, link=CheckedTCLink if shaped else Link,
            controller=partial(
                FabricController, deployment=deployment, switch=switch, tables=TABLES[args.carrier],
                view=page.fileno() if page else None,
            ), waitConnected=False,
        )
        fabric = deployment.fabric
        stages.done(f"{len(fabric.hosts)} hosts, {len(fabric.switches)} switches, {len(fabric.links)} links are there")
        if page:
            host, port = page.getsockname()[:2]
            print(f"the fabric's page: http://{host}:{port}/{deployment.write_view_secret()}/", flush=True)
        net.start()
        stages.done(f"switches run: {args.switch}")
        controller = net.controllers[0]
        controller.wait_ready()
        stages.done("the controller has programmed them")
        deployment.write_deployment([h.socket for h in net.hosts], "%s-eth%d")
        verify(deployment)
        stages.done("verify: the tables, read back, deliver everything")
        loss = ping_all(net)
        stages.done(f"pingall: {len(net.hosts) * (len(net.hosts) - 1)} pairs, {loss:g} % lost")
        code = 0 if loss == 0 else 1
        if not args.ping_only:
            start_agents(args, net)
            stages.done("the hosts' agents run")
            stages.done(f"preflight: {preflight(deployment)}")
            if args.probe:
                probe(deployment)
                stages.done("every path is probed")
            if not args.up:
                code = max(code, experiments(args, net, deployment))
                stages.done("experiments: " + ("every check passes" if code == 0 else f"exit code {code}"))
        if args.up:
            print(f"In another terminal, as root: {deployment.commands(fabric.links[-1].name)}\n"
                  "Here: pingall, h0 ping h1, exit.", flush=True)
        if args.cli:
            setLogLevel("info" if args.verbose else "output")  # of pingall and the like
            ctrl_c = signal.signal(signal.SIGINT, signal.default_int_handler)  # ends a command, not the fabric
            CLI(net)
            signal.signal(signal.SIGINT, ctrl_c)
            setLogLevel("info" if args.verbose else "warning")
            stages.done("Mininet's command line has ended")
        return code
    finally:
        ignore_signals()  # taking down takes seconds, and is not to be left half done
        deployment.stop_processes()
        delete_links()
        if net is not None:
            net.stop()
        deployment.close()
        if page:
            page.close()
        stages.done("all is taken down")


def prepare(isolated: bool, verbose: bool) -> None:
    """Raises limits, as Mininet does. Some are the machine's, which a namespace of
    its own cannot reach; Mininet would call that an error."""
    setLogLevel("critical" if isolated else "warning")
    Mininet.init()
    setLogLevel("info" if verbose else "warning")


def isolate(argv: List[str], view: Optional[str]) -> None:
    """Starts this program again in new network and mount namespaces."""
    script = 'mount -t sysfs sysfs /sys && ip link set lo up && exec "$@"'
    again = [a for a in argv if a != "--isolate"]
    command = ["unshare", "-nm", "sh", "-c", script, "--", sys.executable, os.path.abspath(__file__), *again]
    os.environ[ISOLATED] = "1"
    if view is not None:
        page = page_socket(view)
        page.set_inheritable(True)
        os.environ[VIEW_SOCKET] = str(page.detach())
    os.execvp(command[0], command)


def main(argv: List[str]) -> int:
    """The program."""
    args = parse(argv)
    if os.geteuid() != 0:
        print("ethereal mininet: network namespaces take root; use sudo", file=sys.stderr)
        return 2
    if args.isolate:
        isolate(argv, args.listen_view)
    if args.clean:
        removed = clean(args.dir)
        for what in removed:
            print(f"removed {what}")
        if not removed:
            print(f"nothing to remove: {args.dir} has no record of a run")
        return 0
    prepare(os.environ.pop(ISOLATED, "") != "", args.verbose)
    unpacked = os.environ.pop(UNPACKED, "")
    end_on_signals()
    try:
        return run(args)
    except (DeploymentError, FabricError, LinkError, PingError, RuntimeError, OSError) as err:
        print(f"ethereal mininet: {err}", file=sys.stderr)
        return 1
    except Ended as err:
        print(f"ethereal mininet: ended by {err}", file=sys.stderr)
        return 1
    finally:
        if unpacked:
            shutil.rmtree(unpacked, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
