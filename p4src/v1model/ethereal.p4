// Ethereal for v1model targets: BMv2 (simple_switch_grpc) and p4switch.
//
// A packet is routed by its destination. Downward there is one port. Upward, the
// label that the sending host chose names the uplink; the switch chooses by ECMP
// for a packet without a known label. If the chosen port is dead, the packet takes
// another uplink (upward) or is dropped (downward), and the switch sends a source
// quench, made from a clone, to the packet's source. The port's event itself becomes
// a notice to hosts that send no more packets: see notices.p4.
#include <core.p4>
#include <v1model.p4>

#define ETHEREAL_PACKET_IO
#define ETHEREAL_MICRO_SEGMENTS
#include "../shared/headers.p4"
#include "../shared/parser.p4"

const bit<32> INSTANCE_NORMAL        = 0;
const bit<32> INSTANCE_INGRESS_CLONE = 1;

// The controller's port: packet-out comes from it, packet-in goes to it.
const port_t CPU_PORT = 510;

#include "notices.p4"
#include "sources.p4"
#include "usid.p4"

// Bit i is set while uplink i is dead.
@name(".dead_uplinks")
register<bit<64>>(1) dead_uplinks;

#include "balancers.p4"
#ifdef ETHEREAL_CSIG
#include "csig.p4"
#endif

parser EtherealParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition accept;
    }
    ETHEREAL_PARSER_STATES
}

control EtherealVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control EtherealIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    // 0 while the port lives, else the epoch of its down event.
    @name(".port_down")
    register<bit<32>>(512) port_down;
    // When a source was last quenched for a port: us + 1, or 0 for never.
    @name(".quench_last")
    register<bit<48>>(4096) quench_last;

    @name(".fallback")
    counter(4, CounterType.packets_and_bytes) fallback;
    @name(".drops")
    counter(7, CounterType.packets_and_bytes) drops;
    @name(".source_route_counter")
    direct_counter(CounterType.packets_and_bytes) source_route_counter;

    @name(".ecmp_selector")
    @max_group_size(64)
    action_selector(HashAlgorithm.crc16, 1024, 16) ecmp_selector;

    action refuse(bit<8> reason) {
        drops.count((bit<32>)reason);
        mark_to_drop(standard_metadata);
    }

    @name(".set_device")
    action set_device(bit<32> switch_id, bit<32> hash_seed, bit<8> hash_offset, bit<8> uplinks,
                      bit<3> control_priority, bit<32> quench_interval_us) {
        meta.switch_id = switch_id;
        meta.hash_seed = hash_seed;
        meta.hash_offset = hash_offset;
        meta.uplinks = uplinks;
        meta.control_priority = control_priority;
        meta.quench_interval = quench_interval_us;
    }
    @name(".device")
    table device {
        actions = { set_device; }
        default_action = set_device(0, 0, 0, 0, 0, NEVER_QUENCH);
    }

    @name(".carrier_udp_sport")
    action carrier_udp_sport() {
        // The mark is the two top bits: 0xC000 to 0xFFFF.
        meta.label = hdr.udp.src[13:0];
        meta.labelled = hdr.udp.src[15:15] & hdr.udp.src[14:14];
    }
    @name(".carrier_flow_label")
    action carrier_flow_label() {
        meta.label = hdr.ipv6.flow_label[13:0];
        meta.labelled = (bit<1>)(hdr.ipv6.flow_label[19:14] == FLOW_LABEL_MARK);
    }
    @name(".label_carrier")
    table label_carrier {
        key = { meta.is_ipv6: exact @name("is_ipv6"); }
        actions = { carrier_udp_sport; carrier_flow_label; NoAction; }
        default_action = NoAction;
        size = 2;
    }

    // The last hop: to the host.
    @name(".deliver")
    action deliver(port_t port, mac_t dmac) {
        meta.port = port;
        meta.chosen = 1;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = dmac;
    }
    @name(".forward_down")
    action forward_down(port_t port) {
        meta.port = port;
        meta.chosen = 1;
    }
    @name(".forward_up")
    action forward_up(bit<16> group) {
        meta.group = group;
        meta.upward = 1;
    }
    // To the neighbour above that a micro segment names.
    @name(".forward_uplink")
    action forward_uplink(port_t port) {
        meta.port = port;
        meta.chosen = 1;
        meta.upward = 1;
    }
    @name(".discard")
    action discard() { }

    // The header checksum is corrected for what changes (RFC 1624), never made
    // anew: a header that came broken stays broken, and options need not be known.
    action count_down_ttl() {
        bit<17> sum = (bit<17>)hdr.ipv4.checksum + 0x100;
        hdr.ipv4.checksum = sum[15:0] + (bit<16>)sum[16:16];
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }
    action mark_rerouted_v4() {
        bit<6> dscp = hdr.ipv4.dscp | DSCP_REROUTED;
        bit<16> grown = (bit<16>)(dscp - hdr.ipv4.dscp) << 2;
        bit<17> sum = (bit<17>)hdr.ipv4.checksum + (bit<17>)(~grown);
        hdr.ipv4.checksum = sum[15:0] + (bit<16>)sum[16:16];
        hdr.ipv4.dscp = dscp;
    }
    @name(".route_v4")
    table route_v4 {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { deliver; forward_down; forward_up; discard; }
        default_action = discard;
        size = 16384;
    }
    @name(".route_v6")
    table route_v6 {
        key = { hdr.ipv6.dst: lpm @name("dst"); }
        actions = { deliver; forward_down; forward_up; forward_uplink; discard; }
        default_action = discard;
        size = 16384;
    }

    @name(".take_uplink")
    action take_uplink(port_t port) {
        meta.port = port;
        meta.chosen = 1;
    }
    @name(".source_route")
    table source_route {
        key = { meta.label: ternary @name("label"); }
        actions = { take_uplink; NoAction; }
        default_action = NoAction;
        counters = source_route_counter;
        size = 256;
    }
    @name(".ecmp")
    table ecmp {
        key = {
            meta.group: exact @name("group");
            meta.ecmp_key: selector @name("flow");
        }
        actions = { take_uplink; NoAction; }
        implementation = ecmp_selector;
        size = 1024;
    }

    // How a packet is balanced that no label guides. The default is by table ecmp.
    @name(".hash_flows")
    action hash_flows() { meta.balancer = BALANCE_HASH; }
    @name(".spray_round_robin")
    action spray_round_robin(bit<8> wraps) {
        meta.balancer = BALANCE_ROBIN;
        meta.wraps = wraps;
    }
    @name(".spray_random")
    action spray_random() { meta.balancer = BALANCE_RANDOM; }
    @name(".rotate_destinations")
    action rotate_destinations() { meta.balancer = BALANCE_ROTATION; }
    @name(".shortest_queue")
    action shortest_queue(bit<8> unit_shift, bit<19> bin1, bit<19> bin2, bit<19> bin3) {
        meta.balancer = BALANCE_SHORTEST;
        meta.unit_shift = unit_shift;
        meta.bin1 = bin1;
        meta.bin2 = bin2;
        meta.bin3 = bin3;
    }
    @name(".flowlets")
    action flowlets(bit<2> mode, bit<32> gap_us, bit<32> cost, bit<32> unit_cost) {
        meta.balancer = BALANCE_FLOWLET;
        meta.flowlet_mode = mode;
        meta.flowlet_gap = gap_us;
        meta.cost = cost;
        meta.unit_cost = unit_cost;
    }
    @name(".balancer")
    table balancer {
        key = { meta.is_data: exact @name("is_data"); }
        actions = { hash_flows; spray_round_robin; spray_random; rotate_destinations; shortest_queue; flowlets; }
        default_action = hash_flows;
        size = 2;
    }
    @name(".uplink_slot")
    table uplink_slot {
        key = { meta.group_slot: exact @name("slot"); }
        actions = { take_uplink; NoAction; }
        default_action = NoAction;
        size = 4096;
    }

    // Uplinks are numbered from 0 for the liveness bitmap.
    @name(".set_uplink_index")
    action set_uplink_index(bit<8> index) { meta.uplink_index = index; }
    @name(".uplink_of_port")
    table uplink_of_port {
        key = { meta.port: exact @name("port"); }
        actions = { set_uplink_index; NoAction; }
        default_action = NoAction;
        size = 64;
    }
    @name(".port_of_uplink")
    table port_of_uplink {
        key = { meta.uplink_index: exact @name("index"); }
        actions = { take_uplink; NoAction; }
        default_action = NoAction;
        size = 64;
    }

    // The lowest set bit of the rotated bitmap is the first live uplink at or
    // after the one the packet's hash points at.
    @name(".skip_uplinks")
    action skip_uplinks(bit<8> count) { meta.uplink_index = meta.start + count; }
    @name(".no_live_uplink")
    action no_live_uplink() { meta.uplink_index = NO_UPLINK; }
    @name(".first_live")
    table first_live {
        key = { meta.live: ternary @name("live"); }
        actions = { skip_uplinks; no_live_uplink; }
        const default_action = no_live_uplink;
        const entries = {
#include "../shared/first_live.p4"
        }
    }

    action hash_flow_v4() {
        hash(meta.hash, HashAlgorithm.crc32, 32w0,
             { meta.hash_seed, hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol, meta.l4_src, meta.l4_dst },
             64w0x100000000);
    }
    action hash_flow_v6() {
        hash(meta.hash, HashAlgorithm.crc32, 32w0,
             { meta.hash_seed, hdr.ipv6.src, hdr.ipv6.dst, hdr.ipv6.next_header, meta.l4_src, meta.l4_dst },
             64w0x100000000);
    }

    // A CRC is linear: two packets whose headers differ in the same bits have
    // hashes that differ in the same bits, so that a packet and its ACK, whose
    // ports are the same, would be sent by uplinks that are always equal or always
    // different, whatever the port. A product is not linear.
    action mix_hash() {
        meta.hash = (meta.hash ^ (meta.hash >> 15)) * 0x85EBCA6B;
        meta.hash = (meta.hash ^ (meta.hash >> 13)) * 0xC2B2AE35;
        meta.hash = meta.hash ^ (meta.hash >> 16);
    }

    Balancer() balance;
    Notices() notices;
    Sources() sources;
    MicroSegments() segments;

    apply {
        device.apply();

        bit<1> notice = 0;
        if (hdr.port_event.isValid()) {
            // One of the switch's ports changed its state. If it died, the packet continues as a notice.
            if (standard_metadata.ingress_port != PORT_EVENT_PORT || hdr.port_event.version != 1 ||
                hdr.port_event.port >= 512) {
                refuse(DROP_BAD_PORT_EVENT);
                exit;
            }
            bit<64> dead;
            meta.port = (port_t)hdr.port_event.port;
            meta.uplink_index = NO_UPLINK;
            uplink_of_port.apply();
            dead_uplinks.read(dead, 0);
            if (hdr.port_event.up != 0) {
                port_down.write((bit<32>)hdr.port_event.port, 0);
                if (meta.uplink_index < 64) {
                    dead_uplinks.write(0, dead & ~(64w1 << meta.uplink_index));
                }
                mark_to_drop(standard_metadata);
                exit;
            }
            port_down.write((bit<32>)hdr.port_event.port, hdr.port_event.epoch);
            if (meta.uplink_index < 64) {
                dead_uplinks.write(0, dead | (64w1 << meta.uplink_index));
            }
            meta.quench_port = hdr.port_event.port;
            meta.quench_epoch = hdr.port_event.epoch;
            meta.quench_switch = meta.switch_id;
            standard_metadata.priority = meta.control_priority;
            notice = 1;
        } else if (hdr.ipv4.isValid()) {
            if (hdr.ipv4.ttl <= 1) {
                refuse(DROP_TTL);
                exit;
            }
            count_down_ttl();
            route_v4.apply();
        } else if (hdr.ipv6.isValid()) {
            if (hdr.ipv6.hop_limit <= 1) {
                refuse(DROP_TTL);
                exit;
            }
            hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
            meta.is_ipv6 = 1;
            segments.apply(hdr);
            route_v6.apply();
        } else {
            // LLDP: the controller sends and receives it, to check the cabling.
            if (hdr.packet_out.isValid() && hdr.packet_out.egress_port < 512) {
                standard_metadata.egress_spec = (port_t)hdr.packet_out.egress_port;
            } else if (hdr.ethernet.isValid() && hdr.ethernet.type == ETHERTYPE_LLDP) {
                hdr.packet_in.setValid();
                hdr.packet_in.ingress_port = (bit<16>)standard_metadata.ingress_port;
                standard_metadata.egress_spec = CPU_PORT;
            } else {
                refuse(DROP_NOT_IP);
            }
            exit;
        }

        // What steers the senders goes first. Other traffic shares the queue of
        // the data, whatever it is.
        if (hdr.udp.isValid()) {
            meta.l4_src = hdr.udp.src;
            meta.l4_dst = hdr.udp.dst;
        }
        if (hdr.bth.isValid()) {
            // An outer header need not have the DSCP of the inner one: either will do.
            if (hdr.bth.opcode == BTH_ACK || hdr.bth.opcode == BTH_ATOMIC_ACK || hdr.bth.opcode == BTH_CNP ||
                (hdr.ipv4.isValid() && hdr.ipv4.dscp[5:2] == CLASS_NETWORK_CONTROL) ||
                (hdr.ipv6.isValid() && (hdr.ipv6.dscp[5:2] == CLASS_NETWORK_CONTROL ||
                 (hdr.inner_ipv4.isValid() && hdr.inner_ipv4.dscp[5:2] == CLASS_NETWORK_CONTROL) ||
                 (hdr.inner_ipv6.isValid() && hdr.inner_ipv6.dscp[5:2] == CLASS_NETWORK_CONTROL)))) {
                standard_metadata.priority = meta.control_priority;
            } else {
                meta.is_data = 1;
            }
        } else {
            bit<1> quench = 0;
            if (meta.l4_dst == UDP_QUENCH) {
                standard_metadata.priority = meta.control_priority;
                if (hdr.ipv4.isValid() && hdr.ipv4.dst == ALL_SYSTEMS) {
                    meta.port = standard_metadata.ingress_port;
                    notice = 1;
                } else {
                    quench = 1;
                }
            }
            if (notice == 1 || quench == 1) {
                bit<1> forged;
                notices.apply(hdr, meta, standard_metadata, quench, forged);
                if (forged == 1) { refuse(DROP_BAD_PORT_EVENT); }
                if (notice == 1 || forged == 1) { exit; }
            }
        }

        bit<1> foreign;
        sources.apply(hdr, standard_metadata, foreign);
        if (foreign == 1) {
            refuse(DROP_FOREIGN_SOURCE);
            exit;
        }

        if (meta.upward == 1) {
            if (hdr.bth.isValid()) {
                label_carrier.apply();
            }
            if (meta.labelled == 1 && meta.chosen == 0) {
                source_route.apply();
            }
            if (meta.chosen == 0) {
                if (meta.labelled == 1) {
                    fallback.count((bit<32>)FALLBACK_UNKNOWN_LABEL);
                } else {
                    fallback.count((bit<32>)FALLBACK_UNLABELLED);
                }
                balancer.apply();
                if (meta.balancer == BALANCE_HASH || meta.balancer == BALANCE_FLOWLET) {
                    if (meta.is_ipv6 == 1) { hash_flow_v6(); } else { hash_flow_v4(); }
                    mix_hash();
                }
                if (meta.balancer == BALANCE_HASH) {
                    meta.ecmp_key = (bit<16>)(meta.hash >> meta.hash_offset);
                    ecmp.apply();
                } else {
                    balance.apply(hdr, meta, standard_metadata);
                    meta.group_slot = meta.group ++ meta.slot;
                    uplink_slot.apply();
                }
            }
        }
        if (meta.chosen == 0) {
            refuse(DROP_NO_ROUTE);
            exit;
        }

        bit<32> epoch;
        port_down.read(epoch, (bit<32>)meta.port);
        if (epoch != 0) {
            meta.quench_port = (bit<16>)meta.port;
            meta.quench_epoch = epoch;
            meta.quench_switch = meta.switch_id;
            meta.quench_label = (bit<16>)meta.label;
            meta.quench_labelled = meta.labelled;

            bit<8> reason = DROP_DEAD_DOWN_PATH;
            meta.chosen = 0;
            if (meta.upward == 1) {
                bit<64> dead;
                reason = DROP_NO_LIVE_UPLINK;
                if (meta.balancer == BALANCE_HASH) {
                    if (meta.is_ipv6 == 1) { hash_flow_v6(); } else { hash_flow_v4(); }
                    hash(meta.start, HashAlgorithm.crc16, 8w0, { meta.hash }, (bit<16>)meta.uplinks);
                } else {
                    random(meta.start, 8w0, meta.uplinks - 1);
                }
                dead_uplinks.read(dead, 0);
                meta.live = ~dead & ((64w1 << meta.uplinks) - 1);
                meta.live = (meta.live >> meta.start) | (meta.live << (meta.uplinks - meta.start));
                first_live.apply();
                if (meta.uplink_index >= meta.uplinks && meta.uplink_index != NO_UPLINK) {
                    meta.uplink_index = meta.uplink_index - meta.uplinks;
                }
                port_of_uplink.apply();
                if (meta.chosen == 1) {
                    fallback.count((bit<32>)FALLBACK_REROUTED);
                    meta.quench_rerouted = 1;
                }
            }

            if (hdr.bth.isValid() && meta.quench_interval != NEVER_QUENCH) {
                bit<16> slot;
                bit<48> last;
                bit<48> now = standard_metadata.ingress_global_timestamp + 1;
                if (meta.is_ipv6 == 1) {
                    hash(slot, HashAlgorithm.crc32, 16w0, { hdr.ipv6.src, meta.quench_port }, 32w4096);
                } else {
                    hash(slot, HashAlgorithm.crc32, 16w0, { hdr.ipv4.src, meta.quench_port }, 32w4096);
                }
                quench_last.read(last, (bit<32>)slot);
                if (last == 0 || now - last >= (bit<48>)meta.quench_interval) {
                    quench_last.write((bit<32>)slot, now);
                    clone_preserving_field_list(CloneType.I2E,
                        QUENCH_SESSION + (bit<32>)standard_metadata.ingress_port, QUENCH_FIELDS);
                }
            }

            if (meta.chosen == 0) {
                refuse(reason);
                exit;
            }
            // The segments that are left lead to the dead port's switch: the packet goes on without, if it is
            // RoCEv2. Anything else could be what a host may not say bare, such as a notice.
            if (meta.is_ipv6 == 1) {
                if ((hdr.inner_ipv4.isValid() || hdr.inner_ipv6.isValid()) && !hdr.bth.isValid()) {
                    refuse(reason);
                    exit;
                }
                outer_off(hdr);
            }
            if (hdr.ipv4.isValid()) {
                mark_rerouted_v4();
            } else {
                hdr.ipv6.dscp = hdr.ipv6.dscp | DSCP_REROUTED;
            }
        }
        standard_metadata.egress_spec = meta.port;
    }
}

control EtherealEgress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    // RoCEv2 data; everything else. By egress port.
    @name(".port_tx_data")
    counter(512, CounterType.packets_and_bytes) port_tx_data;
    @name(".port_tx_control")
    counter(512, CounterType.packets_and_bytes) port_tx_control;

    // Marks with certainty from kmax up, with a probability that rises from 0 to
    // pmax/65536 between kmin and kmax. kmin == kmax is DCTCP's step.
    @name(".mark_between")
    action mark_between(bit<19> kmin, bit<19> kmax, bit<16> pmax) {
        meta.ecn_kmin = kmin;
        meta.ecn_kmax = kmax;
        meta.ecn_pmax = pmax;
        meta.ecn_on = 1;
    }
    @name(".ecn_profile")
    table ecn_profile {
        key = { standard_metadata.egress_port: exact @name("port"); }
        actions = { mark_between; NoAction; }
        default_action = NoAction;
        size = 512;
    }

    action mark() {
        // Only one of the two headers is valid; writing to the other is void.
        bit<16> grown = (bit<16>)(ECN_CE - hdr.ipv4.ecn);
        bit<17> sum = (bit<17>)hdr.ipv4.checksum + (bit<17>)(~grown);
        hdr.ipv4.checksum = sum[15:0] + (bit<16>)sum[16:16];
        hdr.ipv4.ecn = ECN_CE;
        hdr.ipv6.ecn = ECN_CE;
    }

    // The clone of a packet whose port was dead becomes a word to its source,
    // and goes back where the packet came from.
    action become_quench() {
        mac_t mac = hdr.ethernet.src;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.quench.setValid();
        hdr.quench.version = 1;
        hdr.quench.flags = 0;
        hdr.quench.labelled = meta.quench_labelled;
        hdr.quench.rerouted = meta.quench_rerouted;
        hdr.quench.label = meta.quench_label;
        hdr.quench.switch_id = meta.quench_switch;
        hdr.quench.port = meta.quench_port;
        hdr.quench.reserved = 0;
        hdr.quench.epoch = meta.quench_epoch;
        hdr.quench.pad_qp = 0;
        hdr.quench.dst_qp = hdr.bth.dst_qp;
        hdr.quench.pad_psn = 0;
        hdr.quench.psn = hdr.bth.psn;
        hdr.bth.setInvalid();
        hdr.udp.src = UDP_QUENCH;
        hdr.udp.dst = UDP_QUENCH;
        hdr.udp.length = 8 + QUENCH_BYTES;
        hdr.udp.checksum = 0;
    }
    action quench_v4() {
        bit<32> address = hdr.ipv4.src;
        hdr.ipv4.src = hdr.ipv4.dst;
        hdr.ipv4.dst = address;
        hdr.ipv4.dscp = DSCP_NETWORK_CONTROL;
        hdr.ipv4.ecn = ECN_NOT_ECT;
        hdr.ipv4.ttl = 64;
        hdr.ipv4.id = 0;
        hdr.ipv4.total_length = 20 + 8 + QUENCH_BYTES;
    }
    action quench_v6() {
        bit<128> address = hdr.ipv6.src;
        hdr.ipv6.src = hdr.ipv6.dst;
        hdr.ipv6.dst = address;
        hdr.ipv6.dscp = DSCP_NETWORK_CONTROL;
        hdr.ipv6.ecn = ECN_NOT_ECT;
        hdr.ipv6.hop_limit = 64;
        hdr.ipv6.flow_label = 0;
        hdr.ipv6.payload_length = 8 + QUENCH_BYTES;
        // IPv6 has no header checksum, so UDP's is not optional.
        hash(hdr.udp.checksum, HashAlgorithm.csum16, 16w0,
             { hdr.ipv6.src, hdr.ipv6.dst, 16w0, hdr.udp.length, 24w0, hdr.ipv6.next_header,
               hdr.udp.src, hdr.udp.dst, hdr.udp.length,
               hdr.quench.version, hdr.quench.flags, hdr.quench.labelled, hdr.quench.rerouted,
               hdr.quench.label, hdr.quench.switch_id, hdr.quench.port, hdr.quench.reserved,
               hdr.quench.epoch, hdr.quench.pad_qp, hdr.quench.dst_qp, hdr.quench.pad_psn, hdr.quench.psn },
             64w0x10000);
    }

#ifdef ETHEREAL_CSIG
    Csig() csig;
#endif
    BalancerFeedback() feedback;
    NoticeCopies() copies;

    apply {
        if (standard_metadata.instance_type != INSTANCE_NORMAL) {
            if (standard_metadata.instance_type == INSTANCE_INGRESS_CLONE) {
                bit<32> size = 14 + 8 + (bit<32>)QUENCH_BYTES;
#ifdef ETHEREAL_CSIG
                if (hdr.csig.isValid()) {
                    hdr.ethernet.type = hdr.csig.type;
                    hdr.csig.setInvalid();
                }
#endif
                outer_off(hdr);
                become_quench();
                if (hdr.vlan.isValid()) { size = size + 4; }
                if (hdr.ipv4.isValid()) {
                    quench_v4();
                    size = size + 20;
                } else {
                    quench_v6();
                    if (hdr.udp.checksum == 0) { hdr.udp.checksum = 0xFFFF; } // 0 would mean none
                    size = size + 40;
                }
                truncate(size);
            } else {
                copies.apply(hdr, meta, standard_metadata); // nothing but notices is replicated
            }
        }

#ifdef ETHEREAL_CSIG
        csig.apply(hdr, standard_metadata);
#endif
        if (meta.is_data == 0) {
            port_tx_control.count((bit<32>)standard_metadata.egress_port);
        } else {
            port_tx_data.count((bit<32>)standard_metadata.egress_port);
            if (meta.balancer >= BALANCE_SHORTEST) {
                feedback.apply(meta, standard_metadata);
            }
            if ((hdr.ipv4.isValid() && hdr.ipv4.ecn != ECN_NOT_ECT) ||
                (hdr.ipv6.isValid() && hdr.ipv6.ecn != ECN_NOT_ECT)) {
                ecn_profile.apply();
                if (meta.ecn_on == 1) {
                    if (standard_metadata.deq_qdepth >= meta.ecn_kmax) {
                        mark();
                    } else if (standard_metadata.deq_qdepth > meta.ecn_kmin) {
                        bit<16> chance;
                        random(chance, 16w0, 16w65535);
                        // chance/65536 < pmax/65536 * (depth-kmin)/(kmax-kmin)
                        if ((bit<40>)chance * (bit<40>)(meta.ecn_kmax - meta.ecn_kmin) <
                            (bit<40>)meta.ecn_pmax * (bit<40>)(standard_metadata.deq_qdepth - meta.ecn_kmin)) {
                            mark();
                        }
                    }
                }
            }
        }
    }
}

control EtherealCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        // Only a quench or a notice has a header of the switch's own; see count_down_ttl.
        update_checksum(hdr.quench.isValid() && hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
              hdr.ipv4.id, hdr.ipv4.flags, hdr.ipv4.fragment, hdr.ipv4.ttl, hdr.ipv4.protocol,
              hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control EtherealDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
#ifdef ETHEREAL_CSIG
        packet.emit(hdr.csig);
#endif
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.inner_ipv4);
        packet.emit(hdr.inner_ipv6);
        packet.emit(hdr.udp);
        packet.emit(hdr.quench);
        packet.emit(hdr.bth);
    }
}

V1Switch(EtherealParser(), EtherealVerify(), EtherealIngress(), EtherealEgress(),
         EtherealCompute(), EtherealDeparser()) main;
