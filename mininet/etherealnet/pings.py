"""All pairs of hosts ping."""

from __future__ import annotations

import shutil
from typing import Any


class PingError(Exception):
    """The hosts did not say what became of their pings."""


def require_ping() -> None:
    """Raises PingError where the machine has no ping."""
    if shutil.which("ping") is None:
        raise PingError("there is no ping on the path; Debian, Ubuntu: apt-get install iputils-ping")


def ping_all(net: Any) -> float:
    """Every host pings every other, one packet each; returns the loss in percent.
    Unlike Mininet's pingAll, the hosts ping side by side."""
    require_ping()
    hosts = net.hosts
    lost = total = 0
    script = "for x in {}; do ping -c1 -W2 -n $x >/dev/null && echo ok $x || echo lost $x; done"
    for h in hosts:
        h.sendCmd(script.format(" ".join(d.IP() for d in hosts if d is not h)))
    for h in hosts:
        for line in h.waitOutput().splitlines():
            total += 1
            if line.startswith("lost"):
                lost += 1
                print(f"{h.name} does not reach {line.split()[-1]}", flush=True)
    if total != len(hosts) * (len(hosts) - 1):
        raise PingError(f"{total} answers to {len(hosts) * (len(hosts) - 1)} pings")
    return 100.0 * lost / total
