"""Hosts: an address of the fabric, a route to everything through the ToR, and
no packet that a P4 switch cannot forward."""

from __future__ import annotations

import os
import signal
from typing import Any, Dict, List, Optional

from mininet.node import Host

from .deployment import Deployment, Process

# The next hop is no address of anybody: only its MAC, the ToR's, is used. The
# program drops what is not IP, so it is never asked for.
GATEWAY4, GATEWAY6 = "169.254.0.1", "fe80::1"

# Of a full packet of RDMA programs', in bytes; a coordinator asks for its own.
PAYLOAD = 1024


class FabricHost(Host):  # type: ignore[misc]
    """A host of the fabric."""

    def __init__(self, name: str, deployment: Optional[Deployment] = None, **params: Any) -> None:
        super().__init__(name, **params)
        self.deployment = deployment
        self.agent: Optional[Process] = None
        if deployment is not None:
            deployment.record_pid(self.pid)

    def config(  # pylint: disable=arguments-differ
        self, gateway_mac: Optional[str] = None, ipv6: Optional[str] = None, mtu: Optional[int] = None, **params: Any
    ) -> Dict[str, Any]:
        """Sets addresses, routes and offloads."""
        out: Dict[str, Any] = super().config(**params)
        intf = self.defaultIntf()
        if intf is None or gateway_mac is None:
            return out
        # A switch on AF_PACKET sees frames as the host's stack left them: checksums
        # not yet made, and segments longer than the link takes.
        commands = [f"ethtool -K {intf} tx off rx off tso off gso off gro off"]
        if mtu:
            commands.append(f"ip link set {intf} mtu {mtu}")
        commands += [
            f"ip neigh replace {GATEWAY4} lladdr {gateway_mac} dev {intf} nud permanent",
            f"ip route replace default via {GATEWAY4} dev {intf} onlink",
        ]
        if ipv6 is not None:
            commands += [
                f"ip -6 addr replace {ipv6}/128 dev {intf} nodad",
                f"ip -6 neigh replace {GATEWAY6} lladdr {gateway_mac} dev {intf} nud permanent",
                f"ip -6 route replace default via {GATEWAY6} dev {intf}",
            ]
        self.run(commands)
        return out

    @property
    def socket(self) -> str:
        """Where the agent is driven from."""
        assert self.deployment is not None
        return self.deployment.path(self.name + ".sock")

    def start_agent(self, rate: str) -> None:
        """Starts the host's agent, with its soft RoCEv2 endpoint."""
        assert self.deployment is not None
        d = self.deployment
        self.agent = d.spawn(self.name, [
            d.binary, "host", "agent", "--fabric", d.fabric_file, "--host", self.name, "--interface",
            str(self.defaultIntf()), "--controller", "unix:" + d.agents, "--listen-socket", "unix:" + self.socket,
            "--listen-admin", "unix:" + d.agent(self.name),
            "--rate", rate, "--log-level", "warn",
            "--listen-verbs", "unix:" + d.path(self.name + ".verbs.sock"), "--payload", str(PAYLOAD),
        ], namespace=self.pid)
        # RDMA programs find a device where `make verbs` was carried out.
        library = os.path.join(os.path.dirname(os.path.abspath(d.binary)), "libethereal-verbs.so")
        if os.path.exists(library):
            self.cmd(f"export ETHEREAL_NIC=unix:{d.path(self.name + '.verbs.sock')} LD_PRELOAD={library}")

    def stall_agent(self, stalled: bool) -> None:
        """Stops the agent and its endpoint, or lets them go on."""
        if self.agent is None:
            raise RuntimeError(f"{self.name} has no agent")
        self.agent.popen.send_signal(signal.SIGSTOP if stalled else signal.SIGCONT)

    def run(self, commands: List[str]) -> None:
        """Runs commands in the host, one after the other; a failure is an error.
        One shell does them all: to enter a host takes longer than each."""
        _, err, code = self.pexec(["sh", "-exc", "\n".join(commands)])
        if code != 0:
            raise RuntimeError(f"{self.name}: " + " | ".join(err.strip().splitlines()[-2:]))
