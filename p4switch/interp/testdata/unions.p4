// Assignment and invalidation of header unions and of their members.
#include <core.p4>
#include <v1model.p4>

header op_t { bit<8> op; bit<8> kind; }
header x_t { bit<8> x; }
header y_t { bit<16> y; }
header_union u_t { x_t x; y_t y; }
struct headers { op_t op; u_t u; u_t w; y_t lone; }
struct meta { }

parser P(packet_in pkt, out headers hdr, inout meta m, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.op);
        transition select(hdr.op.kind) { 1: x; 2: y; default: accept; }
    }
    state x { pkt.extract(hdr.u.x); transition accept; }
    state y { pkt.extract(hdr.u.y); transition accept; }
}

control In(inout headers hdr, inout meta m, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        if (hdr.op.op == 1) { hdr.u.y.setInvalid(); }
        if (hdr.op.op == 2) { hdr.u.y = hdr.lone; }
        if (hdr.op.op == 3) { hdr.w = hdr.u; }
        if (hdr.op.op == 4) { hdr.u = hdr.w; }
        if (hdr.op.op == 5) { hdr.u.y = hdr.w.y; }
    }
}

control V(inout headers hdr, inout meta m) { apply { } }
control E(inout headers hdr, inout meta m, inout standard_metadata_t std) { apply { } }
control C(inout headers hdr, inout meta m) { apply { } }
control D(packet_out pkt, in headers hdr) { apply { pkt.emit(hdr.op); pkt.emit(hdr.u); pkt.emit(hdr.w); } }

V1Switch(P(), V(), In(), E(), C(), D()) main;
