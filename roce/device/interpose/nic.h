/*
 * What libethereal-verbs and the process that owns the host's interface (`ethereal host nic`) say to each other. The other side
 * is Go: roce/device/abi.go. A test compares the two, field by field.
 *
 * A program connects to a SOCK_SEQPACKET socket. Each call is one `struct nic_call`, answered by one `struct nic_answer`,
 * with file descriptors by SCM_RIGHTS. Work requests and completions go by rings in memory that the NIC made and both
 * have mapped. The bytes of messages stay where they are: the NIC reads and writes them by the descriptor of
 * /proc/self/mem that comes with the first call.
 */
#ifndef ETHEREAL_NIC_H
#define ETHEREAL_NIC_H

#include <stdint.h>

#define NIC_ABI 3

enum nic_op {
	NIC_HELLO = 1,       /* abi; fd: /proc/self/mem -> address, payload, guid, limits; fds: bell, kick, async */
	NIC_ALLOC_PD,        /* -> handle */
	NIC_DEALLOC_PD,      /* handle */
	NIC_REG_MR,          /* pd, address, length, access, iova -> key */
	NIC_DEREG_MR,        /* key */
	NIC_CREATE_CHANNEL,  /* -> handle; fd: events */
	NIC_DESTROY_CHANNEL, /* handle */
	NIC_CREATE_CQ,       /* entries, channel or 0, cookie -> handle, entries; fd: ring */
	NIC_DESTROY_CQ,      /* handle */
	NIC_CREATE_SRQ,      /* pd, entries, sges, cookie -> handle, entries, sges; fd: ring */
	NIC_MODIFY_SRQ,      /* handle, limit */
	NIC_DESTROY_SRQ,     /* handle */
	NIC_CREATE_QP,       /* pd, type, send cq, receive cq, srq or 0, send entries, receive entries, send sges, receive sges,
	                      * inline bytes, sq_sig_all, cookie -> handle, number, send entries, receive entries, send sges,
	                      * receive sges, inline bytes; fd: rings */
	NIC_MODIFY_QP,       /* handle, mask, then as in struct nic_qp_attr */
	NIC_QUERY_QP,        /* handle -> state */
	NIC_DESTROY_QP,      /* handle */
	NIC_QUERY_PORT,      /* -> up, Mb/s */
	NIC_RESIZE_CQ,       /* handle, entries -> entries; fd: ring */
	NIC_RESIZE_SRQ,      /* handle, entries -> entries; fd: ring */
	NIC_QUERY_SRQ,       /* handle -> limit */
	NIC_REREG_MR,        /* key, flags of ibv_rereg_mr, pd, address, length, access */
	NIC_ALLOC_MW,        /* pd, type -> handle, key */
	NIC_DEALLOC_MW,      /* handle */
	NIC_CM,              /* abi; instead of NIC_HELLO: this connection carries struct nic_cm_call from now on */
	NIC_FIND_HOST,       /* interface identifier of a link-local GID, its halves -> address */
};

/* How many of a kind a program may have, in the answer to NIC_HELLO. */
enum nic_limit {
	NIC_LIMIT_PD,
	NIC_LIMIT_CQ,
	NIC_LIMIT_SRQ,
	NIC_LIMIT_QP,
	NIC_LIMIT_MR,
	NIC_LIMIT_WR,    /* entries of a work queue */
	NIC_LIMIT_CQE,   /* entries of a completion queue */
	NIC_LIMIT_SGE,   /* of a work request */
	NIC_LIMIT_READS, /* reads and atomics of a queue pair under way */
	NIC_LIMIT_MW,
	NIC_LIMITS,
	NIC_FIRST_LIMIT = 3, /* where they begin in the answer */
};

#define NIC_ARGS 15

struct nic_call {
	uint32_t op;
	uint32_t reserved;
	uint64_t arg[NIC_ARGS];
};

struct nic_answer {
	int32_t error; /* an errno, or 0 */
	uint32_t reserved;
	uint64_t value[NIC_ARGS];
};

/* Arguments of NIC_MODIFY_QP, after handle and mask, which is verbs'. */
enum nic_qp_attr {
	NIC_QP_STATE = 2,
	NIC_QP_ACCESS,
	NIC_QP_DEST_QPN,
	NIC_QP_RQ_PSN,
	NIC_QP_SQ_PSN,
	NIC_QP_DEST_ADDR, /* IPv4, first byte highest */
	NIC_QP_TIMEOUT,
	NIC_QP_RETRY_CNT,
	NIC_QP_RNR_RETRY,
	NIC_QP_MIN_RNR_TIMER,
	NIC_QP_MAX_RD_ATOMIC,
	NIC_QP_MAX_DEST_RD_ATOMIC,
	NIC_QP_QKEY,
};

/* bell is the page by which a program says that it has posted, and the NIC that there is a completion. */
struct nic_bell {
	uint32_t asleep;  /* the NIC wants a write to the kick descriptor */
	uint32_t rung;    /* counts posts */
	uint32_t news;    /* counts completions, and writes of others to the program's memory */
	uint32_t waiting; /* threads wait for news to change (futex) */
};

/* ring is the head of a ring. Indices only grow; an entry is at index & (entries-1). */
struct nic_ring {
	uint32_t head; /* the producer's */
	uint8_t pad0[60];
	uint32_t tail; /* the consumer's */
	uint8_t pad1[60];
	uint32_t armed; /* completions: 1 any, 2 solicited ones call for an event; receives: the NIC waits for one */
	uint8_t pad2[60];
};

struct nic_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/* nic_send is a work request to send. Its sges, or its inline bytes, follow. One to bind a window has its new key in rkey,
 * the place in remote_addr, the length in compare_add, the access in swap and the region's key in ud_qkey. */
struct nic_send {
	uint64_t wr_id;
	uint32_t opcode; /* enum ibv_wr_opcode */
	uint32_t flags;  /* enum ibv_send_flags */
	uint32_t imm;    /* network byte order */
	uint32_t num_sge;
	uint32_t inline_bytes;
	uint32_t rkey;
	uint64_t remote_addr;
	uint64_t compare_add;
	uint64_t swap;
	uint32_t ud_qpn;
	uint32_t ud_qkey;
	uint32_t ud_addr;
	uint32_t reserved[3];
};

/* nic_recv is a work request to receive. Its sges follow. */
struct nic_recv {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t reserved;
};

/* nic_cqe is a completion: the fields of struct ibv_wc. */
struct nic_cqe {
	uint64_t wr_id;
	uint32_t status;
	uint32_t opcode;
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t imm;
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t wc_flags;
	uint64_t reserved;
};

/* nic_async is what comes by the async descriptor. */
struct nic_async {
	uint64_t cookie; /* of the QP, CQ or SRQ; 0: the port */
	uint32_t type;   /* enum ibv_event_type */
	uint32_t reserved;
};

/* A command to the connection manager, and the answer. Both are sent without the bytes behind the last that is used. */
enum { NIC_CM_MOST = 512, NIC_CM_OPTION = 16 };

struct nic_cm_call {
	uint32_t channel; /* 0, without a command: make a channel -> its number (4 bytes); fd: a byte for each event */
	uint32_t reserved;
	uint8_t command[NIC_CM_MOST]; /* as written to /dev/infiniband/rdma_cm (rdma/rdma_user_cm.h); an option's value behind it */
};

struct nic_cm_answer {
	int32_t error;	  /* an errno, or 0 */
	uint32_t dropped; /* so many events that were shown are no more: the program takes their bytes */
	uint8_t response[NIC_CM_MOST];
};

#endif
