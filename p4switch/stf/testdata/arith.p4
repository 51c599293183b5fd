// Operators: widths from 4 to 128 bits, signed and saturating arithmetic,
// shifts, slices, concatenation, comparisons, and a loop in an action.
#include <core.p4>
#include <v1model.p4>

header in_t { bit<8> op; bit<8> a; bit<8> b; bit<8> n; int<16> s; int<16> t; bit<128> w; }
header out_t {
    bit<8> u0; bit<8> u1; bit<8> u2; bit<8> u3;
    int<16> s0; int<16> s1;
    bit<4> n0; bit<4> n1; bit<8> flags;
    bit<128> w;
}
struct headers_t { out_t res; in_t req; }
struct meta_t { bit<8> sum; }

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { pkt.extract(hdr.req); transition accept; }
}
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action triangle() {
        meta.sum = 0;
        for (bit<8> i = 1; i <= (hdr.req.n & 15); i = i + 1) {
            if (i == 9) { break; }
            if (i == 3) { continue; }
            meta.sum = meta.sum + i;
        }
    }
    apply {
        sm.egress_spec = 1;
        hdr.res.setValid();
        hdr.res = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 };
        if (hdr.req.op == 0) { // wrap round or stay at the limit
            hdr.res.u0 = hdr.req.a + hdr.req.b;
            hdr.res.u1 = hdr.req.a |+| hdr.req.b;
            hdr.res.u2 = hdr.req.a - hdr.req.b;
            hdr.res.u3 = hdr.req.a |-| hdr.req.b;
            hdr.res.s0 = hdr.req.s |+| hdr.req.t;
            hdr.res.s1 = hdr.req.s |-| hdr.req.t;
            hdr.res.w = hdr.req.w + 1;
        } else if (hdr.req.op == 1) { // shifts, beyond the width too
            hdr.res.u0 = hdr.req.a << hdr.req.n;
            hdr.res.u1 = hdr.req.a >> hdr.req.n;
            hdr.res.s0 = hdr.req.s >> hdr.req.n;
            hdr.res.s1 = hdr.req.s << hdr.req.n;
            hdr.res.w = hdr.req.w << hdr.req.n;
        } else if (hdr.req.op == 2) { // slices, concatenation, products
            hdr.res.n0 = hdr.req.a[5:2];
            hdr.res.n1 = hdr.req.w[67:64];
            hdr.res.u0 = hdr.req.a[3:0] ++ hdr.req.b[7:4];
            hdr.res.u1 = hdr.req.a * hdr.req.b;
            hdr.res.s0 = hdr.req.s * hdr.req.t;
            hdr.res.s1 = (int<16>)(bit<16>)(hdr.req.a ++ hdr.req.b);
            hdr.res.w = hdr.req.w;
            hdr.res.w[71:64] = hdr.req.a;
            hdr.res.w = hdr.res.w ^ ((bit<128>)hdr.req.b << 120);
        } else if (hdr.req.op == 3) { // comparisons
            if (hdr.req.a < hdr.req.b) { hdr.res.flags = hdr.res.flags | 1; }
            if (hdr.req.s < hdr.req.t) { hdr.res.flags = hdr.res.flags | 2; }
            if (hdr.req.s >= 0 && hdr.req.t <= -1) { hdr.res.flags = hdr.res.flags | 4; }
            if (hdr.req.a == hdr.req.b || !(hdr.req.a != hdr.req.n)) { hdr.res.flags = hdr.res.flags | 8; }
            if (hdr.req.w > 1 << 100) { hdr.res.flags = hdr.res.flags | 16; }
            hdr.res.u0 = hdr.req.a > hdr.req.b ? hdr.req.a : hdr.req.b;
            hdr.res.u1 = ~hdr.req.a & hdr.req.b;
            hdr.res.s0 = -hdr.req.s;
            hdr.res.s1 = (int<16>)(int<8>)hdr.req.a; // sign extended
        } else {
            triangle();
            hdr.res.u0 = meta.sum;
        }
        hdr.req.setInvalid();
    }
}
control Out(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Deparse(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
