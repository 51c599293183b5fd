// What a packet costs as a table, its headers or its payload grow: the first
// byte says which table looks it up, the second how many words follow.
#include <core.p4>
#include <v1model.p4>

header ask_t { bit<8> op; bit<8> words; bit<48> a; bit<32> b; bit<16> c; }
header word_t { bit<32> x; }
struct headers_t { ask_t ask; word_t[32] words; }
struct meta_t { bit<8> left; }

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        pkt.extract(hdr.ask);
        meta.left = hdr.ask.words;
        transition more;
    }
    state more {
        transition select(meta.left) {
            0: accept;
            default: word;
        }
    }
    state word {
        pkt.extract(hdr.words.next);
        meta.left = meta.left - 1;
        transition more;
    }
}
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    action forward(bit<9> port) { sm.egress_spec = port; }
    table by_exact {
        key = { hdr.ask.a: exact; }
        actions = { forward; NoAction; }
        default_action = NoAction;
        size = 131072;
    }
    table by_lpm {
        key = { hdr.ask.b: lpm; }
        actions = { forward; NoAction; }
        default_action = NoAction;
        size = 131072;
    }
    table by_ternary {
        key = { hdr.ask.b: ternary; hdr.ask.c: ternary; }
        actions = { forward; NoAction; }
        default_action = NoAction;
        size = 16384;
    }
    apply {
        if (hdr.ask.op == 1) { by_exact.apply(); }
        else if (hdr.ask.op == 2) { by_lpm.apply(); }
        else if (hdr.ask.op == 3) { by_ternary.apply(); }
    }
}
control Out(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Deparse(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
