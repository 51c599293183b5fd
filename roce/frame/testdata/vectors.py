#!/usr/bin/env python3
"""Makes icrc.txt: RoCEv2 frames whose ICRC an independent implementation computed.

The implementation is Scapy's contrib/roce.py. Release 2.5.0 (Debian 12's
python3-scapy) knows the ICRC over IPv4 only; the IPv6 frames need 2.6.0 or
newer and are left out, with a warning, where it is older.

    python3 vectors.py > icrc.txt
"""

import random
import sys
import inspect

from scapy.all import Dot1Q, Ether, IP, IPv6, Raw, UDP
from scapy.contrib import roce
from scapy.contrib.roce import AETH, BTH, cnp

rng = random.Random(4791)
HAS_V6 = "IPv6" in inspect.getsource(roce.BTH.compute_icrc)


def data(n):
    return Raw(bytes(rng.randrange(256) for _ in range(n)))


def reth(length):
    return Raw(rng.randbytes(8) + rng.randbytes(4) + length.to_bytes(4, "big"))


def bth(opcode, payload=0, **kw):
    return BTH(opcode=opcode, padcount=-payload % 4, dqpn=rng.randrange(1 << 24), psn=rng.randrange(1 << 24), **kw)


def transports():
    """Everything from the BTH on, by name."""
    yield "write-only", bth(0x0A, 64, ackreq=1, migreq=1) / reth(64) / data(64)
    yield "write-first-4096", bth(0x06, 4096) / reth(1 << 20) / data(4096)
    yield "write-middle-9000", bth(0x07, 9000) / data(9000)
    yield "write-last-pad3", bth(0x08, 4093, ackreq=1) / data(4093 + 3)
    yield "write-only-empty", bth(0x0A, 0, ackreq=1) / reth(0)
    yield "send-only-pad1", bth(0x04, 7, solicited=1) / data(8)
    yield "send-last-immediate", bth(0x03, 16) / data(4 + 16)
    yield "write-middle-fecn", bth(0x07, 1024, fecn=1, resv6=5) / data(1024)
    yield "ack", bth(0x11) / AETH(syndrome=0x1F, msn=77)
    yield "ack-becn", bth(0x11, becn=1) / AETH(syndrome=0x1F, msn=0xFFFFFF)
    yield "nak", bth(0x11) / AETH(syndrome=0x60, msn=1)
    yield "cnp", cnp(rng.randrange(1 << 24))


def frames():
    for i, (name, transport) in enumerate(transports()):
        sport = 0xC000 | rng.randrange(1 << 14)
        v4 = IP(src="10.1.2.3", dst="10.0.7.2", tos=rng.randrange(256), ttl=rng.randrange(1, 256),
                id=rng.randrange(1 << 16), flags="DF")
        v6 = IPv6(src="fd00:0:0:e7:1:2::3", dst="fd00:0:0:e7:0:7::2", tc=rng.randrange(256),
                  fl=rng.randrange(1 << 20), hlim=rng.randrange(1, 256))
        eth = Ether(src="02:e7:00:00:00:01", dst="02:e7:00:00:00:02")
        # Scapy fills in a UDP checksum for every other frame; RNICs send 0.
        udp = UDP(sport=sport, dport=4791, **({} if i % 2 else {"chksum": 0}))
        yield f"v4-{name}", eth / v4 / udp / transport
        yield f"v4-vlan-{name}", eth / Dot1Q(vlan=100, prio=3) / v4 / udp / transport
        if HAS_V6:
            yield f"v6-{name}", eth / v6 / udp / transport
            yield f"v6-vlan-{name}", eth / Dot1Q(vlan=7) / v6 / udp / transport


print("# Frames with the ICRC Scapy computes, made by vectors.py: name, then the frame in hex.")
for name, frame in frames():
    print(name, bytes(frame).hex())
if not HAS_V6:
    print("vectors.py: this Scapy has no ICRC over IPv6; those frames are left out", file=sys.stderr)
