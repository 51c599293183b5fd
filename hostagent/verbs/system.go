//go:build verbs && cgo && linux

package verbs

/*
#cgo LDFLAGS: -libverbs -lmlx5
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <infiniband/verbs.h>
#include <infiniband/mlx5dv.h>

// The calls, by pointer: a test hands in others.
struct ethereal_calls {
	int (*modify_qp)(struct ibv_qp *, struct ibv_qp_attr *, int);
	int (*modify_qp_udp_sport)(struct ibv_qp *, uint16_t);
};

static const struct ethereal_calls ethereal_system = {ibv_modify_qp, mlx5dv_modify_qp_udp_sport};

static const struct ethereal_calls *ethereal_system_calls(void) { return &ethereal_system; }

// ibv_modify_qp returns errno in some providers and -1 in others.
static int ethereal_result(int r) { return r == -1 ? errno : r; }

static int ethereal_rtr(const struct ethereal_calls *c, void *qp, const uint8_t *gid, uint32_t dest_qp,
			uint32_t flow_label, uint32_t psn, int mtu, uint8_t sgid, uint8_t hops, uint8_t tc,
			uint8_t sl, uint8_t port, uint8_t reads, uint8_t rnr)
{
	struct ibv_qp_attr a;

	memset(&a, 0, sizeof(a));
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = mtu;
	a.dest_qp_num = dest_qp;
	a.rq_psn = psn;
	a.max_dest_rd_atomic = reads;
	a.min_rnr_timer = rnr;
	a.ah_attr.is_global = 1; // RoCE has no other
	a.ah_attr.port_num = port;
	a.ah_attr.sl = sl;
	memcpy(a.ah_attr.grh.dgid.raw, gid, 16);
	a.ah_attr.grh.flow_label = flow_label;
	a.ah_attr.grh.sgid_index = sgid;
	a.ah_attr.grh.hop_limit = hops;
	a.ah_attr.grh.traffic_class = tc;
	return ethereal_result(c->modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
}

static int ethereal_rts(const struct ethereal_calls *c, void *qp, uint32_t psn, uint8_t timeout, uint8_t retry,
			uint8_t rnr, uint8_t reads)
{
	struct ibv_qp_attr a;

	memset(&a, 0, sizeof(a));
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = psn;
	a.timeout = timeout;
	a.retry_cnt = retry;
	a.rnr_retry = rnr;
	a.max_rd_atomic = reads;
	return ethereal_result(c->modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
		IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
}

static int ethereal_sport(const struct ethereal_calls *c, void *qp, uint16_t port)
{
	return ethereal_result(c->modify_qp_udp_sport(qp, port));
}

static uint16_t ethereal_port_of(uint32_t flow_label) { return ibv_flow_label_to_udp_sport(flow_label); }
*/
import "C"

import (
	"syscall"
	"unsafe"
)

// system calls libibverbs and libmlx5, or a test's replacement.
type system struct{ calls *C.struct_ethereal_calls }

// System returns libibverbs and libmlx5 as a provider, or an error in builds without them.
func System() (Provider, error) { return systemWith(unsafe.Pointer(C.ethereal_system_calls())), nil }

// systemWith returns a provider of other functions: a table of modify_qp and
// modify_qp_udp_sport.
func systemWith(calls unsafe.Pointer) Provider {
	return &system{(*C.struct_ethereal_calls)(calls)}
}

// portOf is the UDP source port that drivers compute from a flow label, according to libibverbs.
func portOf(flowLabel uint32) uint16 { return uint16(C.ethereal_port_of(C.uint32_t(flowLabel))) }

func result(r C.int) error {
	if r == 0 {
		return nil
	}
	return syscall.Errno(r)
}

// mtus are the codes of enum ibv_mtu.
var mtus = map[int]C.int{256: C.IBV_MTU_256, 512: C.IBV_MTU_512, 1024: C.IBV_MTU_1024, 2048: C.IBV_MTU_2048, 4096: C.IBV_MTU_4096}

func (s *system) ReadyToReceive(h Handle, destQP, flowLabel uint32, r Receive) error {
	p := &r.Path
	return result(C.ethereal_rtr(s.calls, unsafe.Pointer(h), (*C.uint8_t)(&p.GID[0]), C.uint32_t(destQP), C.uint32_t(flowLabel),
		C.uint32_t(r.PSN), mtus[r.MTU], C.uint8_t(p.SourceGID), C.uint8_t(p.HopLimit), C.uint8_t(p.TrafficClass),
		C.uint8_t(p.ServiceLevel), C.uint8_t(p.Port), C.uint8_t(r.MaxDestReads), C.uint8_t(r.MinRNRTimer)))
}

func (s *system) ReadyToSend(h Handle, t Send) error {
	return result(C.ethereal_rts(s.calls, unsafe.Pointer(h), C.uint32_t(t.PSN), C.uint8_t(t.Timeout), C.uint8_t(t.RetryCount),
		C.uint8_t(t.RNRRetry), C.uint8_t(t.MaxReads)))
}

func (s *system) SetSourcePort(h Handle, port uint16) error {
	return result(C.ethereal_sport(s.calls, unsafe.Pointer(h), C.uint16_t(port)))
}
