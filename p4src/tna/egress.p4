// Egress: ECN marking from the queue, counters, and the source quench.

parser EgressParser(packet_in packet, out egress_headers_t hdr, out egress_metadata_t meta,
                    out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        transition select(packet.lookahead<bit<8>>()) {
            KIND_QUENCH: parse_mirror;
            KIND_NOTICE: parse_notice;
            KIND_PASSED: parse_mirror;
            KIND_AS_IS: parse_as_is;
            default: parse_bridge;
        }
    }
    state parse_as_is {
        packet.extract(hdr.bridge);
        transition accept;
    }
    state parse_mirror {
        packet.extract(hdr.mirror);
        transition parse_ethernet;
    }
    state parse_notice {
        packet.extract(hdr.mirror);
        transition accept;
    }
    state parse_bridge {
        packet.extract(hdr.bridge);
        transition parse_ethernet;
    }
    ETHEREAL_PARSER_STATES
}

control Egress(inout egress_headers_t hdr, inout egress_metadata_t meta,
               in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t for_deparser,
               inout egress_intrinsic_metadata_for_output_port_t for_port) {
    // RoCEv2 data; everything else. By egress port.
    @name(".port_tx_data")
    Counter<bit<64>, PortId_t>(512, CounterType_t.PACKETS_AND_BYTES) port_tx_data;
    @name(".port_tx_control")
    Counter<bit<64>, PortId_t>(512, CounterType_t.PACKETS_AND_BYTES) port_tx_control;
    Random<bit<16>>() random;
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash_notice;

    // Marks with certainty from kmax up, with a probability that rises from 0 to
    // pmax/65536 between kmin and kmax. kmin == kmax is DCTCP's step. The chip
    // cannot multiply: between the two the line is a staircase of powers of two,
    // off by less than a factor of two. Depths are in cells of the packet buffer.
    @name(".mark_between")
    action mark_between(bit<19> kmin, bit<19> kmax, bit<16> pmax) {
        meta.over_min = kmin;
        meta.over_max = kmax;
        meta.depth = intrinsic.deq_qdepth;
        meta.ecn_pmax = pmax;
        meta.ecn_on = 1;
    }
    @name(".ecn_profile")
    table ecn_profile {
        key = { intrinsic.egress_port: exact @name("port"); }
        actions = { mark_between; NoAction; }
        default_action = NoAction;
        size = 512;
    }

#define HALVE(n) action halve_##n() { meta.threshold = meta.ecn_pmax >> n; }
    HALVE(0) HALVE(1) HALVE(2) HALVE(3) HALVE(4) HALVE(5) HALVE(6) HALVE(7)
    HALVE(8) HALVE(9) HALVE(10) HALVE(11) HALVE(12) HALVE(13) HALVE(14) HALVE(15)
    action never() { meta.threshold = 0; }

    // pmax * (depth - kmin) / (kmax - kmin), by the highest bits of the two.
    @name(".ecn_curve")
    table ecn_curve {
        key = {
            meta.over_min: ternary @name("over");
            meta.span: ternary @name("span");
        }
        actions = {
            halve_0; halve_1; halve_2; halve_3; halve_4; halve_5; halve_6; halve_7;
            halve_8; halve_9; halve_10; halve_11; halve_12; halve_13; halve_14; halve_15;
            never;
        }
        size = 183;
        const default_action = never;
        const entries = {
#include "ecn_curve.p4"
        }
    }

    // The chip subtracts no parameter of an action.
    action compare_depth() {
        meta.over_min = meta.depth - meta.over_min;
        meta.over_max = meta.depth - meta.over_max;
    }
    action compute_span() { meta.span = meta.over_min - meta.over_max; }
    action throw_dice() { meta.roll = random.get(); }
    action compare() { meta.excess = meta.threshold |-| meta.roll; }
    action keep_sum() { meta.old_sum = ~hdr.ipv4.checksum; }
    action mark_v4(bit<16> grown) {
        hdr.ipv4.ecn = ECN_CE;
        meta.tos_grown = grown;
    }
    action mark_v6() { hdr.ipv6.ecn = ECN_CE; }

    // What a quench and a notice say of the port.
    action tell_of_port() {
        hdr.quench.setValid();
        hdr.quench.version = 1;
        hdr.quench.flags = 0;
        hdr.quench.labelled = hdr.mirror.labelled;
        hdr.quench.rerouted = hdr.mirror.rerouted;
        hdr.quench.label = (bit<16>)hdr.mirror.label;
        hdr.quench.switch_id = hdr.mirror.switch_id;
        hdr.quench.port = (bit<16>)hdr.mirror.port;
        hdr.quench.reserved = 0;
        hdr.quench.epoch = hdr.mirror.epoch;
        hdr.quench.pad_qp = 0;
        hdr.quench.pad_psn = 0;
        hdr.udp.setInvalid();
        hdr.own_udp.src = UDP_QUENCH;
        hdr.own_udp.dst = UDP_QUENCH;
        hdr.own_udp.length = 8 + QUENCH_BYTES;
        hdr.own_udp.checksum = 0;
        hdr.own_udp_v6.src = UDP_QUENCH;
        hdr.own_udp_v6.dst = UDP_QUENCH;
        hdr.own_udp_v6.length = 8 + QUENCH_BYTES;
        hdr.own_udp_v6.checksum = 0;
    }
    // The mirror of a packet whose port was dead goes back where the packet came from.
    action answer() {
        mac_t mac = hdr.ethernet.src;
        hdr.ethernet.src = hdr.ethernet.dst;
        hdr.ethernet.dst = mac;
        hdr.quench.dst_qp = hdr.bth.dst_qp;
        hdr.quench.psn = hdr.bth.psn;
    }
    // The copy of a port's down event is a packet of the switch's own.
    action become_notice() {
        hdr.ethernet.setValid();
        hdr.ethernet.dst = ALL_SYSTEMS_MAC;
        hdr.ethernet.src = SWITCH_MAC ++ hdr.mirror.switch_id;
        hdr.ethernet.type = ETHERTYPE_IPV4;
        hdr.quench.flags = QUENCH_NOTICE;
        hdr.quench.dst_qp = 0;
        hdr.quench.psn = 0;
    }
    // The header of a quench or notice, but for its addresses.
    action own_v4() {
        hdr.own_v4.setValid();
        hdr.own_v4.version = 4;
        hdr.own_v4.ihl = 5;
        hdr.own_v4.dscp = DSCP_NETWORK_CONTROL;
        hdr.own_v4.ecn = ECN_NOT_ECT;
        hdr.own_v4.total_length = 20 + 8 + QUENCH_BYTES;
        hdr.own_v4.fragment = 0;
        hdr.own_v4.protocol = PROTOCOL_UDP;
        hdr.own_udp.setValid();
    }
    action notice_v4() {
        hdr.own_v4.flags = 0;
        hdr.own_v4.ttl = NOTICE_TTL;
        hdr.own_v4.src = 0;
        hdr.own_v4.dst = ALL_SYSTEMS;
    }
    // A hash of the chip shares its action with no constant.
    action name_notice() { hdr.own_v4.id = hash_notice.get({ hdr.mirror.switch_id, 7w0, hdr.mirror.port }); }
    action quench_v4() {
        hdr.own_v4.flags = hdr.ipv4.flags;
        hdr.own_v4.ttl = 64;
        hdr.own_v4.id = 0;
        hdr.own_v4.src = hdr.ipv4.dst;
        hdr.own_v4.dst = hdr.ipv4.src;
        hdr.ipv4.setInvalid();
    }
    action quench_v6() {
        hdr.own_udp_v6.setValid();
        bit<128> address = hdr.ipv6.src;
        hdr.ipv6.src = hdr.ipv6.dst;
        hdr.ipv6.dst = address;
        hdr.ipv6.dscp = DSCP_NETWORK_CONTROL;
        hdr.ipv6.ecn = ECN_NOT_ECT;
        hdr.ipv6.hop_limit = 64;
        hdr.ipv6.flow_label = 0;
        hdr.ipv6.payload_length = 8 + QUENCH_BYTES;
    }

#ifdef ETHEREAL_CSIG
    action untag() {
        hdr.ethernet.type = hdr.csig.type;
        hdr.csig.setInvalid();
    }
    Csig() csig;
#endif

    apply {
        keep_sum();
        if (hdr.mirror.isValid()) {
            if (hdr.mirror.kind == KIND_QUENCH) {
                tell_of_port();
                answer();
#ifdef ETHEREAL_CSIG
                if (hdr.csig.isValid()) { untag(); }
#endif
                if (hdr.ipv4.isValid()) {
                    own_v4();
                    quench_v4();
                } else {
                    quench_v6();
                }
                hdr.bth.setInvalid();
            } else {
                if (hdr.mirror.kind == KIND_NOTICE) {
                    tell_of_port();
                    become_notice();
                    own_v4();
                    notice_v4();
                    name_notice();
                }
                if (intrinsic.egress_port == hdr.mirror.port) { for_deparser.drop_ctl = 1; }
            }
        } else if (hdr.bth.isValid() && hdr.bth.opcode != BTH_ACK && hdr.bth.opcode != BTH_ATOMIC_ACK &&
                   hdr.bth.opcode != BTH_CNP &&
                   !(hdr.ipv4.isValid() && hdr.ipv4.dscp[5:2] == CLASS_NETWORK_CONTROL) &&
                   !(hdr.ipv6.isValid() && hdr.ipv6.dscp[5:2] == CLASS_NETWORK_CONTROL)) {
            meta.is_data = 1;
        }

#ifdef ETHEREAL_CSIG
        csig.apply(hdr, meta, intrinsic, from_parser);
#endif
        if (meta.is_data == 0) {
            port_tx_control.count(intrinsic.egress_port);
        } else {
            port_tx_data.count(intrinsic.egress_port);
            ecn_profile.apply();
            if (meta.ecn_on == 1) {
                compare_depth();
                compute_span();
                throw_dice();
                ecn_curve.apply();
                compare();
                // The sign bit: the depth is below.
                if (meta.over_max[18:18] == 0 || (meta.over_min[18:18] == 0 && meta.excess != 0)) {
                    if (hdr.ipv4.isValid()) {
                        if (hdr.ipv4.ecn == 1) { mark_v4(2); } else if (hdr.ipv4.ecn == 2) { mark_v4(1); }
                    } else if (hdr.ipv6.ecn != ECN_NOT_ECT) {
                        mark_v6();
                    }
                }
            }
        }
    }
}

control EgressDeparser(packet_out packet, inout egress_headers_t hdr, in egress_metadata_t meta,
                       in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() ipv4_sum;
    Checksum() quench_v4_sum;
    Checksum() quench_v6_sum;

    apply {
        if (hdr.own_v4.isValid()) {
            hdr.own_v4.checksum = quench_v4_sum.update({
                hdr.own_v4.version, hdr.own_v4.ihl, hdr.own_v4.dscp, hdr.own_v4.ecn, hdr.own_v4.total_length,
                hdr.own_v4.id, hdr.own_v4.flags, hdr.own_v4.fragment, hdr.own_v4.ttl, hdr.own_v4.protocol,
                hdr.own_v4.src, hdr.own_v4.dst });
        }
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = ipv4_sum.update({ meta.old_sum, meta.tos_grown });
        }
        // IPv6 has no header checksum, so UDP's is not optional.
        if (hdr.own_udp_v6.isValid()) {
            hdr.own_udp_v6.checksum = quench_v6_sum.update({
                hdr.ipv6.src, hdr.ipv6.dst, 8w0, hdr.ipv6.next_header, hdr.own_udp_v6.length,
                hdr.own_udp_v6.src, hdr.own_udp_v6.dst, hdr.own_udp_v6.length,
                hdr.quench.version, hdr.quench.flags, hdr.quench.labelled, hdr.quench.rerouted,
                hdr.quench.label, hdr.quench.switch_id, hdr.quench.port, hdr.quench.reserved,
                hdr.quench.epoch, hdr.quench.pad_qp, hdr.quench.dst_qp, hdr.quench.pad_psn,
                hdr.quench.psn }, true);
        }
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
#ifdef ETHEREAL_CSIG
        packet.emit(hdr.csig);
#endif
        packet.emit(hdr.ipv4);
        packet.emit(hdr.own_v4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.udp);
        packet.emit(hdr.own_udp);
        packet.emit(hdr.own_udp_v6);
        packet.emit(hdr.quench);
        packet.emit(hdr.bth);
    }
}
