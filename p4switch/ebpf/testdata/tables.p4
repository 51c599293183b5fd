// What kernel_test pushes random packets through beside the interpreter: tables with ranges, many masks, action profiles
// and selectors, and registers that packets write.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header req_t { bit<8> op; bit<16> a; bit<16> b; bit<32> c; bit<8> d; }
header res_t { bit<16> acl; bit<16> masked; bit<16> ranged; bit<16> made; bit<16> chosen; bit<32> sum; bit<32> seen; bit<8> hits; }
struct headers_t { eth_t eth; res_t res; req_t req; }
struct meta_t { }

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start { pkt.extract(hdr.eth); pkt.extract(hdr.req); transition accept; }
}
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    direct_counter(CounterType.packets_and_bytes) acl_hits;
    direct_counter(CounterType.packets_and_bytes) choice_hits;
    action_profile(32) profile;
    action_selector(HashAlgorithm.crc16, 64, 16) wcmp;
    register<bit<32>>(16) sums;
    register<bit<32>>(16) last;
    action deny() { mark_to_drop(sm); acl_hits.count(); }
    action permit(bit<16> v) { hdr.res.acl = v; acl_hits.count(); }
    action mask(bit<16> v) { hdr.res.masked = v; }
    action span(bit<16> v) { hdr.res.ranged = v; }
    action make(bit<16> v) { hdr.res.made = v; }
    action add(bit<16> v) { hdr.res.made = hdr.req.b + v; }
    action choose(bit<16> v, bit<9> port) { hdr.res.chosen = v; sm.egress_spec = port; choice_hits.count(); }
    action none() { choice_hits.count(); }
    table acl {
        key = { hdr.req.a: ternary; hdr.req.b: range; hdr.req.d: range; hdr.req.op: optional; }
        actions = { deny; permit; @defaultonly NoAction; }
        default_action = NoAction;
        counters = acl_hits;
        size = 256;
    }
    table masks {
        key = { hdr.req.c: ternary; }
        actions = { mask; NoAction; }
        default_action = NoAction;
        size = 1024;
    }
    table ranges {
        key = { hdr.req.c: range; }
        actions = { span; NoAction; }
        default_action = span(7);
        size = 256;
    }
    table profiled {
        key = { hdr.req.op: exact; }
        actions = { make; add; NoAction; }
        implementation = profile;
        size = 64;
    }
    table again {
        key = { hdr.req.a: lpm; }
        actions = { add; make; NoAction; }
        implementation = profile;
        size = 64;
    }
    table choices {
        key = { hdr.req.d: ternary; hdr.req.b: selector; hdr.req.c: selector; }
        actions = { choose; none; }
        implementation = wcmp;
        counters = choice_hits;
        size = 64;
    }
    apply {
        hdr.res.setValid();
        sm.egress_spec = 1;
        acl.apply();
        masks.apply();
        ranges.apply();
        if (profiled.apply().hit) { hdr.res.hits = 1; }
        else { again.apply(); }
        if (choices.apply().hit) { hdr.res.hits = hdr.res.hits | 2; }
        if (hdr.req.op == 2 || hdr.req.op == 3) {
            bit<32> v;
            sums.read(v, (bit<32>)hdr.req.d);
            v = v + hdr.req.c;
            sums.write((bit<32>)hdr.req.d, v);
            if (hdr.req.op == 3) {
                sums.write((bit<32>)hdr.req.a[3:0], 5);
                sums.read(v, (bit<32>)hdr.req.d);
            }
            hdr.res.sum = v;
        }
        if (hdr.req.op >= 5) { last.read(hdr.res.seen, 0); }
        if (hdr.req.op == 6) { last.write(0, hdr.req.c); }
    }
}
control Out(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply { if (hdr.req.op == 4) { truncate(40); } }
}
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Deparse(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
