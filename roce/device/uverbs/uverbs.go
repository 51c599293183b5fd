// Package uverbs has the numbers of infiniband/verbs.h that both the software RDMA device and its connection manager
// exchange with programs. Tests of both compare them with the header.
package uverbs

// States of a queue pair, enum ibv_qp_state. SQD (4) and SQE (5) do not occur.
const (
	QPSReset = 0
	QPSInit  = 1
	QPSRTR   = 2 // ready to receive
	QPSRTS   = 3 // ready to send
	QPSErr   = 6
)

// Attributes that a change of a queue pair sets, enum ibv_qp_attr_mask.
const (
	MaskState           = 1 << 0
	MaskCurrent         = 1 << 1
	MaskAccess          = 1 << 3
	MaskPKey            = 1 << 4
	MaskPort            = 1 << 5
	MaskQKey            = 1 << 6
	MaskAV              = 1 << 7 // address vector: the route to the other side
	MaskPathMTU         = 1 << 8
	MaskTimeout         = 1 << 9
	MaskRetry           = 1 << 10
	MaskRNRRetry        = 1 << 11
	MaskRQPSN           = 1 << 12 // PSN of the first packet received
	MaskMaxRDAtomic     = 1 << 13 // reads and atomics of this side in progress
	MaskAltPath         = 1 << 14
	MaskMinRNR          = 1 << 15
	MaskSQPSN           = 1 << 16 // PSN of the first packet sent
	MaskMaxDestRDAtomic = 1 << 17 // reads and atomics of the other side in progress
	MaskPathMig         = 1 << 18
	MaskDestQPN         = 1 << 20
)

// Attributes that an RC queue pair needs to become ready to receive, and to send.
const (
	MaskRTR = MaskAV | MaskPathMTU | MaskDestQPN | MaskRQPSN | MaskMaxDestRDAtomic | MaskMinRNR
	MaskRTS = MaskTimeout | MaskRetry | MaskRNRRetry | MaskSQPSN | MaskMaxRDAtomic
)

// Rights on memory, enum ibv_access_flags.
const (
	AccessLocalWrite   = 1
	AccessRemoteWrite  = 1 << 1
	AccessRemoteRead   = 1 << 2
	AccessRemoteAtomic = 1 << 3
	AccessMWBind       = 1 << 4
	AccessZeroBased    = 1 << 5
)

// EventCommEst is IBV_EVENT_COMM_EST: a packet arrived at a queue pair in state RTR (ready to receive).
const EventCommEst = 4
