// Headers and metadata that only the chip's architecture has.
#ifndef ETHEREAL_TNA_HEADERS_P4
#define ETHEREAL_TNA_HEADERS_P4

// The port of a pipe on which the packet generator's packets come in, and the
// port to the CPU (PCIe): packet-out comes from it, packet-in goes to it. A
// packet-out to PORT_EVENT_PORT, which is no port of a chip, is a port-event packet.
#if __TARGET_TOFINO__ == 2
const PortId_t PKTGEN_PORT = 6;
#ifndef CPU_PORT
#define CPU_PORT 0
#endif
#else
const PortId_t PKTGEN_PORT = 68;
#ifndef CPU_PORT
#define CPU_PORT 320
#endif
#endif
const PortId_t PKTGEN_PORT_MASK = 0x7F; // of any pipe

typedef bit<12> quench_slot_t;

const MirrorType_t MIRROR_QUENCH = 1;

const bit<8> NO_DROP = 0xFF;

// The first byte of what goes from ingress to egress. A mirror's constants are 0.
const bit<8> KIND_QUENCH = 0;
const bit<8> KIND_PACKET = 1;
const bit<8> KIND_AS_IS  = 2; // to or from the controller: nothing behind is parsed
const bit<8> KIND_NOTICE = 3; // a copy of a port's down event: nothing behind is parsed
const bit<8> KIND_PASSED = 4; // a copy of another switch's notice

header bridge_t {
    bit<8> kind;
}

// What a mirrored packet brings along, the quench to be; and what each copy of a
// notice does: the port that died, or the one it came by.
header quench_mirror_t {
    bit<8>  kind;
    @padding
    bit<6>  pad_flags;
    bit<1>  labelled;
    bit<1>  rerouted;
    @padding
    bit<2>  pad_label;
    label_t label;
    bit<32> switch_id;
    @padding
    bit<7>  pad_port;
    PortId_t port;
    bit<32> epoch;
}

struct ingress_headers_t {
    bridge_t                  bridge;
    quench_mirror_t           notice;
    pktgen_port_down_header_t port_down;
    packet_out_t              packet_out;
    packet_in_t               packet_in;
    ethernet_t                ethernet;
    vlan_t                    vlan;
#ifdef ETHEREAL_CSIG
    csig_t                    csig;
#endif
    port_event_t              port_event;
    ipv4_t                    ipv4;
    ipv6_t                    ipv6;
    udp_t                     udp;
    bth_t                     bth;
}

struct egress_headers_t {
    bridge_t        bridge;
    quench_mirror_t mirror;
    ethernet_t      ethernet;
    vlan_t          vlan;
#ifdef ETHEREAL_CSIG
    csig_t          csig;
#endif
    port_event_t    port_event; // never valid: for the shared parser
    ipv4_t          ipv4;
    ipv6_t          ipv6;
    udp_t           udp;
    ipv4_t          own_v4;     // of a quench or notice
    udp_t           own_udp;
    udp_t           own_udp_v6; // with a checksum
    bth_t           bth;
    quench_t        quench;
}

struct ingress_metadata_t {
    // Set by table `device`.
    bit<32> switch_id;
    bit<32> hash_seed;
    bit<8>  hash_offset;
    bit<3>  control_priority;
    bit<32> quench_interval; // 1.024 us

    // The packet's place in the fabric.
    bit<1>   is_ipv6;
    bit<1>   sport_marked;
    bit<1>   flow_marked;
    bit<1>   labelled;
    bit<1>   upward;
    bit<1>   chosen;         // an output port is known
    bit<1>   as_is;          // to or from the controller
    label_t  label;
    PortId_t port;
    bit<16>  group;
    bit<16>  l4_src;         // UDP ports; 0 for all else
    bit<16>  l4_dst;
    bit<32>  hash;
    bit<16>  ecmp_key;
    bit<16>  old_sum;        // complement of the IPv4 header's checksum
    bit<16>  ttl_grown;      // what is added to words of the header: see count_down_ttl
    bit<16>  tos_grown;
    bit<8>   fallback;       // reasons
    bit<8>   drop;

    // The source less the host's own address, and whether it is another host's: see source_guard.
    bit<32>  other_v4;
    bit<64>  other_v6_high;
    bit<64>  other_v6_low;
    bit<1>   foreign;

    // The packet's port is dead.
    bit<32>       epoch;     // of its down event
    bit<1>        dead;
    bit<1>        rerouted;
    PortId_t      dead_port;
    quench_slot_t slot;
    bit<1>        quench_due;
    bit<32>       now;       // 1.024 us
    bit<32>       due_before;
    MirrorId_t    mirror_session;

    // A port event.
    bit<1>   event;
    bit<1>   event_up;
    PortId_t event_port;     // port has it too, but uplink_of_port must not wait for source_route: see docs/tofino.md
    bit<32>  event_epoch;
    bit<32>  member;         // the port's bit among the selector's members
    bit<1>   member_known;

    // A notice: of the port's own death, or another switch's that is passed on. Or another switch's quench.
    bit<1>   notice;
    bit<1>   quench;
    PortId_t notice_port;    // that died, or by which the notice came
    bit<16>  own_group;
    bit<16>  passed_group;
    bit<16>  notice_id;      // its entry of notice_last
    bit<1>   notice_due;
}

struct egress_metadata_t {
    bit<16> old_sum;         // complement of the IPv4 header's checksum
    bit<16> tos_grown;       // by the mark: see count_down_ttl
    bit<1>  is_data;         // RoCEv2 data

    // ECN: the queue's depth less kmin, less kmax, as two's complement.
    bit<1>  ecn_on;
    bit<19> depth;
    bit<19> over_min;
    bit<19> over_max;
    bit<19> span;            // kmax - kmin
    bit<16> ecn_pmax;
    bit<16> threshold;       // mark if a 16-bit roll is below
    bit<16> roll;
    bit<16> excess;
#ifdef ETHEREAL_CSIG
    bit<16> csig_window;     // of 65.536 us, by its number
    bit<16> csig_elapsed;    // windows since the port last sent
    bit<16> csig_bytes;      // of the packet, and 32
    bit<32> csig_length;     // of the packet, in quarters of a byte
#endif
}

#endif
