package verbs

import "unsafe"

// Handle is a queue pair of a [Provider]: for [System] a struct ibv_qp pointer. The caller keeps it valid until
// [Labeller.Unbind].
type Handle unsafe.Pointer

// Path is the address to which a queue pair sends: the fields of C's ibv_ah_attr for RoCE.
type Path struct {
	GID          [16]byte // of the destination; an IPv4 address is mapped into IPv6
	SourceGID    uint8    // index in the port's GID table
	HopLimit     uint8
	TrafficClass uint8 // DSCP<<2 | ECN
	ServiceLevel uint8
	Port         uint8 // number of the RDMA device's port, from 1
}

// Receive is the attributes, beside the path, with which a queue pair goes to state RTR (ready to receive).
type Receive struct {
	Path         Path
	MTU          int    // bytes: 256, 512, 1024, 2048 or 4096
	PSN          uint32 // the first expected PSN, 24 bits
	MaxDestReads uint8
	MinRNRTimer  uint8 // InfiniBand's 5-bit code of the RNR NAK timer
}

// Send is the attributes with which a queue pair goes to state RTS (ready to send).
type Send struct {
	Timeout    uint8  // local ACK timeout: 4.096 us * 2^Timeout; 0: none
	RetryCount uint8  // 3 bits
	RNRRetry   uint8  // 3 bits; 7: without limit
	PSN        uint32 // the first PSN sent, 24 bits
	MaxReads   uint8
}

// Provider is the RDMA library's functions that a [Labeller] needs. Errors should be syscall.Errno, as the C functions
// return them.
type Provider interface {
	// ReadyToReceive is ibv_modify_qp from state INIT to RTR.
	ReadyToReceive(h Handle, destQP, flowLabel uint32, r Receive) error
	// ReadyToSend is ibv_modify_qp from state RTR to RTS.
	ReadyToSend(h Handle, s Send) error
	// SetSourcePort is mlx5dv_modify_qp_udp_sport, in state RTS. It returns EOPNOTSUPP if the device cannot change the
	// port.
	SetSourcePort(h Handle, port uint16) error
}
