/* The library's own structures: verbs' objects, and what it keeps beside them. */
#ifndef ETHEREAL_LIBRARY_H
#define ETHEREAL_LIBRARY_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#include "nic.h"

struct context {
	int socket;
	int kick;
	int generation; /* of the process that opened it: a fork's child has another */
	struct nic_bell *bell;
	pthread_mutex_t mutex; /* one call at a time */
	uint32_t address;      /* IPv4, first byte highest */
	uint32_t payload;
	uint64_t guid;
	struct verbs_context verbs; /* last: it ends with struct ibv_context */
};

struct queue {
	struct nic_ring *ring;
	uint8_t *entries;
	uint32_t count; /* a power of two */
	uint32_t stride;
	uint32_t sges;
	pthread_mutex_t mutex;
};

struct cq {
	struct ibv_cq cq; /* first */
	struct queue q;
	size_t mapped;
};

struct srq {
	struct ibv_srq srq; /* first */
	struct queue q;
	size_t mapped;
};

struct ah {
	struct ibv_ah ah; /* first */
	uint32_t address;
};

struct qp {
	union { /* first */
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
	};
	struct queue sq, rq;
	void *map;
	size_t mapped;
	uint32_t inline_bytes;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr; /* as last modified */

	/* Between ibv_wr_start and ibv_wr_complete. */
	uint32_t building; /* the next index */
	struct nic_send *last;
	int failed;
};

struct context *context_of(struct ibv_context *c);

/* call asks the NIC. It returns an errno, and sets it. Descriptors that come back are the caller's. */
int call(struct context *c, const struct nic_call *in, struct nic_answer *out, int *fds, int nfds);

/* map_queue maps a ring file; the caller fills in the entries. */
void *map_file(int fd, size_t size);
void set_queue(struct queue *q, void *base, uint32_t count, uint32_t stride, uint32_t sges);

uint32_t send_stride(uint32_t sges, uint32_t inline_bytes);
uint32_t recv_stride(uint32_t sges);

void set_ops(struct ibv_context_ops *ops);
void set_wr(struct ibv_qp_ex *qp);

/* in_child says that this process is a child of the one that opened c. */
bool in_child(const struct context *c);

#endif
