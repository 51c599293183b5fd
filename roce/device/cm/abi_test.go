package cm

import (
	"os"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/roce/device/ctest"
	"github.com/ethereal-fabric/ethereal/roce/device/uverbs"
)

// TestABI compares this package's numbers with the headers that librdmacm is built from.
func TestABI(t *testing.T) {
	cc := systemtest.Program(t, "cc", "", "apt-get install build-essential")
	for _, header := range []string{"rdma/rdma_user_cm.h", "infiniband/verbs.h"} {
		if _, err := os.Stat("/usr/include/" + header); err != nil {
			t.Skipf("no %s (Debian: libibverbs-dev)", header)
		}
	}
	want := map[string]int{
		"sizeof(struct rdma_ucm_cmd_hdr)": headSize, "sizeof(struct rdma_ucm_create_id)": createSize,
		"sizeof(struct rdma_ucm_destroy_id)": destroySize, "sizeof(struct rdma_ucm_bind_ip)": bindSize,
		"sizeof(struct rdma_ucm_resolve_ip)": resolveSize, "sizeof(struct rdma_ucm_resolve_route)": routeSize,
		"sizeof(struct rdma_ucm_query)": querySize, "sizeof(struct rdma_ucm_connect)": connectSize,
		"sizeof(struct rdma_ucm_listen)": listenSize, "sizeof(struct rdma_ucm_accept)": acceptSize,
		"sizeof(struct rdma_ucm_reject)": rejectSize, "sizeof(struct rdma_ucm_init_qp_attr)": initSize,
		"sizeof(struct rdma_ucm_set_option)": optionSize, "sizeof(struct rdma_ucm_notify)": notifySize,
		"sizeof(struct rdma_ucm_migrate_id)": migrateSize, "sizeof(struct rdma_ucm_conn_param)": paramSize,
		"sizeof(struct rdma_ucm_event_resp)": eventSize, "offsetof(struct rdma_ucm_event_resp, param)": eventParam,
		"offsetof(struct rdma_ucm_event_resp, ece)": eventECE, "sizeof(struct ib_uverbs_ah_attr)": ahSize,
		"sizeof(struct ib_uverbs_qp_attr)": attrSize, "offsetof(struct ib_uverbs_qp_attr, ah_attr)": attrAH,
		"sizeof(struct ib_user_path_rec)": pathSize, "sizeof(struct rdma_ucm_query_route_resp)": answerSize,
		"sizeof(struct sockaddr_in6)": sockaddrSize, "RDMA_MAX_PRIVATE_DATA": privateSize,

		"offsetof(struct rdma_ucm_bind_ip, id)":      idOffset[cmdBindIP],
		"offsetof(struct rdma_ucm_resolve_ip, id)":   idOffset[cmdResolveIP],
		"offsetof(struct rdma_ucm_query, id)":        idOffset[cmdQueryRoute],
		"offsetof(struct rdma_ucm_connect, id)":      idOffset[cmdConnect],
		"offsetof(struct rdma_ucm_accept, id)":       idOffset[cmdAccept],
		"offsetof(struct rdma_ucm_init_qp_attr, id)": idOffset[cmdInitQPAttr],
		"offsetof(struct rdma_ucm_set_option, id)":   idOffset[cmdSetOption],
		"offsetof(struct rdma_ucm_migrate_id, id)":   idOffset[cmdMigrateID],
		"offsetof(struct rdma_ucm_destroy_id, id)":   idOffset[cmdDestroyID],
		"offsetof(struct rdma_ucm_reject, id)":       idOffset[cmdReject],
		"offsetof(struct rdma_ucm_create_id, ps)":    16, "offsetof(struct rdma_ucm_connect, ece)": paramSize + 8,
		"offsetof(struct rdma_ucm_reject, private_data)": 8, "offsetof(struct rdma_ucm_conn_param, private_data)": 8,
		"offsetof(struct rdma_ucm_ud_param, private_data)": 8 + ahSize,
		"offsetof(struct rdma_ucm_event_resp, status)":     16,
		"offsetof(struct rdma_ucm_conn_param, valid)":      paramSize - 1,
		"offsetof(struct rdma_ucm_set_option, optlen)":     20,
		"offsetof(struct ib_uverbs_qp_attr, path_mtu)":     12, "offsetof(struct ib_uverbs_qp_attr, qkey)": 20,
		"offsetof(struct ib_uverbs_qp_attr, rq_psn)": 24, "offsetof(struct ib_uverbs_qp_attr, sq_psn)": 28,
		"offsetof(struct ib_uverbs_qp_attr, dest_qp_num)":        32,
		"offsetof(struct ib_uverbs_qp_attr, qp_access_flags)":    36,
		"offsetof(struct ib_uverbs_qp_attr, max_rd_atomic)":      130,
		"offsetof(struct ib_uverbs_qp_attr, max_dest_rd_atomic)": 131,
		"offsetof(struct ib_uverbs_qp_attr, port_num)":           133, "offsetof(struct ib_uverbs_qp_attr, timeout)": 134,
		"offsetof(struct ib_uverbs_qp_attr, rnr_retry)": 136, "offsetof(struct ib_uverbs_global_route, hop_limit)": 21,
		"offsetof(struct ib_uverbs_global_route, traffic_class)": 22,
		"offsetof(struct ib_uverbs_ah_attr, is_global)":          29,
		"offsetof(struct ib_user_path_rec, pkey)":                52, "offsetof(struct ib_user_path_rec, mtu)": 48,
		"offsetof(struct rdma_ucm_query_route_resp, src_addr)": 8 + 2*pathSize,
		"offsetof(struct rdma_ucm_query_route_resp, port_num)": 8 + 2*pathSize + 2*sockaddrSize + 4,

		"RDMA_USER_CM_CMD_BIND_IP": int(cmdBindIP), "RDMA_USER_CM_CMD_QUERY_ROUTE": int(cmdQueryRoute),
		"RDMA_USER_CM_CMD_GET_EVENT": int(cmdGetEvent), "RDMA_USER_CM_CMD_SET_OPTION": int(cmdSetOption),
		"RDMA_USER_CM_CMD_NOTIFY":     int(cmdNotify),
		"RDMA_USER_CM_CMD_MIGRATE_ID": int(cmdMigrateID), "RDMA_PS_TCP": spaceTCP,
		"RDMA_PS_UDP":              spaceUDP,
		"RDMA_OPTION_ID_REUSEADDR": optionReuse, "RDMA_OPTION_ID_ACK_TIMEOUT": optionAckTimeout,
		"IBV_QP_DEST_QPN": uverbs.MaskDestQPN, "IBV_QP_MAX_DEST_RD_ATOMIC": uverbs.MaskMaxDestRDAtomic,
		"IBV_QP_SQ_PSN": uverbs.MaskSQPSN, "IBV_QP_QKEY": uverbs.MaskQKey,
		"IBV_QP_MAX_QP_RD_ATOMIC": uverbs.MaskMaxRDAtomic,
		"IBV_QP_RNR_RETRY":        uverbs.MaskRNRRetry, "IBV_QP_MIN_RNR_TIMER": uverbs.MaskMinRNR,
		"IBV_EVENT_COMM_EST": uverbs.EventCommEst, "IBV_QPS_RTS": uverbs.QPSRTS,
	}
	ctest.Compare(t, cc, "#include <netinet/in.h>\n#include <infiniband/verbs.h>\n#include <rdma/rdma_user_cm.h>\n", want)
}
