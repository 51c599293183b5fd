"""Switch classes: BMv2's simple_switch_grpc, and ethereal switch in its place.

Both take the same options, and run in the root namespace with P4Runtime on its
loopback. There is no Open vSwitch.
"""

from __future__ import annotations

import os
import signal
import subprocess
from typing import Any, Dict, List, Optional

from mininet.node import Switch

from .deployment import Deployment, DeploymentError, Process

PORT_EVENT_PORT = 508  # the port from which the P4 program believes port events
CPU_PORT = 510  # the port of packet-out and packet-in
GROUP = 0xE7E  # of the switches' interfaces, so that all can be deleted at once
PRIORITY_QUEUES = 8  # the controller puts acknowledgements into the highest


class P4Switch(Switch):  # type: ignore[misc]
    """A switch with P4Runtime that starts without a program."""

    kind = "ethereal"  # of switch, as the controller's targets file calls it
    sidecar = False  # whether gNMI is another process, at an address of its own

    def __init__(
        self, name: str, deployment: Optional[Deployment] = None, node_id: int = 0, mtu: int = 1500, **params: Any
    ) -> None:
        if deployment is None:
            raise ValueError(f"{name}: this switch class needs --topo ethereal")
        self.deployment, self.node_id, self.mtu = deployment, node_id, mtu
        self.process: Optional[Process] = None
        super().__init__(name, **params)
        deployment.record_pid(self.pid)

    def port_numbers(self) -> List[int]:
        """The numbers of the ports; Mininet has the loopback as 0."""
        return sorted(port for port in self.intfs if port > 0)

    def device(self, port: int) -> str:
        """The interface that the switch has as a port: the end of the link."""
        return str(self.intfs[port].name)

    def port_options(self) -> List[str]:
        """-i options for all ports."""
        return [word for port in self.port_numbers() for word in ("-i", f"{port}@{self.device(port)}")]

    def base_options(self) -> List[str]:
        """The options that both switches take."""
        return [
            "--no-p4", "--device-id", str(self.node_id + 1), "--log-console", "-L", "warn", *self.port_options(),
        ]

    def target_options(self) -> List[str]:
        """The options of the target, behind --."""
        return [
            "--grpc-server-addr", self.deployment.p4runtime(self.node_id), "--cpu-port", str(CPU_PORT),
            "--priority-queues", str(PRIORITY_QUEUES),
        ]

    def command(self) -> List[str]:
        """The command line."""
        raise NotImplementedError

    def start(self, controllers: Any) -> None:
        """Starts the switch, once its interfaces are there."""
        del controllers  # they connect to the switch, not the other way round
        names = self.port_names()
        for name in names:
            self.deployment.record_interface(name)
            quiet(name)
        self.ip("".join(f"link set dev {name} mtu {self.mtu} group {GROUP}\n" for name in names))
        self.launch()

    def ip(self, batch: str) -> None:
        """Carries out ip's commands where the interfaces are."""
        subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=True)

    def launch(self) -> None:
        """Starts the process on interfaces that are there."""
        self.process = self.deployment.spawn(self.name, self.command())

    def kill(self) -> None:
        """Ends the switch as a dead box would; revive() starts it again."""
        if self.process is not None:
            self.process.stop(signal.SIGKILL)
        self.set_ports(False)

    def set_ports(self, up: bool) -> None:
        """A box that is dead has no carrier on any port."""
        self.ip("".join(f"link set dev {name} {'up' if up else 'down'}\n" for name in self.port_names()))

    def port_names(self) -> List[str]:
        """The interfaces, by port."""
        return [self.intfs[port].name for port in self.port_numbers()]

    def revive(self) -> None:
        """Starts a killed switch again. It has no program until the controller comes."""
        self.set_ports(True)
        self.launch()

    def connected(self) -> bool:
        """Whether the process runs; who programs it is the controller's to say."""
        if self.process is None:
            return False
        self.process.check()
        return True

    def stop(self, deleteIntfs: bool = True) -> None:
        """Ends the process and removes the interfaces."""
        if self.process is not None:
            self.process.stop()
            self.process = None
        super().stop(deleteIntfs)


class GoSwitch(P4Switch):
    """``ethereal switch``: it serves gNMI itself and tells its program of ports."""

    datapath = "interpreter"

    def command(self) -> List[str]:
        return [
            self.deployment.binary, "switch", *self.base_options(), "--ethernet-names", "--datapath", self.datapath,
            "--", *self.target_options(),
        ]


class KernelSwitch(GoSwitch):
    """``ethereal switch`` whose program runs in the kernel, as far as it can."""

    datapath = "kernel"


class BMv2Switch(P4Switch):
    """``simple_switch_grpc``, with ``ethereal gnmi`` beside it.

    BMv2 receives for all ports in one thread, and libpcap keeps that thread waiting
    as long as one of its interfaces is administratively down. So its ports are
    macvlans over the links' ends: taking an end down, as the sidecar and Mininet's
    ``link`` do, costs the macvlan its carrier and leaves it open."""

    kind = "bmv2"
    sidecar = True

    def __init__(self, name: str, **params: Any) -> None:
        self.gnmi: Optional[Process] = None
        super().__init__(name, **params)

    @property
    def event_pair(self) -> List[str]:
        """The interfaces by which port events reach the switch."""
        return [f"{self.name}-ev", f"{self.name}-evp"]

    def device(self, port: int) -> str:
        return f"{self.name}-p{port}"

    def launch(self) -> None:
        missing = [port for port in self.port_numbers() if not os.path.exists(f"/sys/class/net/{self.device(port)}")]
        batch = "".join(
            f"link add link {self.intfs[port].name} name {self.device(port)} type macvlan mode passthru\n"
            for port in missing
        )
        done = subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=False, capture_output=True)
        if done.returncode != 0:
            raise DeploymentError(f"{self.name}: BMv2's ports take the kernel's module macvlan: {done.stderr.strip()}")
        for port in missing:
            quiet(self.device(port))
        up = "".join(f"link set dev {self.device(port)} up\n" for port in missing)
        subprocess.run(["ip", "-batch", "-"], input=up, text=True, check=True)
        super().launch()

    def command(self) -> List[str]:
        return [
            self.deployment.bmv2, *self.base_options(), "-i", f"{PORT_EVENT_PORT}@{self.event_pair[1]}",
            *self.thrift_options(), "--", *self.target_options(),
        ]

    def thrift_options(self) -> List[str]:
        """Its Thrift server's port; each process needs its own. A BMv2 without Thrift refuses the option."""
        usage = subprocess.run([self.deployment.bmv2, "--help"], capture_output=True, text=True, check=False).stdout
        return ["--thrift-port", str(self.deployment.thrift_port(self.node_id))] if "--thrift-port" in usage else []

    def start(self, controllers: Any) -> None:
        ours, switchs = self.event_pair
        self.deployment.record_interface(ours)
        subprocess.run(["ip", "link", "add", ours, "type", "veth", "peer", "name", switchs], check=True)
        for name in (ours, switchs):
            quiet(name)
            subprocess.run(["ip", "link", "set", name, "up"], check=True)
        super().start(controllers)
        self.gnmi = self.deployment.spawn(self.name + "-gnmi", [
            self.deployment.binary, "gnmi", *self.port_options(), "--ethernet-names", "--event-interface", ours,
            "--listen-gnmi", self.deployment.gnmi(self.node_id), "--log-level", "info",
        ])

    def stop(self, deleteIntfs: bool = True) -> None:
        if self.gnmi is not None:
            self.gnmi.stop()
            self.gnmi = None
        subprocess.run(["ip", "link", "del", self.event_pair[0]], check=False, capture_output=True)
        super().stop(deleteIntfs)


SWITCHES: Dict[str, Any] = {"go": GoSwitch, "kernel": KernelSwitch, "bmv2": BMv2Switch}


def quiet(interface: str) -> None:
    """Keeps the kernel's own packets off an interface of the root namespace."""
    path = f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6"
    if os.path.exists(path):
        with open(path, "w", encoding="ascii") as f:
            f.write("1")


def delete_links() -> None:
    """Deletes all interfaces of switches, which one by one takes seconds."""
    subprocess.run(["ip", "link", "del", "group", str(GROUP)], check=False, capture_output=True)
