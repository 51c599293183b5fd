// Tables of all kinds, counters, meters, registers, hashes, arithmetic.
#include <core.p4>
#include <v1model.p4>

header in_t { bit<8> op; bit<8> a; bit<16> b; bit<32> c; bit<128> d; }
header out_t { bit<8> op; bit<8> color; bit<16> h16; bit<32> h32; bit<32> r; int<8> s; bit<8> u; bit<16> hits; }
struct headers_t { out_t res; in_t req; }
struct meta_t { bit<8> color; bit<16> sel; bit<2> dcolor; }

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { pkt.extract(hdr.req); transition accept; }
}
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    register<bit<32>>(16) sums;
    counter(8, CounterType.packets_and_bytes) ops;
    meter(4, MeterType.packets) rate;
    direct_counter(CounterType.packets_and_bytes) lpm_hits;
    direct_meter<bit<2>>(MeterType.bytes) lpm_rate;
    action_selector(HashAlgorithm.crc16, 16, 14) sel;

    action forward(bit<9> port) { sm.egress_spec = port; }
    action drop() { mark_to_drop(sm); }
    action note(bit<16> n) { hdr.res.hits = hdr.res.hits + n; }
    table exact_t {
        key = { hdr.req.op: exact; hdr.req.b: exact; }
        actions = { forward; drop; NoAction; }
        default_action = NoAction;
        size = 16;
    }
    action metered(bit<9> port) { sm.egress_spec = port; lpm_hits.count(); lpm_rate.read(meta.dcolor); }
    table lpm_t {
        key = { hdr.req.d: lpm; }
        actions = { metered; NoAction; }
        default_action = NoAction;
        counters = lpm_hits;
        meters = lpm_rate;
        size = 16;
    }
    table ternary_t {
        key = { hdr.req.a: ternary; hdr.req.b: range; hdr.req.op: optional; }
        actions = { note; NoAction; }
        default_action = NoAction;
        size = 16;
    }
    table const_t {
        key = { hdr.req.a: ternary; }
        actions = { note; }
        const default_action = note(0x100);
        const entries = {
            0x80 &&& 0x80: note(0x1000);
            0x01 &&& 0x01: note(0x2000);
            _: note(0x4000);
        }
    }
    table sel_t {
        key = { hdr.req.op: exact; hdr.req.c: selector; hdr.req.b: selector; }
        actions = { forward; NoAction; }
        implementation = sel;
        size = 4;
    }
    apply {
        hdr.res.setValid();
        hdr.res.op = hdr.req.op;
        ops.count((bit<32>)(hdr.req.op & 7));
        if (!exact_t.apply().hit) { lpm_t.apply(); }
        ternary_t.apply();
        switch (const_t.apply().action_run) { note: { } default: { drop(); } }
        if (hdr.req.op == 6) { sel_t.apply(); }
        if (hdr.req.op == 1) {
            bit<32> v;
            sums.read(v, (bit<32>)hdr.req.a);
            v = v + hdr.req.c;
            sums.write((bit<32>)hdr.req.a, v);
            hdr.res.r = v;
        } else if (hdr.req.op == 2) {
            hash(hdr.res.h16, HashAlgorithm.crc16, 16w0, { hdr.req.c, hdr.req.a }, 32w0x10000);
            hash(hdr.res.h32, HashAlgorithm.crc32, 32w0, { hdr.req.d, hdr.req.b }, 64w0x100000000);
            hash(hdr.res.r, HashAlgorithm.xor16, 32w10, { hdr.req.c }, 32w100);
        } else if (hdr.req.op == 3) {
            hdr.res.s = (int<8>)hdr.req.a |+| 100;
            hdr.res.u = hdr.req.a |-| 100;
            hdr.res.h16 = hdr.req.b ++ hdr.req.b == hdr.req.c ? 16w1 : 16w2;
            hdr.res.h32 = (bit<32>)((hdr.req.d >> 60) & 0xffff) * hdr.req.c;
            hdr.res.r = (bit<32>)(bit<8>)((int<8>)hdr.req.a >> 2);
            hdr.req.d = (hdr.req.d << 4) - 1;
        } else if (hdr.req.op == 4) {
            rate.execute_meter((bit<32>)hdr.req.a, meta.color);
            hdr.res.color = meta.color;
        }
        if (hdr.req.op == 5) {
            hdr.res.color = (bit<8>)meta.dcolor;
            exit;
        }
        hdr.res.hits = hdr.res.hits | 1;
    }
}
control Out(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Deparse(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
