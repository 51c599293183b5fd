// A router as people write them: VLAN and IPv4 with options, checksums
// verified and updated, tables on every match kind with priorities, a key on
// validity, tables that follow others' results, metadata through egress.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header vlan_t { bit<3> pcp; bit<1> dei; bit<12> vid; bit<16> type; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> len; bit<16> id; bit<3> flags; bit<13> frag;
    bit<8> ttl; bit<8> proto; bit<16> sum; bit<32> src; bit<32> dst;
}
header options_t { varbit<320> data; }
header ports_t { bit<16> src; bit<16> dst; }
struct headers_t { eth_t eth; vlan_t vlan; ipv4_t ip; options_t options; ports_t l4; }
struct meta_t { bit<16> hop; bit<8> class; bit<1> bad; }

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        pkt.extract(hdr.eth);
        transition select(hdr.eth.type) {
            0x8100: vlan;
            0x0800: ip;
            default: accept;
        }
    }
    state vlan {
        pkt.extract(hdr.vlan);
        transition select(hdr.vlan.type, hdr.vlan.vid) {
            (0x0800, 1 .. 4094): ip;
            default: accept;
        }
    }
    state ip {
        pkt.extract(hdr.ip);
        verify(hdr.ip.ihl >= 5, error.HeaderTooShort);
        pkt.extract(hdr.options, (bit<32>)(hdr.ip.ihl - 5) * 32);
        transition select(hdr.ip.frag, hdr.ip.proto) {
            (0, 6): l4;
            (0, 17): l4;
            default: accept;
        }
    }
    state l4 { pkt.extract(hdr.l4); transition accept; }
}
control Verify(inout headers_t hdr, inout meta_t meta) {
    apply {
        verify_checksum(hdr.ip.isValid(), { hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.len, hdr.ip.id, hdr.ip.flags,
            hdr.ip.frag, hdr.ip.ttl, hdr.ip.proto, hdr.ip.src, hdr.ip.dst, hdr.options.data }, hdr.ip.sum, HashAlgorithm.csum16);
    }
}
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    counter(4, CounterType.packets_and_bytes) why;
    action drop(bit<32> reason) { why.count(reason); mark_to_drop(sm); }
    action set_hop(bit<16> hop) { meta.hop = hop; }
    action send(bit<9> port, bit<48> dst) { sm.egress_spec = port; hdr.eth.dst = dst; }
    action set_class(bit<8> c) { meta.class = c; }
    table routes {
        key = { hdr.ip.dst: lpm; }
        actions = { set_hop; drop; }
        default_action = drop(1);
        size = 64;
    }
    table hops {
        key = { meta.hop: exact; hdr.vlan.isValid(): exact; }
        actions = { send; drop; }
        default_action = drop(2);
        size = 64;
    }
    table classes {
        key = { hdr.ip.src: ternary; hdr.l4.dst: range; hdr.ip.proto: optional; }
        actions = { set_class; NoAction; }
        default_action = NoAction;
        size = 64;
    }
    apply {
        if (sm.checksum_error == 1 || sm.parser_error != error.NoError) {
            drop(3);
        } else if (hdr.ip.isValid()) {
            switch (routes.apply().action_run) {
                set_hop: {
                    if (hops.apply().hit) { hdr.ip.ttl = hdr.ip.ttl - 1; }
                    classes.apply();
                }
                drop: { }
            }
        } else {
            drop(0);
        }
    }
}
control Out(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action tag(bit<12> vid) {
        hdr.vlan.setValid();
        hdr.vlan = { 0, 0, vid, hdr.eth.type };
        hdr.eth.type = 0x8100;
    }
    action untag() { hdr.eth.type = hdr.vlan.type; hdr.vlan.setInvalid(); }
    table vlans {
        key = { sm.egress_port: exact; hdr.vlan.isValid(): exact; }
        actions = { tag; untag; NoAction; }
        default_action = NoAction;
        size = 16;
    }
    apply {
        vlans.apply();
        if (meta.class != 0) { hdr.ip.tos = meta.class; }
    }
}
control Compute(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum(hdr.ip.isValid(), { hdr.ip.version, hdr.ip.ihl, hdr.ip.tos, hdr.ip.len, hdr.ip.id, hdr.ip.flags,
            hdr.ip.frag, hdr.ip.ttl, hdr.ip.proto, hdr.ip.src, hdr.ip.dst, hdr.options.data }, hdr.ip.sum, HashAlgorithm.csum16);
    }
}
control Deparse(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
