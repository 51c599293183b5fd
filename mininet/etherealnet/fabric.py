"""A fabric as ``ethereal topo -o json`` describes it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Sequence

VERSION = 1  # of the JSON form


class FabricError(Exception):
    """The fabric cannot be read."""


@dataclass(frozen=True)
class Port:
    """A port of a node; numbers start at 1."""

    number: int
    peer: str
    peer_port: int


@dataclass(frozen=True)
class Node:
    """A host or a switch."""

    id: int
    name: str
    tier: str  # host, tor, agg or core
    mac: str
    ports: List[Port]
    ipv4: Optional[str] = None  # of a host
    ipv6: Optional[str] = None  # of a host

    @property
    def is_host(self) -> bool:
        """Whether the node is a host."""
        return self.tier == "host"

    @property
    def device_id(self) -> int:
        """The P4Runtime device id: what the controller takes by default."""
        return self.id + 1


@dataclass(frozen=True)
class Link:
    """A link; a is the end nearer the hosts."""

    name: str
    a: str
    a_port: int
    b: str
    b_port: int


@dataclass(frozen=True)
class Fabric:
    """All nodes by name, in the order of their ids, and all links."""

    nodes: Dict[str, Node]
    links: List[Link]

    @property
    def hosts(self) -> List[Node]:
        """The hosts, by id."""
        return [n for n in self.nodes.values() if n.is_host]

    @property
    def switches(self) -> List[Node]:
        """The switches, by id."""
        return [n for n in self.nodes.values() if not n.is_host]

    def size(self) -> str:
        """How large it is, for people."""
        return f"{len(self.hosts)} hosts, {len(self.switches)} switches and {len(self.links)} links"

    def gateway(self, host: Node) -> Node:
        """The ToR of a host."""
        return self.nodes[host.ports[0].peer]


def _topo(binary: str, *flags: str) -> str:
    """What `ethereal topo` prints."""
    try:
        done = subprocess.run([binary, "topo", *flags], check=False, capture_output=True, text=True)
    except OSError as err:
        raise FabricError(f"{binary}: {err.strerror}; build it with `make`") from err
    if done.returncode != 0:
        raise FabricError(done.stderr.strip())
    return done.stdout


def load(binary: str, path: str) -> Fabric:
    """Reads a fabric file through the ethereal binary."""
    return parse(json.loads(_topo(binary, "--fabric", path, "-o", "json")))


def of_scenarios(binary: str, paths: Sequence[str]) -> str:
    """The fabric file of scenarios, which must all have the same nodes and links."""
    fabrics = {path: parse(json.loads(_topo(binary, "--scenario", path, "-o", "json"))) for path in paths}
    first = paths[0]
    for path, fabric in fabrics.items():
        if fabric != fabrics[first]:
            raise FabricError(
                f"{first} has a fabric of {fabrics[first].size()}, {path} one of {fabric.size()}; "
                "run them one by one, or name the fabric for all with --fabric FILE"
            )
    return _topo(binary, "--scenario", first)


def parse(doc: Dict[str, Any]) -> Fabric:
    """Reads the JSON form."""
    if doc.get("version") != VERSION:
        raise FabricError(f"the topology has version {doc.get('version')}; this reads {VERSION}")
    nodes = {}
    for n in doc["nodes"]:
        ports = [Port(p["port"], p["peer"], p["peer_port"]) for p in n["ports"]]
        nodes[n["name"]] = Node(n["id"], n["name"], n["tier"], n["mac"], ports, n.get("ipv4"), n.get("ipv6"))
    links = [
        Link(x["name"], x["a"]["node"], x["a"]["port"], x["b"]["node"], x["b"]["port"])
        for x in doc["links"]
    ]
    return Fabric(nodes, links)
