// What a traffic manager does, made visible: a packet says in its first bytes
// where it goes, and what it met on the way is written into it.
#include <core.p4>
#include <v1model.p4>

header order_t {
    bit<16> port;      // where to; 0: group
    bit<8>  priority;
    bit<8>  group;     // multicast group
    bit<8>  again;     // passes still to recirculate
    bit<8>  clone;     // egress clone session; 0: none
    bit<16> tag;
}
header seen_t {
    bit<16> ingress_port;
    bit<8>  instance;
    bit<8>  qid;
    bit<32> enq_depth;
    bit<32> deq_depth;
    bit<32> enq_time;
    bit<32> deq_delta;
}
@controller_header("packet_in")
header packet_in_t { bit<16> port; }
@controller_header("packet_out")
header packet_out_t { bit<16> port; }
struct headers_t { packet_out_t pout; packet_in_t pin; order_t order; seen_t seen; }
struct meta_t { @field_list(1) bit<8> keep; }

const bit<9> CPU = 255;

parser P(packet_in p, out headers_t h, inout meta_t m, inout standard_metadata_t s) {
    state start {
        transition select(s.ingress_port) { CPU: out_header; default: rest; }
    }
    state out_header { p.extract(h.pout); transition rest; }
    state rest { p.extract(h.order); transition accept; }
}
control V(inout headers_t h, inout meta_t m) { apply { } }
control I(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        s.priority = h.order.priority[2:0];
        if (h.pout.isValid()) {
            s.egress_spec = (bit<9>)h.pout.port;
            h.pout.setInvalid();
        } else if (h.order.port == 0) {
            s.mcast_grp = (bit<16>)h.order.group;
        } else {
            s.egress_spec = (bit<9>)h.order.port;
        }
    }
}
control E(inout headers_t h, inout meta_t m, inout standard_metadata_t s) {
    apply {
        if (h.order.clone != 0 && s.instance_type == 0) {
            clone_preserving_field_list(CloneType.E2E, (bit<32>)h.order.clone, 1);
        }
        if (h.order.again != 0) {
            h.order.again = h.order.again - 1;
            recirculate_preserving_field_list(1);
        } else if (s.egress_port == CPU) {
            h.pin.setValid();
            h.pin.port = (bit<16>)s.ingress_port;
        } else {
            h.seen.setValid();
            h.seen.ingress_port = (bit<16>)s.ingress_port;
            h.seen.instance = s.instance_type[7:0];
            h.seen.qid = (bit<8>)s.priority;
            h.seen.enq_depth = (bit<32>)s.enq_qdepth;
            h.seen.deq_depth = (bit<32>)s.deq_qdepth;
            h.seen.enq_time = s.enq_timestamp;
            h.seen.deq_delta = s.deq_timedelta;
        }
    }
}
control C(inout headers_t h, inout meta_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h.pin); p.emit(h.order); p.emit(h.seen); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
