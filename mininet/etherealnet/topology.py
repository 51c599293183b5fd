"""The Topo: one host, switch and link for each of the fabric's."""

from __future__ import annotations

from typing import Any, Dict, Optional

from mininet.topo import Topo

from .deployment import Deployment


class FabricTopo(Topo):  # type: ignore[misc]
    """A fabric as Mininet builds it.

    bw (Mbit/s), delay, loss (%) and max_queue_size are for links of switches and
    hosts alike, and take a TCLink (CheckedTCLink reads them back)."""

    def build(  # pylint: disable=arguments-differ
        self, deployment: Optional[Deployment] = None, mtu: int = 9000, **link: Any
    ) -> None:
        assert deployment is not None
        fabric = deployment.fabric
        options: Dict[str, Any] = {k: v for k, v in link.items() if v is not None}
        for n in fabric.hosts:
            self.addHost(
                n.name, deployment=deployment, ip=f"{n.ipv4}/32", mac=n.mac, ipv6=n.ipv6, mtu=mtu,
                gateway_mac=fabric.gateway(n).mac,
            )
        for n in fabric.switches:
            self.addSwitch(n.name, deployment=deployment, node_id=n.id, mtu=mtu)
        for x in fabric.links:
            # A host's only port is eth0 in Mininet; switches count from 1, as P4 does.
            a_port = x.a_port - 1 if fabric.nodes[x.a].is_host else x.a_port
            self.addLink(x.a, x.b, port1=a_port, port2=x.b_port, **options)
