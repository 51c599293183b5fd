// Headers that are whole bytes only with their varbit: 12 bits and a varbit. BMv2 ends at such a program, by an assertion.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
header ragged_t { bit<8> n; varbit<100> x; bit<4> z; }
header plain_t { bit<8> v; }
struct headers { ethernet_t ethernet; ragged_t ragged; ragged_t made; plain_t plain; }
struct metadata { }

parser TheParser(packet_in packet, out headers hdr, inout metadata meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.dst[47:40]) { 1: ragged; 2: plain; default: accept; }
    }
    state ragged {
        bit<8> n = packet.lookahead<bit<8>>();
        packet.extract(hdr.ragged, (bit<32>) n);
        transition plain;
    }
    state plain { packet.extract(hdr.plain); transition accept; }
}
control TheVerify(inout headers hdr, inout metadata meta) { apply { } }
control TheIngress(inout headers hdr, inout metadata meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.ethernet.src[7:0] = 0;
        if (std.parser_error == error.PacketTooShort) { hdr.ethernet.src[7:0] = 1; }
        if (std.parser_error == error.HeaderTooShort) { hdr.ethernet.src[7:0] = 4; }
        if (std.parser_error == error.ParserInvalidArgument) { hdr.ethernet.src[7:0] = 6; }
        if (hdr.ragged.isValid()) { hdr.ragged.z = hdr.ragged.z + 1; }
        if (hdr.ethernet.dst[47:40] == 2) { hdr.made.setValid(); hdr.made.n = 0xab; hdr.made.z = 0xc; }
    }
}
control TheEgress(inout headers hdr, inout metadata meta, inout standard_metadata_t std) { apply { } }
control TheCompute(inout headers hdr, inout metadata meta) { apply { } }
control TheDeparser(packet_out packet, in headers hdr) {
    apply { packet.emit(hdr.ethernet); packet.emit(hdr.ragged); packet.emit(hdr.made); packet.emit(hdr.plain); }
}
V1Switch(TheParser(), TheVerify(), TheIngress(), TheEgress(), TheCompute(), TheDeparser()) main;
