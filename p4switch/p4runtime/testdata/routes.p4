// One large LPM table, for benchmarks of table writes. Compiled like
// everything.p4.
#include <core.p4>
#include <v1model.p4>

header ipv4_t {
    bit<96> before;
    bit<32> src;
    bit<32> dst;
}
struct headers_t { ipv4_t ipv4; }
struct meta_t { }

parser Parse(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.ipv4);
        transition accept;
    }
}
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) {
    action forward(bit<9> port) { std.egress_spec = port; }
    table route {
        key = { hdr.ipv4.dst: lpm; }
        actions = { forward; NoAction; }
        default_action = NoAction();
        size = 1000000;
    }
    apply { route.apply(); }
}
control Out(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Deparse(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.ipv4); } }

V1Switch(Parse(), Verify(), In(), Out(), Compute(), Deparse()) main;
