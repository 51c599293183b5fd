//go:build linux

package device

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/roce/device/ctest"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// TestABI compares the Go side of what is shared with the C side.
func TestABI(t *testing.T) {
	cc := systemtest.Program(t, "cc", "", "apt-get install build-essential")
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		t.Skip("no infiniband/verbs.h (Debian: libibverbs-dev)")
	}
	want := map[string]int{
		"NIC_ABI": ABI, "NIC_HELLO": int(opHello), "NIC_QUERY_PORT": int(opQueryPort), "NIC_CREATE_QP": int(opCreateQP),
		"NIC_DESTROY_QP": int(opDestroyQP), "NIC_RESIZE_CQ": int(opResizeCQ), "NIC_RESIZE_SRQ": int(opResizeSRQ),
		"NIC_QUERY_SRQ": int(opQuerySRQ), "NIC_REREG_MR": int(opReregMR),
		"NIC_DEALLOC_MW": int(opDeallocMW), "NIC_CM": int(opCM),
		"NIC_FIND_HOST": int(opFindHost), "NIC_CM_MOST": cmMaxLength, "NIC_CM_OPTION": cmOption,
		"offsetof(struct nic_cm_call, command)": cmCallHead, "offsetof(struct nic_cm_answer, response)": cmCallHead,
		"IBV_WR_SEND_WITH_INV": wrSendInv, "IBV_WR_BIND_MW": wrBind,
		"IBV_WR_LOCAL_INV": wrLocalInv, "IBV_WC_BIND_MW": wcBind,
		"IBV_WC_LOCAL_INV": wcLocalInv, "IBV_WC_WITH_INV": wcWithInv, "IBV_WC_MW_BIND_ERR": int(mwBindErr),
		"IBV_ACCESS_MW_BIND": uverbs.AccessMWBind, "IBV_MW_TYPE_1": windowType1,
		"IBV_MW_TYPE_2": windowType2, "NIC_FIRST_LIMIT": firstLimit, "NIC_LIMITS": len(deviceLimits),
		"IBV_QP_PKEY_INDEX": uverbs.MaskPKey, "IBV_QP_PORT": uverbs.MaskPort,
		"IBV_QP_PATH_MTU": uverbs.MaskPathMTU, "IBV_QP_ALT_PATH": uverbs.MaskAltPath,
		"IBV_QP_CUR_STATE":      uverbs.MaskCurrent,
		"IBV_QP_PATH_MIG_STATE": uverbs.MaskPathMig, "IBV_WC_LOC_ACCESS_ERR": int(locAccessErr),
		"IBV_REREG_MR_CHANGE_TRANSLATION": reregTranslation, "IBV_REREG_MR_CHANGE_PD": reregPD,
		"IBV_REREG_MR_CHANGE_ACCESS": reregAccess, "NIC_QP_STATE": argState,
		"NIC_QP_DEST_ADDR": argDestAddr, "NIC_QP_QKEY": argQKey,
		"sizeof(struct nic_call)": callSize, "sizeof(struct nic_answer)": callSize, "sizeof(struct nic_bell)": bellSize,
		"sizeof(struct nic_ring)": ringSize, "sizeof(struct nic_sge)": sgeSize, "sizeof(struct nic_send)": sendSize,
		"sizeof(struct nic_recv)": recvSize, "sizeof(struct nic_cqe)": cqeSize, "sizeof(struct nic_async)": asyncSize,
		"offsetof(struct nic_bell, rung)": bellRung, "offsetof(struct nic_bell, news)": bellNews,
		"offsetof(struct nic_bell, waiting)": doorbellWaiting,
		"offsetof(struct nic_ring, tail)":    ringTail, "offsetof(struct nic_ring, armed)": ringArmed,
		"offsetof(struct nic_send, opcode)": 8,
		"offsetof(struct nic_send, flags)":  12, "offsetof(struct nic_send, imm)": 16,
		"offsetof(struct nic_send, num_sge)":      20,
		"offsetof(struct nic_send, inline_bytes)": 24, "offsetof(struct nic_send, rkey)": 28,
		"offsetof(struct nic_send, remote_addr)": 32,
		"offsetof(struct nic_send, compare_add)": 40, "offsetof(struct nic_send, swap)": 48,
		"offsetof(struct nic_send, ud_qpn)":  56,
		"offsetof(struct nic_send, ud_qkey)": 60, "offsetof(struct nic_send, ud_addr)": 64,
		"offsetof(struct nic_sge, length)": 8,
		"offsetof(struct nic_sge, lkey)":   12, "offsetof(struct nic_recv, num_sge)": 8,
		"offsetof(struct nic_cqe, status)": 8,
		"offsetof(struct nic_cqe, opcode)": 12, "offsetof(struct nic_cqe, byte_len)": 20,
		"offsetof(struct nic_cqe, imm)":    24,
		"offsetof(struct nic_cqe, qp_num)": 28, "offsetof(struct nic_cqe, src_qp)": 32,
		"offsetof(struct nic_cqe, wc_flags)": 36, "offsetof(struct nic_async, type)": 8,
		"IBV_QPT_RC": qptRC, "IBV_QPT_UD": qptUD, "IBV_QPS_RTS": uverbs.QPSRTS, "IBV_QPS_ERR": uverbs.QPSErr,
		"IBV_QP_DEST_QPN": uverbs.MaskDestQPN, "IBV_QP_AV": uverbs.MaskAV,
		"IBV_QP_SQ_PSN": uverbs.MaskSQPSN, "IBV_QP_MAX_DEST_RD_ATOMIC": uverbs.MaskMaxDestRDAtomic,
		"IBV_QP_MAX_QP_RD_ATOMIC": uverbs.MaskMaxRDAtomic,
		"IBV_QP_MIN_RNR_TIMER":    uverbs.MaskMinRNR, "IBV_QP_RNR_RETRY": uverbs.MaskRNRRetry,
		"IBV_ACCESS_REMOTE_ATOMIC": uverbs.AccessRemoteAtomic, "IBV_ACCESS_ZERO_BASED": uverbs.AccessZeroBased,
		"IBV_WR_RDMA_WRITE": wrWrite, "IBV_WR_SEND": wrSend,
		"IBV_WR_ATOMIC_FETCH_AND_ADD": wrFetchAdd, "IBV_SEND_INLINE": sendInline,
		"IBV_WC_RETRY_EXC_ERR":     int(retryExcErr),
		"IBV_WC_RNR_RETRY_EXC_ERR": int(rnrRetryErr), "IBV_WC_REM_ACCESS_ERR": int(remAccessErr),
		"IBV_WC_REM_INV_REQ_ERR": int(remInvReqErr),
		"IBV_WC_WR_FLUSH_ERR":    int(flushErr), "IBV_WC_LOC_PROT_ERR": int(locProtErr),
		"IBV_WC_RECV_RDMA_WITH_IMM": wcRecvWithImm, "IBV_WC_GRH": wcGRH, "IBV_WC_WITH_IMM": wcWithImm,
		"IBV_EVENT_QP_LAST_WQE_REACHED": eventLastWQE,
		"IBV_EVENT_SRQ_LIMIT_REACHED":   eventSRQLimit, "IBV_EVENT_CQ_ERR": eventCQErr,
		"IBV_EVENT_PORT_ACTIVE": eventPortActive, "IBV_EVENT_PORT_ERR": eventPortErr,
		"IBV_EVENT_QP_REQ_ERR":    eventRequestErr,
		"IBV_EVENT_QP_ACCESS_ERR": eventAccessErr, "IBV_EVENT_QP_FATAL": eventQPFatal,
		"send_stride(3, 20)": sendStride(3, 20), "recv_stride(3)": recvStride(3),
	}
	lib := "interpose"
	sources, err := filepath.Glob(filepath.Join(lib, "*.c"))
	if err != nil {
		t.Fatal(err)
	}
	ctest.Compare(t, cc, "#include \"library.h\"\n", want, append([]string{"-I" + lib, "-lpthread"}, sources...)...)
}
