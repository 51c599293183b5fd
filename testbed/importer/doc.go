// Package importer reads workloads and topologies of other programs, and writes them as scenarios: htsim's connection
// matrices and topologies, HPCC's topologies and flows, SimAI's workloads and topologies, AICB's workloads, and NCCL's
// XML files. Each format has a file, which says what it is by the code that reads it.
//
// A reader takes what the original program takes, refuses what it refuses, and counts in [Imported].Notes what has no
// counterpart here. Errors wrap [ErrFile] and name file, line and remedy.
package importer
