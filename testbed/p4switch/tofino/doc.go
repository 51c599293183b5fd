// Package tofino runs the program for Tofino on the functional model of the chip, as a data path behind our own P4Runtime
// server.
//
// The model is a program of the chip's makers, which this repository neither contains nor builds. [Start] runs its test
// harness, which takes commands as lines (add, setdefault, packet) and shows the packets that leave. Its path comes from
// the user; tests take it from ETHEREAL_TOFINO_MODEL.
//
// # Tables
//
// Controllers write v1model's program in the interpreter's switch, as for any other data path. [Mirror] writes what its
// tables say to the tables of the same names in the chip's program. The harness can add and overwrite entries, but not
// delete them:
//
//   - a table with prefixes or masks is an array of rows, of which the highest that matches wins. [Mirror] writes the
//     array in order, and fills rows that are no longer needed with a copy of the highest one, which changes nothing;
//   - an entry of an exact table is overwritten with the table's default action.
//
// # Ports
//
// Port numbers are those of the chip's first pipe, 0 to 63, which v1model's are too. The port to the CPU is 320 there and
// [p4src.CPUPort] here. A port-event packet goes in as a packet-out to [p4src.PortEventPort].
package tofino
