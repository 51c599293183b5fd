// Ingress: port events, routing, the label, liveness and the way round.

parser IngressParser(packet_in packet, out ingress_headers_t hdr, out ingress_metadata_t meta,
                     out ingress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        transition select(intrinsic.ingress_port) {
            PKTGEN_PORT &&& PKTGEN_PORT_MASK: parse_port_down;
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition select(hdr.packet_out.egress_port) {
            (bit<16>)PORT_EVENT_PORT: parse_cpu_event;
            default: accept;
        }
    }
    state parse_cpu_event {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            ETHERTYPE_PORT_EVENT: parse_port_event;
            default: accept;
        }
    }
    state parse_port_down {
        packet.extract(hdr.port_down);
        transition accept;
    }
    ETHEREAL_PARSER_STATES
}

// A read of metadata that nothing wrote gives 0, as in v1model; without this, what a container held before.
@pa_auto_init_metadata
// A constant of the first byte alone: the assembler takes none as wide as its word.
@pa_container_size("ingress", "hdr.notice.kind", 8)
control Ingress(inout ingress_headers_t hdr, inout ingress_metadata_t meta,
                in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t from_parser,
                inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    // 0 while the port lives, else the epoch of its down event.
    @name(".port_down")
    Register<bit<32>, PortId_t>(512, 0) port_down;
    RegisterAction<bit<32>, PortId_t, bit<32>>(port_down) read_port_down = {
        void apply(inout bit<32> value, out bit<32> epoch) { epoch = value; }
    };
    RegisterAction<bit<32>, PortId_t, bit<32>>(port_down) write_port_down = {
        void apply(inout bit<32> value) { value = meta.event_epoch; }
    };
    // Counts the port-down events of the packet generator, which have no epoch.
    @name(".port_epoch")
    Register<bit<32>, PortId_t>(512, 0) port_epoch;
    RegisterAction<bit<32>, PortId_t, bit<32>>(port_epoch) next_epoch = {
        void apply(inout bit<32> value, out bit<32> epoch) {
            value = value + 1;
            epoch = value;
        }
    };
    // When a source was last quenched for a port. It counts as long ago when the
    // clock has wrapped since.
    @name(".quench_last")
    Register<bit<32>, quench_slot_t>(QUENCH_SLOTS, 0) quench_last;
    RegisterAction<bit<32>, quench_slot_t, bit<1>>(quench_last) claim_quench = {
        void apply(inout bit<32> last, out bit<1> due) {
            due = 0;
            if (last <= meta.due_before || last > meta.now) {
                last = meta.now;
                due = 1;
            }
        }
    };

    // When the last notice of a port was sent or passed on. Entries are v1model's.
    @name(".notice_last")
    Register<bit<32>, bit<16>>(65536, 0) notice_last;
    RegisterAction<bit<32>, bit<16>, bit<1>>(notice_last) claim_notice = {
        void apply(inout bit<32> last, out bit<1> due) {
            due = 0;
            if (last <= meta.due_before || last > meta.now) {
                last = meta.now;
                due = 1;
            }
        }
    };
    Hash<bit<16>>(HashAlgorithm_t.CRC16) hash_notice;

    @name(".fallback")
    Counter<bit<64>, bit<8>>(4, CounterType_t.PACKETS_AND_BYTES) fallback;
    @name(".drops")
    Counter<bit<64>, bit<8>>(7, CounterType_t.PACKETS_AND_BYTES) drops;
    // By label: a direct counter is counted by its table's actions, and take_uplink
    // is ecmp's too.
    @name(".source_route_counter")
    Counter<bit<64>, label_t>(16384, CounterType_t.PACKETS_AND_BYTES) source_route_counter;

    Hash<bit<32>>(HashAlgorithm_t.CRC32) hash_v4;
    Hash<bit<32>>(HashAlgorithm_t.CRC32) hash_v6;
    Hash<quench_slot_t>(HashAlgorithm_t.CRC32) slot_v4;
    Hash<quench_slot_t>(HashAlgorithm_t.CRC32) slot_v6;

    // The P4Info knows the two as one, by the first one's name: v1model's.
    @name(".ecmp_selector")
    ActionProfile(ECMP_MEMBERS) ecmp_members;
    Hash<bit<14>>(HashAlgorithm_t.CRC16) ecmp_hash;
    // One bit a member, set while it may be chosen: 128 a group.
    @name(".ecmp_live")
    Register<bit<1>, bit<32>>(ECMP_GROUPS * 128) ecmp_live;
    @name(".ecmp_groups")
    ActionSelector(ecmp_members, ecmp_hash, SelectorMode_t.FAIR, ecmp_live, 64, ECMP_GROUPS) ecmp_selector;
    SelectorAction(ecmp_selector) member_dies = {
        void apply(inout bit<1> live) { live = 0; }
    };
    SelectorAction(ecmp_selector) member_lives = {
        void apply(inout bit<1> live) { live = 1; }
    };

    @name(".set_device")
    action set_device(bit<32> switch_id, bit<32> hash_seed, bit<8> hash_offset, bit<8> uplinks,
                      bit<3> control_priority, bit<32> quench_interval_us) {
        meta.switch_id = switch_id;
        meta.hash_seed = hash_seed;
        meta.hash_offset = hash_offset;
        meta.control_priority = control_priority;
        meta.quench_interval = quench_interval_us;
    }
    @name(".device")
    table device {
        actions = { set_device; }
        default_action = set_device(0, 0, 0, 0, 0, NEVER_QUENCH);
        size = 1;
    }

    @name(".carrier_udp_sport")
    action carrier_udp_sport() {
        meta.label = hdr.udp.src[13:0];
        meta.labelled = meta.sport_marked;
    }
    @name(".carrier_flow_label")
    action carrier_flow_label() {
        meta.label = hdr.ipv6.flow_label[13:0];
        meta.labelled = meta.flow_marked;
    }
    @name(".label_carrier")
    table label_carrier {
        key = { meta.is_ipv6: exact @name("is_ipv6"); }
        actions = { carrier_udp_sport; carrier_flow_label; NoAction; }
        default_action = NoAction;
        size = 2;
    }

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
    @name(".discard")
    action discard() { }

    @name(".route_v4")
    table route_v4 {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { deliver; forward_down; forward_up; discard; }
        default_action = discard;
        size = ROUTES;
    }
    @name(".route_v6")
    table route_v6 {
        key = { hdr.ipv6.dst: lpm @name("dst"); }
        actions = { deliver; forward_down; forward_up; discard; }
        default_action = discard;
        size = ROUTES;
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
        size = LABELS;
    }
    // Chooses among the live members, so what it chooses needs no second look.
    @name(".ecmp")
    table ecmp {
        key = {
            meta.group: exact @name("group");
            meta.ecmp_key: selector @name("flow");
        }
        actions = { take_uplink; NoAction; }
        implementation = ecmp_selector;
        size = ECMP_GROUPS;
    }

    @name(".set_uplink_index")
    action set_uplink_index(bit<8> index) {
        meta.member = (bit<32>)index;
        meta.member_known = 1;
    }
    @name(".uplink_of_port")
    table uplink_of_port {
        key = { meta.event_port: exact @name("port"); }
        actions = { set_uplink_index; NoAction; }
        default_action = NoAction;
        size = 64;
    }

    @name(".tell")
    action tell(bit<16> own, bit<16> passed) {
        meta.own_group = own;
        meta.passed_group = passed;
    }
    @name(".notice")
    table notice {
        key = { meta.notice_port: exact @name("port"); }
        actions = { tell; NoAction; }
        default_action = NoAction;
        size = 512;
    }

    // How the source differs from the addresses of the host at the port: not at all at ports to switches, which have no
    // entry. The chip compares two headers' fields only through the exclusive or.
    @name(".own_addresses")
    action own_addresses(bit<32> v4, bit<64> v6_high, bit<64> v6_low) {
        meta.other_v4 = hdr.ipv4.src ^ v4;
        meta.other_v6_high = hdr.ipv6.src[127:64] ^ v6_high;
        meta.other_v6_low = hdr.ipv6.src[63:0] ^ v6_low;
    }
    @name(".source_guard")
    table source_guard {
        key = { intrinsic.ingress_port: exact @name("port"); }
        actions = { own_addresses; NoAction; }
        default_action = NoAction;
        size = 512;
    }
    // The unspecified address, link-local ones, and IPv6 packets to multicast groups are nobody's: see
    // v1model/sources.p4.
    action is_foreign() { meta.foreign = 1; }
    @name(".foreign_source")
    table foreign_source {
        key = {
            hdr.ipv4.isValid(): ternary @name("v4");
            hdr.ipv6.isValid(): ternary @name("v6");
            meta.other_v4: ternary @name("other_v4");
            hdr.ipv4.src: ternary @name("src_v4");
            meta.other_v6_high: ternary @name("other_v6_high");
            meta.other_v6_low: ternary @name("other_v6_low");
            hdr.ipv6.src[127:118]: ternary @name("src_v6");
            hdr.ipv6.dst[127:120]: ternary @name("dst_v6");
        }
        actions = { is_foreign; NoAction; }
        size = 7;
        const default_action = NoAction;
        const entries = {
            (true, _, 0, _, _, _, _, _): NoAction();
            (true, _, _, 0, _, _, _, _): NoAction();
            (true, _, _, _, _, _, _, _): is_foreign();
            (_, true, _, _, 0, 0, _, _): NoAction();
            (_, true, _, _, _, _, LINK_LOCAL, _): NoAction();
            (_, true, _, _, _, _, _, MULTICAST_V6): NoAction();
            (_, true, _, _, _, _, _, _): is_foreign();
        }
    }

    action begin() {
        meta.drop = NO_DROP;
        meta.now = from_parser.global_tstamp[31:0] >> 10;
    }
    action compute_due() { meta.due_before = meta.now |-| meta.quench_interval; }

    action event_of_generator() {
        meta.event = 1;
        meta.port = hdr.port_down.port_num;
        meta.event_port = hdr.port_down.port_num;
        meta.event_epoch = next_epoch.execute(hdr.port_down.port_num);
    }
    action event_of_cpu_down() {
        meta.event = 1;
        meta.port = (PortId_t)hdr.port_event.port;
        meta.event_port = (PortId_t)hdr.port_event.port;
        meta.event_epoch = hdr.port_event.epoch;
    }
    action event_of_cpu_up() {
        meta.event = 1;
        meta.port = (PortId_t)hdr.port_event.port;
        meta.event_port = (PortId_t)hdr.port_event.port;
        meta.event_epoch = 0;
        meta.event_up = 1;
    }
    action notice_of_event() {
        meta.notice = 1;
        meta.notice_port = meta.event_port;
        meta.notice_id = hash_notice.get({ meta.switch_id, 7w0, meta.event_port });
    }
    action notice_of_neighbour() {
        meta.notice = 1;
        meta.notice_port = intrinsic.ingress_port;
        meta.notice_id = hdr.ipv4.id;
    }
    action quench_of_neighbour() {
        meta.quench = 1;
        meta.notice_port = intrinsic.ingress_port;
    }
    action claim_telling() { meta.notice_due = claim_notice.execute(meta.notice_id); }
    // Copies go to the ports of a group, and to none that the notice is of.
    action replicate(bit<8> kind, bit<16> group) {
        for_tm.mcast_grp_a = group;
        hdr.notice.setValid();
        hdr.notice.kind = kind;
        hdr.notice.labelled = 0;
        hdr.notice.rerouted = 0;
        hdr.notice.label = 0;
        hdr.notice.switch_id = meta.switch_id;
        hdr.notice.port = meta.notice_port;
        hdr.notice.epoch = meta.event_epoch;
    }
    // One table, so that both actions are in one stage, where the register is. As two tables they may be placed in two
    // stages, each with a register of its own.
    action note_event() { write_port_down.execute(meta.port); }
    action look_at_port() { meta.epoch = read_port_down.execute(meta.port); }
    @name(".port_state")
    table port_state {
        key = {
            meta.event: exact @name("event");
            meta.chosen: exact @name("chosen");
        }
        actions = { note_event; look_at_port; NoAction; }
        size = 2;
        const default_action = NoAction;
        const entries = {
            (1, 0): note_event();
            (0, 1): look_at_port();
        }
    }

    action hash_flow_v4() {
        meta.hash = hash_v4.get({ meta.hash_seed, hdr.ipv4.src, hdr.ipv4.dst, hdr.ipv4.protocol,
                                  meta.l4_src, meta.l4_dst });
    }
    action hash_flow_v6() {
        meta.hash = hash_v6.get({ meta.hash_seed, hdr.ipv6.src, hdr.ipv6.dst, hdr.ipv6.next_header,
                                  meta.l4_src, meta.l4_dst });
    }
    action key_low() { meta.ecmp_key = meta.hash[15:0]; }
    action key_high() { meta.ecmp_key = meta.hash[31:16]; }

    action quench_slot_v4() { meta.slot = slot_v4.get({ hdr.ipv4.src, meta.dead_port }); }
    action quench_slot_v6() { meta.slot = slot_v6.get({ hdr.ipv6.src, meta.dead_port }); }
    action claim() { meta.quench_due = claim_quench.execute(meta.slot); }

    action prefer() {
        for_tm.ingress_cos = meta.control_priority;
        for_tm.qid = (QueueId_t)meta.control_priority;
    }
    action note_dead_port() {
        meta.dead = 1;
        meta.dead_port = meta.port;
    }
    // The IPv4 header checksum is corrected for what changes, as in RFC 1624: the
    // deparser sums the old one's complement and how much the words have grown. A
    // header that came broken stays broken, and options need not be known. The
    // parser's residual checksum cannot do it: it goes on to the packet's end.
    action count_down_ttl() {
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        meta.old_sum = ~hdr.ipv4.checksum;
        meta.ttl_grown = 0xFEFF; // -0x100
    }
    action mark_rerouted_v4(bit<16> grown) {
        hdr.ipv4.dscp[1:0] = DSCP_REROUTED[1:0];
        meta.tos_grown = grown;
    }
    action mark_rerouted_v6() { hdr.ipv6.dscp[1:0] = DSCP_REROUTED[1:0]; }

    action mirror_quench() {
        for_deparser.mirror_type = MIRROR_QUENCH;
#if __TARGET_TOFINO__ == 2
        // The sessions are few; the port is the packet's own.
        meta.mirror_session = 1;
        for_deparser.mirror_egress_port = intrinsic.ingress_port;
#else
        // Session QUENCH_SESSION + p sends to port p.
        meta.mirror_session = 1w1 ++ intrinsic.ingress_port;
#endif
    }

    action to_egress(bit<8> kind, PortId_t port) {
        for_tm.ucast_egress_port = port;
        hdr.bridge.setValid();
        hdr.bridge.kind = kind;
    }
    // Cabling is for the controller to look into: LLDP comes and goes by it.
    action send_packet_out() {
        meta.as_is = 1;
        to_egress(KIND_AS_IS, (PortId_t)hdr.packet_out.egress_port);
    }
    action send_packet_in() {
        meta.as_is = 1;
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = (bit<16>)intrinsic.ingress_port;
        to_egress(KIND_AS_IS, CPU_PORT);
    }
    action refuse() {
        drops.count(meta.drop);
        for_deparser.drop_ctl = 1;
    }
    // Nothing goes on: the port came back, or hosts were told of late.
    action swallow() { for_deparser.drop_ctl = 1; }

    apply {
        device.apply();
        begin();
        compute_due();
        source_guard.apply();
        foreign_source.apply();

        if (hdr.port_down.isValid()) {
            event_of_generator();
        } else if (hdr.port_event.isValid()) {
            if (!hdr.packet_out.isValid() || hdr.port_event.version != 1 ||
                hdr.port_event.port[15:9] != 0) {
                meta.drop = DROP_BAD_PORT_EVENT;
            } else if (hdr.port_event.up == 0) {
                event_of_cpu_down();
            } else {
                event_of_cpu_up();
            }
        } else if (hdr.ipv4.isValid()) {
            if (hdr.ipv4.ttl <= 1) {
                meta.drop = DROP_TTL;
            } else {
                count_down_ttl();
                route_v4.apply();
            }
        } else if (hdr.ipv6.isValid()) {
            meta.is_ipv6 = 1;
            if (hdr.ipv6.hop_limit <= 1) {
                meta.drop = DROP_TTL;
            } else {
                hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                route_v6.apply();
            }
        } else if (hdr.packet_out.isValid() && hdr.packet_out.egress_port[15:9] == 0) {
            send_packet_out();
        } else if (hdr.ethernet.isValid() && hdr.ethernet.type == ETHERTYPE_LLDP) {
            send_packet_in();
        } else {
            meta.drop = DROP_NOT_IP;
        }

        if (hdr.udp.isValid()) {
            meta.l4_src = hdr.udp.src;
            meta.l4_dst = hdr.udp.dst;
        }
        if (hdr.bth.isValid()) {
            if (hdr.udp.src[15:14] == 3) { meta.sport_marked = 1; }
            if (hdr.ipv6.flow_label[19:14] == FLOW_LABEL_MARK) { meta.flow_marked = 1; }
            label_carrier.apply();
            if (hdr.bth.opcode == BTH_ACK || hdr.bth.opcode == BTH_ATOMIC_ACK || hdr.bth.opcode == BTH_CNP ||
                (hdr.ipv4.isValid() && hdr.ipv4.dscp[5:2] == CLASS_NETWORK_CONTROL) ||
                (hdr.ipv6.isValid() && hdr.ipv6.dscp[5:2] == CLASS_NETWORK_CONTROL)) {
                prefer();
            }
        } else if (hdr.udp.isValid() && hdr.udp.dst == UDP_QUENCH && meta.drop == NO_DROP) {
            prefer();
            if (hdr.ipv4.isValid() && hdr.ipv4.dst == ALL_SYSTEMS) {
                notice_of_neighbour();
            } else {
                quench_of_neighbour();
            }
        } else if (meta.event == 1 && meta.event_up == 0) {
            prefer();
            notice_of_event();
        }
        // A port to a host has no entry, so a quench or a notice that comes in by it is forged.
        if (meta.notice == 1 || meta.quench == 1) {
            notice.apply();
            if (meta.event == 0 && (meta.own_group == 0 || meta.quench == 0 && meta.passed_group == 0)) {
                meta.drop = DROP_BAD_PORT_EVENT;
            } else if (meta.quench == 0 && meta.own_group != 0 && meta.quench_interval != NEVER_QUENCH) {
                claim_telling();
            }
        }
        if (meta.foreign == 1 && meta.notice == 0 && meta.drop == NO_DROP) { meta.drop = DROP_FOREIGN_SOURCE; }

        if (hdr.ipv4.isValid()) { hash_flow_v4(); } else { hash_flow_v6(); }
        if (meta.hash_offset == 0) { key_low(); } else { key_high(); }

        if (meta.upward == 1 && meta.labelled == 1 && meta.foreign == 0) {
            if (source_route.apply().hit) {
                source_route_counter.count(meta.label);
            }
        }
        if (meta.event == 1) { uplink_of_port.apply(); }
        if (meta.foreign == 0) { port_state.apply(); }
        if (meta.epoch != 0) {
            note_dead_port();
            if (meta.is_ipv6 == 1) { quench_slot_v6(); } else { quench_slot_v4(); }
        }

        // One of these at most, so that the selector is asked once: a change of its
        // members, or the way of a packet that goes up.
        if (meta.event == 1) {
            if (meta.member_known == 1) {
                if (meta.event_up == 0) {
                    member_dies.execute(meta.member);
                } else {
                    member_lives.execute(meta.member);
                }
            }
        } else if (meta.notice == 0 && meta.as_is == 0 && meta.drop == NO_DROP) {
            if (meta.upward == 1 && (meta.chosen == 0 || meta.dead == 1)) {
                if (meta.dead == 1) {
                    meta.fallback = FALLBACK_REROUTED;
                } else if (meta.labelled == 1) {
                    meta.fallback = FALLBACK_UNKNOWN_LABEL;
                } else {
                    meta.fallback = FALLBACK_UNLABELLED;
                }
                if (ecmp.apply().hit) {
                    fallback.count(meta.fallback);
                    if (meta.dead == 1) {
                        meta.rerouted = 1;
                        if (meta.is_ipv6 == 1) {
                            mark_rerouted_v6();
                        } else if (hdr.ipv4.dscp[1:0] == 0) {
                            mark_rerouted_v4(0xC);
                        } else if (hdr.ipv4.dscp[1:0] == 1) {
                            mark_rerouted_v4(0x8);
                        } else if (hdr.ipv4.dscp[1:0] == 2) {
                            mark_rerouted_v4(0x4);
                        }
                    }
                } else {
                    meta.drop = DROP_NO_LIVE_UPLINK;
                }
            } else if (meta.dead == 1) {
                meta.drop = DROP_DEAD_DOWN_PATH;
            } else if (meta.chosen == 0) {
                meta.drop = DROP_NO_ROUTE;
            }
        }

        if ((meta.event == 1 || meta.notice == 1) && meta.drop == NO_DROP) {
            if (meta.notice_due == 0) {
                swallow();
            } else if (meta.event == 1) {
                replicate(KIND_NOTICE, meta.own_group);
                hdr.ethernet.setInvalid();
            } else {
                replicate(KIND_PASSED, meta.passed_group);
            }
        } else if (meta.as_is == 0) {
            if (meta.dead == 1 && hdr.bth.isValid() && meta.quench_interval != NEVER_QUENCH) {
                claim();
                if (meta.quench_due == 1) {
                    mirror_quench();
                }
            }
            if (meta.drop == NO_DROP) { to_egress(KIND_PACKET, meta.port); } else { refuse(); }
        }
    }
}

control IngressDeparser(packet_out packet, inout ingress_headers_t hdr, in ingress_metadata_t meta,
                        in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() ipv4_sum;
    Mirror() mirror;

    apply {
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = ipv4_sum.update({ meta.old_sum, meta.ttl_grown, meta.tos_grown });
        }
        if (for_deparser.mirror_type == MIRROR_QUENCH) {
            mirror.emit<quench_mirror_t>(meta.mirror_session,
                { KIND_QUENCH, 0, meta.labelled, meta.rerouted, 0, meta.label, meta.switch_id,
                  0, meta.dead_port, meta.epoch });
        }
        packet.emit(hdr.bridge);
        packet.emit(hdr.notice);
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
#ifdef ETHEREAL_CSIG
        packet.emit(hdr.csig);
#endif
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.udp);
        packet.emit(hdr.bth);
    }
}
