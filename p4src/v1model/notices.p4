// Notices: a switch reports its dead port to hosts without being asked.
//
// A source quench answers a packet. A host that lost its last packets at the dead port
// sends no packet that could be answered. So the port's down event itself becomes a
// notice, a quench without a packet, to all hosts that could have sent by the port:
// those below the switch if it leads up, those below all its neighbours if it leads
// down. Switches pass it down hop by hop. Hosts that do not use the port ignore it.
//
// Switches keep no state per sender. An event costs each port of the fabric at most one
// packet of 66 bytes per direction. Within a quench interval a port's events make one
// notice: a copy that arrives again by another path is not forwarded.
#ifndef ETHEREAL_NOTICES_P4
#define ETHEREAL_NOTICES_P4

const bit<32> NOTICE_LENGTH   = 14 + 20 + 8 + (bit<32>)QUENCH_BYTES;

control Notices(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata, in bit<1> quench, out bit<1> forged) {
    // When the last notice of a port was sent or passed on: us + 1, or 0 for never.
    // By the hash of switch and port, which it carries as IP identification.
    @name(".notice_last")
    register<bit<48>>(65536) notice_last;

    // The multicast groups for the port's own event, and for the notices that come
    // in by it. 0: none. Ports to hosts have no entry, so whatever quench or notice
    // comes in by one is forged. A quench that this switch makes is a clone, which
    // does not pass here.
    port_t  port = standard_metadata.ingress_port;
    bit<16> own_group = 0;
    bit<16> passed_group = 0;
    @name(".tell")
    action tell(bit<16> own, bit<16> passed) {
        own_group = own;
        passed_group = passed;
    }
    @name(".notice")
    table notice {
        key = { port: exact @name("port"); }
        actions = { tell; NoAction; }
        default_action = NoAction;
        size = 512;
    }

    apply {
        bit<48> last;
        bit<48> now = standard_metadata.ingress_global_timestamp + 1;
        bit<16> group;
        bit<16> id;
        forged = 0;
        if (hdr.port_event.isValid()) { port = meta.port; }
        notice.apply();
        if (hdr.port_event.isValid()) {
            group = own_group;
            hash(id, HashAlgorithm.crc16, 16w0, { meta.quench_switch, meta.quench_port }, 32w65536);
        } else {
            group = passed_group;
            id = hdr.ipv4.id;
            if (own_group == 0 || quench == 0 && group == 0) { forged = 1; }
        }
        if (quench == 1) { return; }
        mark_to_drop(standard_metadata);
        if (group != 0 && meta.quench_interval != NEVER_QUENCH) {
            notice_last.read(last, (bit<32>)id);
            if (last == 0 || now - last >= (bit<48>)meta.quench_interval) {
                notice_last.write((bit<32>)id, now);
                standard_metadata.mcast_grp = group;
            }
        }
    }
}

control NoticeCopies(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    action become_notice() {
        hdr.ethernet.dst = ALL_SYSTEMS_MAC;
        hdr.ethernet.src = SWITCH_MAC ++ meta.quench_switch;
        hdr.ethernet.type = ETHERTYPE_IPV4;
        hdr.ipv4.setValid();
        hdr.ipv4.version = 4;
        hdr.ipv4.ihl = 5;
        hdr.ipv4.dscp = DSCP_NETWORK_CONTROL;
        hdr.ipv4.ecn = ECN_NOT_ECT;
        hdr.ipv4.total_length = 20 + 8 + QUENCH_BYTES;
        hash(hdr.ipv4.id, HashAlgorithm.crc16, 16w0, { meta.quench_switch, meta.quench_port }, 32w65536);
        hdr.ipv4.flags = 0;
        hdr.ipv4.fragment = 0;
        hdr.ipv4.ttl = NOTICE_TTL;
        hdr.ipv4.protocol = PROTOCOL_UDP;
        hdr.ipv4.src = 0;
        hdr.ipv4.dst = ALL_SYSTEMS;
        hdr.udp.setValid();
        hdr.udp.src = UDP_QUENCH;
        hdr.udp.dst = UDP_QUENCH;
        hdr.udp.length = 8 + QUENCH_BYTES;
        hdr.udp.checksum = 0;
        hdr.quench.setValid();
        hdr.quench.version = 1;
        hdr.quench.flags = QUENCH_NOTICE;
        hdr.quench.labelled = 0;
        hdr.quench.rerouted = 0;
        hdr.quench.label = 0;
        hdr.quench.switch_id = meta.quench_switch;
        hdr.quench.port = meta.quench_port;
        hdr.quench.reserved = 0;
        hdr.quench.epoch = meta.quench_epoch;
        hdr.quench.pad_qp = 0;
        hdr.quench.dst_qp = 0;
        hdr.quench.pad_psn = 0;
        hdr.quench.psn = 0;
    }

    apply {
        if (standard_metadata.egress_port == meta.port) {
            mark_to_drop(standard_metadata); // the dead port, or the one it came by
        } else if (hdr.port_event.isValid()) {
            become_notice();
            truncate(NOTICE_LENGTH);
        }
    }
}

#endif
