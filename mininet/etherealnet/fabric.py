"""A fabric as ``ethereal topo -o json`` describes it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

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

    def gateway(self, host: Node) -> Node:
        """The ToR of a host."""
        return self.nodes[host.ports[0].peer]


def load(binary: str, path: str) -> Fabric:
    """Reads a fabric file through the ethereal binary."""
    argv = [binary, "topo", "--fabric", path, "-o", "json"]
    try:
        done = subprocess.run(argv, check=False, capture_output=True, text=True)
    except OSError as err:
        raise FabricError(f"{binary}: {err.strerror}; build it with `make`") from err
    if done.returncode != 0:
        raise FabricError(done.stderr.strip())
    return parse(json.loads(done.stdout))


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
