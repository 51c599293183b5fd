//go:build verbs && cgo && linux

package fakeibv

/*
#include <errno.h>
#include <string.h>
#include <infiniband/verbs.h>

static struct ibv_qp_attr last;
static int mask, modified, result;
static uint16_t sport;
static struct ibv_qp qp;

static int modify_qp(struct ibv_qp *q, struct ibv_qp_attr *a, int m)
{
	if (q != &qp)
		return EINVAL;
	if (result == -1) { // as some providers report
		errno = ENOMEM;
		return -1;
	}
	last = *a;
	mask = m;
	modified++;
	return result;
}

static int modify_qp_udp_sport(struct ibv_qp *q, uint16_t port)
{
	if (q != &qp)
		return EINVAL;
	sport = port;
	return result;
}

static struct {
	int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int (*modify_qp_udp_sport)(struct ibv_qp *, uint16_t);
} calls = {modify_qp, modify_qp_udp_sport};

static void *table(void) { return &calls; }
static void *handle(void) { return &qp; }
static void fail(int r) { result = r; }
static const struct ibv_qp_attr *last_attr(void) { return &last; }
static int last_mask(void) { return mask; }
static int calls_made(void) { return modified; }
static uint16_t last_sport(void) { return sport; }
*/
import "C"

import "unsafe"

// Attributes is the arguments of the last call of ibv_modify_qp.
type Attributes struct {
	Calls, Mask, State, MTU                                            int
	DestQP, FlowLabel, ReceivePSN, SendPSN                             uint32
	GID                                                                [16]byte
	Global, SourceGID, HopLimit, TrafficClass, ServiceLevel, Port      uint8
	MaxDestReads, MinRNRTimer, Timeout, RetryCount, RNRRetry, MaxReads uint8
}

// Masks and states, as verbs.h defines them.
const (
	MaskRTR = C.IBV_QP_STATE | C.IBV_QP_AV | C.IBV_QP_PATH_MTU | C.IBV_QP_DEST_QPN | C.IBV_QP_RQ_PSN |
		C.IBV_QP_MAX_DEST_RD_ATOMIC | C.IBV_QP_MIN_RNR_TIMER
	MaskRTS = C.IBV_QP_STATE | C.IBV_QP_SQ_PSN | C.IBV_QP_TIMEOUT | C.IBV_QP_RETRY_CNT | C.IBV_QP_RNR_RETRY |
		C.IBV_QP_MAX_QP_RD_ATOMIC
	RTR     = C.IBV_QPS_RTR
	RTS     = C.IBV_QPS_RTS
	MTU1024 = C.IBV_MTU_1024
)

// Table returns the fake library's functions, as a C struct.
func Table() unsafe.Pointer { return C.table() }

// Handle returns the fake library's only queue pair, a struct ibv_qp pointer.
func Handle() unsafe.Pointer { return C.handle() }

// Fail makes the fake functions return r from now on; -1: they return -1 and set errno to ENOMEM.
func Fail(r int) { C.fail(C.int(r)) }

// SourcePort returns the port of the last call of mlx5dv_modify_qp_udp_sport.
func SourcePort() uint16 { return uint16(C.last_sport()) }

// Last returns the arguments of the last call of ibv_modify_qp.
func Last() Attributes {
	a := C.last_attr()
	v := Attributes{
		Calls: int(C.calls_made()), Mask: int(C.last_mask()), State: int(a.qp_state), MTU: int(a.path_mtu),
		DestQP: uint32(a.dest_qp_num), FlowLabel: uint32(a.ah_attr.grh.flow_label),
		ReceivePSN: uint32(a.rq_psn), SendPSN: uint32(a.sq_psn),
		Global: uint8(a.ah_attr.is_global), SourceGID: uint8(a.ah_attr.grh.sgid_index), HopLimit: uint8(a.ah_attr.grh.hop_limit),
		TrafficClass: uint8(a.ah_attr.grh.traffic_class), ServiceLevel: uint8(a.ah_attr.sl), Port: uint8(a.ah_attr.port_num),
		MaxDestReads: uint8(a.max_dest_rd_atomic), MinRNRTimer: uint8(a.min_rnr_timer), Timeout: uint8(a.timeout),
		RetryCount: uint8(a.retry_cnt), RNRRetry: uint8(a.rnr_retry), MaxReads: uint8(a.max_rd_atomic),
	}
	copy(v.GID[:], unsafe.Slice((*byte)(unsafe.Pointer(&a.ah_attr.grh.dgid)), 16))
	return v
}
