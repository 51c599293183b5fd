// A packet stays in the switch for as many passes as it asks for (want), by resubmission (how 1) or recirculation
// (how 2); how 3 clones each packet that leaves, clones too; how 4 counts in a loop of an action; how 5 truncates
// before it recirculates once.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header op_t { bit<8> how; bit<32> want; bit<32> made; }
struct headers { eth_t eth; op_t op; }
struct metadata { @field_list(1) bit<8> x; }

parser P(packet_in pkt, out headers hdr, inout metadata meta, inout standard_metadata_t std) {
    state start { pkt.extract(hdr.eth); pkt.extract(hdr.op); transition accept; }
}

control V(inout headers hdr, inout metadata meta) { apply { } }

control I(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    register<bit<32>>(1) n;
    action count() {
        for (bit<32> i = 0; i < hdr.op.want; i = i + 1) { hdr.op.made = hdr.op.made + 1; }
    }
    apply {
        std.egress_spec = 2;
        if (hdr.op.how == 1) {
            bit<32> k;
            n.read(k, 0);
            k = k + 1;
            n.write(0, k);
            if (k < hdr.op.want) { resubmit_preserving_field_list(1); } else { n.write(0, 0); hdr.op.made = k; }
        }
        if (hdr.op.how == 4) { count(); }
    }
}

control E(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    apply {
        if (hdr.op.how == 2) {
            hdr.op.made = hdr.op.made + 1;
            if (hdr.op.made < hdr.op.want) { recirculate_preserving_field_list(1); }
        }
        if (hdr.op.how == 3) { clone(CloneType.E2E, 5); }
        if (hdr.op.how == 5) {
            if (hdr.op.made == 0) { truncate(30); recirculate_preserving_field_list(1); }
            hdr.op.made = std.packet_length;
        }
    }
}

control C(inout headers hdr, inout metadata meta) { apply { } }

control D(packet_out pkt, in headers hdr) { apply { pkt.emit(hdr.eth); pkt.emit(hdr.op); } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
