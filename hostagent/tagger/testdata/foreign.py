"""A RoCEv2 sender that knows nothing of this project, and a judge of what
arrived. Both are scapy's; for IPv6, whose ICRC scapy does not know, the ICRC is
made here, from the InfiniBand specification's words and zlib.

    foreign.py send INTERFACE COUNT     sends, and prints nothing
    foreign.py judge CAPTURE            prints a line per packet: IP version,
                                        destination, queue pair, source port,
                                        flow label, UDP length, ICRC ok (1/0),
                                        UDP checksum ok (1/0, - = none)
"""

import random
import struct
import sys
import zlib

from scapy.all import IP, UDP, Dot1Q, Ether, IPOption, IPv6, Raw, conf, raw, rdpcap
from scapy.contrib.roce import BTH
from scapy.layers.inet6 import in6_chksum
from scapy.layers.inet import in4_chksum

MAC = "02:00:00:00:00:01"


def icrc6(packet):
    """The ICRC of a whole IPv6 packet, as bytes on the wire."""
    p = bytearray(packet[:-4])
    p[0] |= 0x0F
    p[1] = p[2] = p[3] = 0xFF
    p[7] = 0xFF
    p[46] = p[47] = 0xFF
    p[52] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(p)))


def frames(count):
    rng = random.Random(4791)
    for i in range(count):
        size = rng.choice([0, 4, 64, 256, 1024, 4096, 8192, 4 * rng.randrange(2200)])
        udp = UDP(sport=rng.randrange(0xC000, 0x10000), dport=4791, chksum=0 if i % 3 else None)
        bth = BTH(opcode="RC_RDMA_WRITE_MIDDLE", dqpn=0x100 + i % 8, psn=i, ackreq=i & 1)
        payload = Raw(rng.randbytes(size))
        ether = Ether(src=MAC, dst="02:00:00:00:00:02")
        if i % 5 == 0:
            ether /= Dot1Q(vlan=7, prio=3)
        if i % 2:
            ip = IPv6(src="fd00::9", dst="fd00::%x" % (1 + i % 3), fl=rng.randrange(1 << 20), tc=0x62)
            udp.chksum = None  # scapy makes one; below it is made again
            p = bytearray(raw(ip / udp / Raw(raw(bth)[:12] + raw(payload) + b"\0\0\0\0")))
            p[-4:] = icrc6(p)
            p[46:48] = b"\0\0"
            if i % 3 == 0:
                p[46:48] = struct.pack("!H", in6_chksum(17, ip, bytes(p[40:])))
            yield raw(ether)[:-2] + b"\x86\xdd" + bytes(p)
        else:
            options = [IPOption(b"\x94\x04\0\0")] if i % 7 == 0 else []
            ip = IP(src="10.9.9.9", dst="10.0.0.%d" % (1 + i % 3), id=i, tos=0x62, options=options)
            yield raw(ether / ip / udp / bth / payload)


def send(interface, count):
    s = conf.L2socket(iface=interface)
    for f in frames(count):
        s.send(f)


def judge(capture):
    for p in rdpcap(capture):
        ip = p[IPv6] if IPv6 in p else p[IP]
        udp = p[UDP]
        datagram = raw(ip)
        if IPv6 in p:
            datagram = datagram[: 40 + ip.plen]
            head, label, start = 40, ip.fl, 40
            bth = datagram[48:60]
            ok = datagram[-4:] == icrc6(datagram)
            summed = datagram[:46] + b"\0\0" + datagram[48:]
            want = in6_chksum(17, ip, summed[40:])
        else:
            datagram = datagram[: ip.len]
            start, label = 4 * ip.ihl, 0
            bth = datagram[start + 8 : start + 20]
            again = IP(datagram)  # build it again, with the ICRC left to scapy
            again[BTH].icrc = None
            ok = raw(again)[-4:] == datagram[-4:]
            summed = datagram[: start + 6] + b"\0\0" + datagram[start + 8 :]
            want = in4_chksum(17, ip, summed[start:])
        got = struct.unpack("!H", datagram[start + 6 : start + 8])[0]
        sum_ok = "-" if got == 0 else "%d" % (got == (want or 0xFFFF))
        print(ip.version, ip.dst, int.from_bytes(bth[5:8], "big"), udp.sport, label, udp.len, int(ok), sum_ok)


if sys.argv[1] == "send":
    send(sys.argv[2], int(sys.argv[3]))
else:
    judge(sys.argv[2])
