// What programs of the field have: entries that can be changed, direct counters and meters of a default entry, and
// digests of tuples, single values, headers and translated types.
#include <core.p4>
#include <v1model.p4>

header eth_t { bit<48> dst; bit<48> src; bit<16> type; }
header op_t { bit<8> op; bit<8> x; }
@p4runtime_translation("", string) type bit<16> hop_t;
struct headers { eth_t eth; op_t op; }
struct meta { }
struct learn_t { eth_t eth; op_t op; }
struct hop_learn_t { hop_t hop; bit<8> x; }

parser P(packet_in pkt, out headers hdr, inout meta m, inout standard_metadata_t std) {
    state start {
        pkt.extract(hdr.eth);
        transition select(hdr.eth.type) { 0x99: op; default: accept; }
    }
    state op { pkt.extract(hdr.op); transition accept; }
}

control In(inout headers hdr, inout meta m, inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<8>>(MeterType.packets) limit;
    action to(bit<9> p) { std.egress_spec = p; }
    action mark(bit<8> v) { hits.count(); limit.read(hdr.eth.src[7:0]); hdr.eth.src[15:8] = v; }
    table ex {
        key = { hdr.eth.type: exact; }
        actions = { to; NoAction; }
        entries = { const 1: to(1); 2: to(2); 3: to(3); }
        default_action = to(1);
        size = 5;
    }
    table te {
        key = { hdr.eth.dst: ternary; hdr.eth.type: ternary; }
        actions = { mark; NoAction; }
        entries = { (0x020000000000 &&& 0xff0000000000, _): mark(1); (_, 2): mark(2); (_, 3): mark(3); }
        default_action = mark(9);
        counters = hits;
        meters = limit;
        size = 16;
    }
    apply {
        ex.apply();
        te.apply();
        if (hdr.op.op == 1) { digest<tuple<bit<8>, bit<16>>>(1, { hdr.op.x, hdr.eth.type }); }
        if (hdr.op.op == 2) { digest<bit<16>>(1, hdr.eth.type); }
        if (hdr.op.op == 3) { digest<learn_t>(1, { hdr.eth, hdr.op }); }
        if (hdr.op.op == 4) { hdr.op.setInvalid(); digest<learn_t>(1, { hdr.eth, hdr.op }); }
        if (hdr.op.op == 5) { digest<hop_learn_t>(1, { (hop_t) hdr.eth.type, hdr.op.x }); }
    }
}

control V(inout headers hdr, inout meta m) { apply { } }
control E(inout headers hdr, inout meta m, inout standard_metadata_t std) { apply { } }
control C(inout headers hdr, inout meta m) { apply { } }
control D(packet_out pkt, in headers hdr) { apply { pkt.emit(hdr); } }

V1Switch(P(), V(), In(), E(), C(), D()) main;
