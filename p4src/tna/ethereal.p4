// Ethereal for Tofino: TNA (Tofino 1) and T2NA (Tofino 2).
//
// The tables, actions and counters are those of v1model/ethereal.p4, under the
// same names and with the same parameters. Where the chip can do better than
// v1model says, it does:
//
//   - a dead port is learnt from the packet generator's port-down event, with no
//     CPU in the way; a port-event packet from the CPU does the same, and says
//     when the port is back;
//   - the way round a dead uplink is the action selector itself: the event clears
//     the port's bit in the selector's live members, so `ecmp` answers with a
//     live one, and v1model's first_live and port_of_uplink are not needed;
//   - the source quench is an ingress mirror of the packet, cut to its headers by
//     the mirror session.
//
// What differs is listed in docs/tofino.md.
#include <core.p4>
#if __TARGET_TOFINO__ == 2
#include <t2na.p4>
#else
#include <tna.p4>
#endif

#define ETHEREAL_PACKET_IO
#include "../shared/headers.p4"
#include "sizes.p4"
#include "tna_headers.p4"

#include "../shared/parser.p4"

#include "ingress.p4"
#ifdef ETHEREAL_CSIG
#include "csig.p4"
#endif
#include "egress.p4"

Pipeline(IngressParser(), Ingress(), IngressDeparser(),
         EgressParser(), Egress(), EgressDeparser()) pipe;

Switch(pipe) main;
