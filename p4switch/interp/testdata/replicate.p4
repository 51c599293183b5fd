// Clones, multicast, resubmit, recirculate, truncate, digest, log, drops.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> op; bit<8> n; bit<16> port; }
header e_t { bit<8> kind; bit<8> rid; bit<16> len; bit<32> kept; }
struct headers_t { e_t e; h_t h; }
struct meta_t {
    @field_list(1) bit<32> kept;
    @field_list(2) bit<8> rounds;
}
struct digest_t { bit<8> op; bit<16> port; }

parser P(packet_in pkt, out headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    state start {
        transition select(sm.instance_type) {
            4: again; // recirculated: with what the egress put in front
            default: first;
        }
    }
    state again { pkt.extract(hdr.e); transition first; }
    state first { pkt.extract(hdr.h); transition accept; }
}
control In(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        sm.egress_spec = (bit<9>)hdr.h.port;
        log_msg("op {} n {}", { hdr.h.op, hdr.h.n });
        if (sm.instance_type == 4) {
            sm.egress_spec = 9;
        } else if (hdr.h.op == 1) {
            meta.kept = 0xabcd0000 + (bit<32>)hdr.h.n;
            clone_preserving_field_list(CloneType.I2E, 5, 1);
            hdr.h.n = 0xff;
        } else if (hdr.h.op == 2) {
            sm.mcast_grp = (bit<16>)hdr.h.n;
        } else if (hdr.h.op == 3) {
            if (meta.rounds < hdr.h.n) {
                meta.rounds = meta.rounds + 1;
                resubmit_preserving_field_list(2);
            } else {
                meta.kept = (bit<32>)meta.rounds;
            }
        } else if (hdr.h.op == 6) {
            digest<digest_t>(1, { hdr.h.op, hdr.h.port });
        } else if (hdr.h.op == 7) {
            mark_to_drop(sm);
        } else if (hdr.h.op == 8) {
            resubmit_preserving_field_list(2); // for ever
        } else if (hdr.h.op == 10) {
            assert(hdr.h.n == 0);
        }
    }
}
control Out(inout headers_t hdr, inout meta_t meta, inout standard_metadata_t sm) {
    apply {
        if (!hdr.e.isValid()) {
            hdr.e.setValid();
            hdr.e.kind = (bit<8>)sm.instance_type;
            hdr.e.rid = (bit<8>)sm.egress_rid;
            hdr.e.len = (bit<16>)sm.packet_length;
            hdr.e.kept = meta.kept;
            // A unicast packet is normal in egress, even one that went round.
            if (hdr.h.op == 4) { recirculate_preserving_field_list(2); }
        }
        if (sm.instance_type == 0) {
            if (hdr.h.op == 5) {
                meta.kept = 7;
                clone_preserving_field_list(CloneType.E2E, 5, 1);
                mark_to_drop(sm);
            } else if (hdr.h.op == 9) {
                truncate((bit<32>)hdr.h.n);
            }
        }
    }
}
control Verify(inout headers_t hdr, inout meta_t meta) { apply { } }
control Compute(inout headers_t hdr, inout meta_t meta) { apply { } }
control Deparse(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr); } }

V1Switch(P(), Verify(), In(), Out(), Compute(), Deparse()) main;
