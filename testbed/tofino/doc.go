// Package tofino runs the program for Tofino on the functional model of the chip, with the entries of an
// interpreter's switch, and is a data path of `ethereal switch`.
//
// The model is a program of the chip's makers, which this repository neither contains nor builds. [Start] runs its
// test harness, which takes commands as lines (add, setdefault, load, packet) and shows the packets that leave. Its
// path comes from the user; tests take it from ETHEREAL_TOFINO_MODEL.
//
// # Tables
//
// [Mirror] copies the tables of a switch with v1model's program to the chip's tables of the same names. The harness
// can add and overwrite entries, but not delete them:
//
//   - a table with prefixes or masks is an array of rows, of which the highest that matches wins. [Mirror] writes the
//     array in order, and fills rows that are no longer needed with a copy of the highest one, which changes nothing;
//   - an entry of an exact table is overwritten with the table's default action.
//
// Groups of table ecmp, multicast groups and mirror sessions have no commands. They are written as registers and
// memories of the chip, in the assembler's binary format.
//
// # Ports
//
// Port numbers are those of the chip's first pipe, 0 to 62, as in v1model. The CPU port is 63 on the chip, for
// which the program is compiled with -DCPU_PORT=63, and [p4src.CPUPort] here, because the harness does not show
// packets to ports from 64 up. A port-event packet goes in as a packet-out to [p4src.PortEventPort].
package tofino
