package verbs

import "unsafe"

// Handle is a queue pair as its provider knows it: for [System] a struct ibv_qp
// pointer. The caller keeps it alive until [Labeller.Unbind].
type Handle unsafe.Pointer

// Path is where a queue pair's packets go: ibv_ah_attr, of a RoCE device.
type Path struct {
	GID          [16]byte // of the destination; an IPv4 address is mapped into IPv6's
	SourceGID    uint8    // index in the port's table
	HopLimit     uint8
	TrafficClass uint8 // DSCP<<2 | ECN
	ServiceLevel uint8
	Port         uint8 // of the device, from 1
}

// Receive is what RTR needs beside the path.
type Receive struct {
	Path         Path
	MTU          int    // bytes: 256, 512, 1024, 2048 or 4096
	PSN          uint32 // the first expected, 24 bits
	MaxDestReads uint8
	MinRNRTimer  uint8 // 5-bit code of the specification
}

// Send is what RTS needs.
type Send struct {
	Timeout    uint8  // t of 4.096 us * 2^t; 0 = never
	RetryCount uint8  // 3 bits
	RNRRetry   uint8  // 3 bits; 7 = for ever
	PSN        uint32 // the first sent, 24 bits
	MaxReads   uint8
}

// Provider makes the calls. Errors should be syscall.Errno, as the C functions
// return them.
type Provider interface {
	// ReadyToReceive is ibv_modify_qp from INIT to RTR.
	ReadyToReceive(h Handle, destQP, flowLabel uint32, r Receive) error
	// ReadyToSend is ibv_modify_qp from RTR to RTS.
	ReadyToSend(h Handle, s Send) error
	// SetSourcePort is mlx5dv_modify_qp_udp_sport, in RTS. It returns
	// EOPNOTSUPP where the device cannot.
	SetSourcePort(h Handle, port uint16) error
}
