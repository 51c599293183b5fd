// Headers, metadata and constants of the Ethereal data plane, shared by every
// architecture.
#ifndef ETHEREAL_HEADERS_P4
#define ETHEREAL_HEADERS_P4

typedef bit<48> mac_t;
typedef bit<9>  port_t;
typedef bit<14> label_t;

const bit<16> ETHERTYPE_IPV4       = 0x0800;
const bit<16> ETHERTYPE_VLAN       = 0x8100;
const bit<16> ETHERTYPE_IPV6       = 0x86DD;
const bit<16> ETHERTYPE_LLDP       = 0x88CC;
const bit<16> ETHERTYPE_PORT_EVENT = 0x88B6; // IEEE 802 local experimental 2

const bit<8>  PROTOCOL_UDP  = 17;
const bit<8>  PROTOCOL_IPV4 = 4;  // within IPv6
const bit<8>  PROTOCOL_IPV6 = 41;
const bit<16> UDP_ROCEV2   = 4791;
const bit<16> UDP_QUENCH   = 47910;

// The label carriers: the low 14 bits of the UDP source port, or of the IPv6 flow
// label. The bits above, all ones, mark the packet as labelled. A packet in an outer
// IPv6 header goes by the micro segments (SRv6 uSID, RFC 9800) of its destination
// instead: the label in the outer flow label says then what path they were made of.
const bit<6> FLOW_LABEL_MARK = 0b111111;

// BTH opcodes (reliable connection) that steer congestion control and must not
// wait behind data, and the congestion notification packet.
const bit<8> BTH_ACK        = 0x11;
const bit<8> BTH_ATOMIC_ACK = 0x12;
const bit<8> BTH_CNP        = 0x81;

const bit<2> ECN_NOT_ECT = 0;
const bit<2> ECN_CE      = 3;

// A packet that was sent round a dead uplink: the DSCP moves to pool 2 (RFC
// 2474), whose last two bits are ones. The invariant CRC masks the DSCP.
const bit<6> DSCP_REROUTED = 0b000011;

// Port-event packets are believed from this ingress port only: the switch's own
// packet generator, or the process that watches its interfaces.
const port_t PORT_EVENT_PORT = 508;

// Clone session QUENCH_SESSION + p sends to port p.
const bit<32> QUENCH_SESSION = 512;

const bit<32> NEVER_QUENCH = 0xFFFFFFFF;

// A notice is UDP from nowhere to all systems on the link (RFC 1112): no router
// passes it on, no host needs to join, and IPv6 hosts hear it too.
const bit<32> ALL_SYSTEMS     = 0xE0000001; // 224.0.0.1
const mac_t   ALL_SYSTEMS_MAC = 0x01005E000001;
const bit<16> SWITCH_MAC      = 0x02E7;     // and the switch's id behind it
const bit<8>  NOTICE_TTL      = 8;          // a switch that passes it on takes one
const bit<6>  QUENCH_NOTICE   = 1;          // the quench's flag: no packet is meant

const bit<8> NO_UPLINK = 0xFF;

// Metadata that a quench's clone keeps.
#define QUENCH_FIELDS 1

const bit<6> DSCP_NETWORK_CONTROL = 48; // CS6
// RoCEv2 packets of network control's DSCP, CS6, are control, such as a host's path probes. The mark of a rerouted
// packet leaves these four bits as they are.
const bit<4> CLASS_NETWORK_CONTROL = DSCP_NETWORK_CONTROL[5:2];

// Why a packet fell back from its label; indices of counter
// `fallback`; 0 is not used.
const bit<8> FALLBACK_UNLABELLED    = 1;
const bit<8> FALLBACK_UNKNOWN_LABEL = 2;
const bit<8> FALLBACK_REROUTED      = 3;

// Why a packet was dropped; indices of counter `drops`.
const bit<8> DROP_NO_ROUTE       = 0;
const bit<8> DROP_TTL            = 1;
const bit<8> DROP_DEAD_DOWN_PATH = 2;
const bit<8> DROP_NO_LIVE_UPLINK = 3;
const bit<8> DROP_BAD_PORT_EVENT = 4;
const bit<8> DROP_NOT_IP         = 5; // nor LLDP; a controller's packet for no port
const bit<8> DROP_FOREIGN_SOURCE = 6; // a host sent the packet with another host's address

// What the source guards take for nobody's address.
const bit<10> LINK_LOCAL   = 0b1111111010; // fe80::/10, RFC 4291
const bit<8>  MULTICAST_V6 = 0xFF;         // ff00::/8

header ethernet_t {
    mac_t   dst;
    mac_t   src;
    bit<16> type;
}

header vlan_t {
    bit<3>  pcp;
    bit<1>  dei;
    bit<12> vid;
    bit<16> type;
}

#ifdef ETHEREAL_CSIG
const bit<16> ETHERTYPE_CSIG = 0x88B5; // IEEE 802 local experimental 1: none is assigned

// Values of csig.signal_type: in the order of the Ultra Ethernet Consortium.
const bit<4> CSIG_AVAILABLE = 0; // least available bandwidth
const bit<4> CSIG_RELATIVE  = 1; // least share of a link's bandwidth that is available
const bit<4> CSIG_DELAY     = 2; // greatest delay of a hop

// A wide CSIG tag behind its EtherType, which is Ethernet's: our reading of the draft.
header csig_t {
    bit<4>  signal_type;
    bit<20> value;
    bit<24> locator;     // of the port whose signal it is
    bit<16> type;        // of what follows
}
#endif

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<6>  dscp;
    bit<2>  ecn;
    bit<16> total_length;
    bit<16> id;
    bit<3>  flags;
    bit<13> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

header ipv6_t {
    bit<4>   version;
    bit<6>   dscp;
    bit<2>   ecn;
    bit<20>  flow_label;
    bit<16>  payload_length;
    bit<8>   next_header;
    bit<8>   hop_limit;
    bit<128> src;
    bit<128> dst;
}

header udp_t {
    bit<16> src;
    bit<16> dst;
    bit<16> length;
    bit<16> checksum;
}

// InfiniBand base transport header.
header bth_t {
    bit<8>  opcode;
    bit<1>  solicited;
    bit<1>  migration;
    bit<2>  pad;
    bit<4>  version;
    bit<16> pkey;
    bit<8>  resv8a; // FECN, BECN
    bit<24> dst_qp;
    bit<1>  ack_request;
    bit<7>  resv7;
    bit<24> psn;
}

// What a switch tells the source of a packet whose port was dead.
header quench_t {
    bit<8>  version;    // 1
    bit<6>  flags;
    bit<1>  labelled;   // the label field is valid
    bit<1>  rerouted;   // the packet went on by another uplink; else it was dropped
    bit<16> label;
    bit<32> switch_id;
    bit<16> port;       // the dead one
    bit<16> reserved;
    bit<32> epoch;      // of the port's down event
    bit<8>  pad_qp;
    bit<24> dst_qp;     // of the packet
    bit<8>  pad_psn;
    bit<24> psn;
}

const bit<16> QUENCH_BYTES = 24;

// One port's change of state, as the data plane is told of it.
header port_event_t {
    bit<8>  version;    // 1
    bit<8>  up;         // 0 or 1
    bit<16> port;
    bit<32> epoch;      // counts the port's events; not 0
}

// Packets to and from the controller, for architectures whose parser and deparser
// know them: they define ETHEREAL_PACKET_IO.
#ifdef ETHEREAL_PACKET_IO
// What a controller's packet begins with (P4Runtime packet-out): it is sent by a
// port as it is, past all tables.
@controller_header("packet_out")
header packet_out_t {
    bit<16> egress_port;
}

// What a packet begins with that goes to the controller (packet-in).
@controller_header("packet_in")
header packet_in_t {
    bit<16> ingress_port;
}
#endif

struct headers_t {
#ifdef ETHEREAL_PACKET_IO
    packet_out_t packet_out;
    packet_in_t  packet_in;
#endif
    ethernet_t   ethernet;
    vlan_t       vlan;
#ifdef ETHEREAL_CSIG
    csig_t       csig;
#endif
    port_event_t port_event;
    ipv4_t       ipv4;
    ipv6_t       ipv6;
#ifdef ETHEREAL_MICRO_SEGMENTS
    ipv4_t       inner_ipv4; // where ipv6 is an outer header
    ipv6_t       inner_ipv6;
#endif
    udp_t        udp;
    bth_t        bth;
    quench_t     quench;
}

struct metadata_t {
    // Set by table `device`.
    bit<32> switch_id;
    bit<32> hash_seed;
    bit<8>  hash_offset;
    bit<8>  uplinks;
    bit<3>  control_priority;
    bit<32> quench_interval; // us

    // The packet's place in the fabric.
    bit<1>  is_ipv6;
    bit<1>  is_data;         // RoCEv2 data
    bit<1>  labelled;
    bit<1>  upward;
    bit<1>  chosen;          // an output port is known
    label_t label;
    port_t  port;
    bit<16> group;
    bit<16> l4_src;          // UDP ports; 0 for all else
    bit<16> l4_dst;
    bit<32> hash;
    bit<16> ecmp_key;

    // Rerouting round a dead uplink.
    bit<64> live;            // bitmap of live uplinks, rotated
    bit<8>  uplink_index;
    bit<8>  start;

    // Set by table `balancer`, for packets that no label guides.
    bit<3>  balancer;
    bit<8>  wraps;           // round robin: until the order is shuffled; 0: never
    bit<19> bin1;            // shortest queue: depths that count as equal; all 0: none do
    bit<19> bin2;
    bit<19> bin3;
    bit<8>  unit_shift;      // log2 of the bytes in a unit of queue depth
    bit<2>  flowlet_mode;
    bit<32> flowlet_gap;     // us
    bit<32> cost;            // flowlet: ns that 256 bytes make an uplink busy
    bit<32> unit_cost;       // flowlet: ns that a unit of queue depth does
    // Found by the balancer.
    bit<8>  slots;
    bit<8>  slot;
    bit<24> group_slot;
    bit<12> rotation;
    bit<8>  balanced_uplink;

    // Egress: the ECN marking profile of the port.
    bit<19> ecn_kmin;
    bit<19> ecn_kmax;
    bit<16> ecn_pmax;
    bit<1>  ecn_on;

    // Carried into the clone that becomes a quench.
    @field_list(QUENCH_FIELDS)
    bit<16> quench_port;
    @field_list(QUENCH_FIELDS)
    bit<32> quench_epoch;
    @field_list(QUENCH_FIELDS)
    bit<32> quench_switch;
    @field_list(QUENCH_FIELDS)
    bit<16> quench_label;
    @field_list(QUENCH_FIELDS)
    bit<1>  quench_labelled;
    @field_list(QUENCH_FIELDS)
    bit<1>  quench_rerouted;
}

#endif
