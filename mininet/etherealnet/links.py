"""Links whose traffic control is read back.

Mininet's TCLink asks tc for rates, delays and losses; where the kernel lacks the
discipline it prints a line at best and goes on without. Here what was asked for
is compared with what the kernel says it has.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List

from mininet.link import Link, TCIntf
from mininet.log import error


class LinkError(Exception):
    """A link is not as it was asked for."""


def seconds(text: Any) -> float:
    """A time as tc and Mininet write it: 10ms, 2.5us, 1s; a number is microseconds."""
    s = str(text)
    for suffix, unit in (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9), ("s", 1.0)):
        if s.endswith(suffix):
            return float(s[: -len(suffix)]) * unit
    return float(s) * 1e-6


def near(a: float, b: float) -> bool:
    """Equal but for tc's rounding."""
    return abs(a - b) <= 0.01 * max(abs(a), abs(b)) + 1e-9


def class_rates(text: str) -> List[float]:
    """Rates in Mbit/s that tc's text about classes tells; htb has no JSON."""
    units = {"": 1e-6, "K": 1e-3, "M": 1.0, "G": 1e3}
    return [float(n) * units[u] for n, u in re.findall(r"\brate ([0-9.]+)([KMG]?)bit", text)]


def compare(params: Dict[str, Any], qdiscs: List[Dict[str, Any]], classes: str) -> List[str]:
    """What was asked for and is not there. qdiscs is tc's JSON, classes its text."""
    missing = []
    kinds = {q.get("kind"): q for q in qdiscs}
    bw = params.get("bw")
    if bw is not None:
        rates = class_rates(classes)
        buckets = [q.get("options", {}).get("rate") for q in qdiscs]
        rates += [r * 8 / 1e6 for r in buckets if isinstance(r, (int, float))]
        if not any(near(r, float(bw)) for r in rates):
            missing.append(f"bw={bw}: no class or bucket of {bw} Mbit/s" + (f" but {rates}" if rates else ""))
    netem = kinds.get("netem", {}).get("options", {})
    if params.get("delay"):
        want, got = seconds(params["delay"]), netem.get("delay", {}).get("delay", 0.0)
        if not near(want, got):
            missing.append(f"delay={params['delay']}: the kernel has {got * 1e3:g} ms")
    if params.get("jitter"):
        want, got = seconds(params["jitter"]), netem.get("delay", {}).get("jitter", 0.0)
        if not near(want, got):
            missing.append(f"jitter={params['jitter']}: the kernel has {got * 1e3:g} ms")
    if params.get("loss"):
        got = netem.get("loss-random", {}).get("loss", 0.0) * 100
        if not near(float(params["loss"]), got):
            missing.append(f"loss={params['loss']} %: the kernel has {got:g} %")
    if params.get("max_queue_size") is not None and netem.get("limit") != int(params["max_queue_size"]):
        missing.append(f"max_queue_size={params['max_queue_size']}: the kernel has {netem.get('limit')}")
    for flag in ("enable_ecn", "enable_red"):
        if params.get(flag) and "red" not in kinds:
            missing.append(f"{flag}: there is no red")
    return missing


class CheckedTCIntf(TCIntf):  # type: ignore[misc]
    """A TCIntf that says what of its options the kernel did not take."""

    missing: List[str]
    strict = True

    def config(self, *args: Any, strict: bool = True, **params: Any) -> Any:  # pylint: disable=arguments-differ
        """Sets the options, then reads them back."""
        result = super().config(*args, **params)
        asked = {k: v for k, v in params.items() if v}
        self.missing = compare(asked, self.qdiscs(), self.cmd(f"tc class show dev {self.name}"))
        if self.missing:
            text = f"{self.node.name} {self.name}: " + "; ".join(self.missing) + \
                " (kernel modules sch_htb, sch_tbf, sch_netem and sch_red do these)"
            if strict:
                raise LinkError(text)
            error(f"*** {text}\n")
        return result

    def qdiscs(self) -> List[Dict[str, Any]]:
        """tc's own account of the disciplines."""
        text = self.cmd(f"tc -j qdisc show dev {self.name}").strip()
        start = text.find("[")
        found: List[Dict[str, Any]] = json.loads(text[start:]) if start >= 0 else []
        return found


class CheckedTCLink(Link):  # type: ignore[misc]
    """A link of two CheckedTCIntfs."""

    def __init__(self, *args: Any, **params: Any) -> None:
        params.setdefault("cls1", CheckedTCIntf)  # Mininet itself names intf
        params.setdefault("cls2", CheckedTCIntf)
        super().__init__(*args, **params)
