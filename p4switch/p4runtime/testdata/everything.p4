// A program with one of everything that a P4Runtime server must serve. The
// compiled forms beside it come from
//
//     p4c-bm2-ss --arch v1model -o everything.json \
//         --p4runtime-files everything.p4info.txtpb everything.p4
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> len;
    bit<16> id;
    bit<3>  flags;
    bit<13> frag;
    bit<8>  ttl;
    bit<8>  proto;
    bit<16> csum;
    bit<32> src;
    bit<32> dst;
}

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> queue;
}

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    ethernet_t   ethernet;
    ipv4_t       ipv4;
}

struct learn_t {
    bit<48> src;
    bit<9>  port;
}

struct meta_t {
    bit<8> trusted;
    bit<2> color;
}

parser Parse(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    value_set<bit<16>>(4) trusted_types;

    state start {
        transition select(std.ingress_port) {
            CPU_PORT: from_cpu;
            default: ethernet;
        }
    }
    state from_cpu {
        pkt.extract(hdr.packet_out);
        transition ethernet;
    }
    state ethernet {
        pkt.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: ipv4;
            trusted_types: trusted;
            default: accept;
        }
    }
    state trusted {
        meta.trusted = 1;
        transition accept;
    }
    state ipv4 {
        pkt.extract(hdr.ipv4);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }

control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    counter(512, CounterType.packets_and_bytes) port_packets;
    meter(512, MeterType.bytes) port_limits;
    register<bit<32>>(16) scratch;
    register<bit<12>>(4) narrow;
    direct_counter(CounterType.packets_and_bytes) mac_hits;
    direct_meter<bit<2>>(MeterType.packets) acl_rate;
    action_selector(HashAlgorithm.crc16, 128, 16) ecmp;
    action_profile(16) hops;

    action drop() { mark_to_drop(std); }
    action forward(bit<9> port) { std.egress_spec = port; }
    action count_forward(bit<9> port) { mac_hits.count(); std.egress_spec = port; }
    action count_drop() { mac_hits.count(); mark_to_drop(std); }
    action replicate(bit<16> group) { std.mcast_grp = group; }
    action mirror(bit<32> session) { clone(CloneType.I2E, session); }
    action punt() { acl_rate.read(meta.color); std.egress_spec = CPU_PORT; }
    action deny() { acl_rate.read(meta.color); mark_to_drop(std); }
    action pass() { acl_rate.read(meta.color); }
    action tag(bit<16> type) { hdr.ethernet.type = type; }
    action learn() { digest<learn_t>(1, { hdr.ethernet.src, std.ingress_port }); }
    action remember(bit<32> index, bit<32> value) { scratch.write(index, value); }
    action remember_narrow(bit<32> index, bit<12> value) { narrow.write(index, value); }

    // Exact, with a direct counter and idle timeouts.
    table mac {
        key = { hdr.ethernet.dst: exact; }
        actions = { count_forward; count_drop; NoAction; }
        counters = mac_hits;
        support_timeout = true;
        default_action = NoAction();
        size = 8;
    }
    // LPM, with an action selector.
    table route {
        key = {
            hdr.ipv4.dst: lpm;
            hdr.ipv4.src: selector;
            hdr.ipv4.id: selector;
        }
        actions = { forward; drop; NoAction; }
        implementation = ecmp;
        size = 64;
    }
    // Ternary, range and optional, with a direct meter.
    table acl {
        key = {
            hdr.ethernet.src: ternary;
            std.ingress_port: range;
            hdr.ethernet.type: optional;
        }
        actions = { punt; deny; @tableonly pass; @defaultonly NoAction; }
        meters = acl_rate;
        default_action = NoAction();
        size = 32;
    }
    // An action profile without selector.
    table hop {
        key = { meta.trusted: exact; hdr.ethernet.type: exact; }
        actions = { tag; NoAction; }
        implementation = hops;
        size = 16;
    }
    // Constant entries and a constant default.
    table fixed {
        key = { hdr.ethernet.type: ternary; }
        actions = { tag; NoAction; }
        const entries = {
            0x88b5: tag(0x88b6);
            0x9000 &&& 0xff00: tag(0x9001);
        }
        const default_action = NoAction();
    }
    // No key.
    table extra {
        actions = { replicate; mirror; remember; remember_narrow; NoAction; }
        default_action = NoAction();
    }
    table smac {
        key = { hdr.ethernet.src: exact; }
        actions = { learn; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            std.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            port_packets.count((bit<32>) std.ingress_port);
            port_limits.execute_meter<bit<2>>((bit<32>) std.ingress_port, meta.color);
            smac.apply();
            mac.apply();
            if (hdr.ipv4.isValid()) {
                route.apply();
            }
            acl.apply();
            hop.apply();
            fixed.apply();
            extra.apply();
        }
    }
}

control Out(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = std.ingress_port;
            hdr.packet_in.reason = 5;
        }
    }
}

control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }

control Deparse(packet_out pkt, in headers_t hdr) {
    apply {
        pkt.emit(hdr.packet_in);
        pkt.emit(hdr.ethernet);
        pkt.emit(hdr.ipv4);
    }
}

V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;
