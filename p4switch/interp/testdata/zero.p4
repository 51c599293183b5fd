// Fields, metadata and parameters of no bits: they take no room in packets and are always 0. p4c 1.2.5 fails on entries
// of such keys, and on a select of one, so there are none.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header zero_t { bit<8> a; bit<0> z; bit<8> b; }
struct headers { ethernet_t ethernet; zero_t zero; }
struct metadata { bit<0> m; bit<8> seen; }

parser TheParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        packet.extract(hdr.zero);
        transition select(hdr.zero.a) { 3: three; default: accept; }
    }
    state three { meta.seen = 0x33; transition accept; }
}
control TheVerify(inout headers hdr, inout metadata meta) { apply { } }
control TheIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    action out_(bit<0> x, bit<9> port) { hdr.zero.z = x; meta.m = x; std.egress_spec = port; }
    action mark(bit<8> value) { hdr.zero.b = value; std.egress_spec = 2; }
    table by_both {
        key = { hdr.zero.a: exact; hdr.zero.z: exact; }
        actions = { out_; mark; NoAction; }
        default_action = NoAction();
    }
    table by_none { key = { meta.m: ternary; } actions = { mark; NoAction; } default_action = NoAction(); }
    apply {
        std.egress_spec = 1;
        by_both.apply();
        if (hdr.zero.b == 9) { by_none.apply(); }
        if (meta.seen == 0x33 && hdr.zero.z == meta.m) { hdr.ethernet.type = 0x3333; }
    }
}
control TheEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t std) { apply { } }
control TheCompute(inout headers hdr, inout metadata meta) { apply { } }
control TheDeparser(packet_out packet, in headers hdr) { apply { packet.emit(hdr.ethernet); packet.emit(hdr.zero); } }
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheCompute(), TheDeparser()) main;
