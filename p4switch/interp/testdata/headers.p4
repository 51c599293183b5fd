// Header stacks, unions, varbits, lookahead, advance, verify, value sets.
#include <core.p4>
#include <v1model.p4>

error { BadVersion }

header base_t { bit<8> kind; bit<8> count; }
header label_t { bit<20> label; bit<3> tc; bit<1> bos; bit<8> ttl; }
header short_t { bit<8> tag; bit<8> x; }
header long_t { bit<8> tag; bit<24> x; }
header opts_t { bit<8> len; varbit<64> data; }
header trailer_t { bit<16> sum; }
header note_t { bit<8> err; bit<8> valid; bit<32> last; }

header_union either_t { short_t s; long_t l; }

struct headers_t {
    note_t note;
    base_t base;
    label_t[3] labels;
    either_t[2] either;
    opts_t opts;
    trailer_t trailer;
}
struct meta_t { bit<8> peek; }

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    value_set<bit<8>>(4) kinds;
    state start {
        pkt.extract(hdr.base);
        transition select(hdr.base.kind) {
            1: labels;
            2: either;
            3: opts;
            4 &&& 0xfe: checked;
            kinds: trailer;
            default: accept;
        }
    }
    state labels {
        pkt.extract(hdr.labels.next);
        transition select(hdr.labels.last.bos) {
            0: labels;
            default: accept;
        }
    }
    state either {
        meta.peek = pkt.lookahead<bit<8>>();
        transition select(meta.peek) {
            0xaa: one_short;
            0xbb: one_long;
            default: accept;
        }
    }
    state one_short { pkt.extract(hdr.either.next.s); transition either; }
    state one_long { pkt.extract(hdr.either.next.l); transition either; }
    state opts {
        pkt.extract(hdr.opts, (bit<32>)(pkt.lookahead<bit<8>>()) * 8);
        transition trailer;
    }
    state checked {
        verify(hdr.base.count < 9, error.BadVersion);
        pkt.advance((bit<32>)hdr.base.count * 8);
        transition trailer;
    }
    state trailer { pkt.extract(hdr.trailer); transition accept; }
}

control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = 1;
        hdr.note.setValid();
        hdr.note.last = 0;
        if (sm.parser_error == error.NoError) { hdr.note.err = 0; }
        else if (sm.parser_error == error.PacketTooShort) { hdr.note.err = 1; }
        else if (sm.parser_error == error.StackOutOfBounds) { hdr.note.err = 2; }
        else if (sm.parser_error == error.BadVersion) { hdr.note.err = 3; }
        else { hdr.note.err = 0xff; }
        hdr.note.valid = 0;
        if (hdr.labels[0].isValid()) {
            hdr.note.valid = hdr.note.valid | 1;
            hdr.note.last = (bit<32>)hdr.labels[0].label;
            if (hdr.base.count == 1) { hdr.labels.pop_front(1); }
            if (hdr.base.count == 2) {
                hdr.labels.push_front(1);
                hdr.labels[0].setValid();
                hdr.labels[0] = { 77, 5, 0, 64 };
            }
            if (hdr.base.count == 3 && hdr.labels[1].isValid()) { hdr.labels[0] = hdr.labels[1]; }
        }
        if (hdr.either[0].isValid()) {
            hdr.note.valid = hdr.note.valid | 2;
            if (hdr.either[0].s.isValid()) {
                bit<8> x = hdr.either[0].s.x;
                hdr.either[0].l.setValid();
                hdr.either[0].l.tag = 0xcc;
                hdr.either[0].l.x = 0x010200 + (bit<24>)x;
            } else {
                hdr.either[0].l.setInvalid();
            }
        }
        if (hdr.opts.isValid()) { hdr.note.valid = hdr.note.valid | 4; }
        if (hdr.trailer.isValid()) { hdr.note.valid = hdr.note.valid | 8; }
    }
}
control Out(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) { apply { } }
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) {
    apply {
        update_checksum_with_payload(hdr.opts.isValid(), { hdr.base.kind, hdr.base.count, hdr.opts.len, hdr.opts.data },
            hdr.trailer.sum, HashAlgorithm.csum16);
    }
}
control Deparse(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
