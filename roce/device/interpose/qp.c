/* Queue pairs and shared receive queues: made, changed and ended by calls to the NIC. */
#define _GNU_SOURCE
#include "library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *init)
{
	struct srq *s = calloc(1, sizeof(*s));
	if (!s)
		return NULL;
	struct nic_call in = { .op = NIC_CREATE_SRQ, .arg = { pd->handle, init->attr.max_wr, init->attr.max_sge, (uintptr_t)s } };
	struct nic_answer out;
	int fd;
	if (call(context_of(pd->context), &in, &out, &fd, 1)) {
		free(s);
		return NULL;
	}
	uint32_t entries = (uint32_t)out.value[1], sges = (uint32_t)out.value[2];
	void *ring = add_mapping(&s->map, fd, sizeof(struct nic_ring) + (size_t)entries * recv_stride(sges));
	if (!ring) {
		simple(pd->context, NIC_DESTROY_SRQ, out.value[0], 0, NULL);
		free(s);
		return NULL;
	}
	set_queue(&s->q, ring, entries, recv_stride(sges), sges);
	s->srq.context = pd->context;
	s->srq.srq_context = init->srq_context;
	s->srq.pd = pd;
	s->srq.handle = (uint32_t)out.value[0];
	pthread_mutex_init(&s->srq.mutex, NULL);
	pthread_cond_init(&s->srq.cond, NULL);
	init->attr.max_wr = entries;
	init->attr.max_sge = sges;
	return &s->srq;
}

struct ibv_srq *create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *init)
{
	(void)ctx;
	if ((init->comp_mask & ~(uint32_t)(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD)) || !(init->comp_mask & IBV_SRQ_INIT_ATTR_PD) ||
	    ((init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && init->srq_type != IBV_SRQT_BASIC)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	struct ibv_srq_init_attr a = { .srq_context = init->srq_context, .attr = init->attr };
	struct ibv_srq *s = ibv_create_srq(init->pd, &a);
	init->attr = a.attr;
	return s;
}

static int resize_srq(struct srq *s, uint32_t entries)
{
	struct nic_call in = { .op = NIC_RESIZE_SRQ, .arg = { s->srq.handle, entries } };
	struct nic_answer out;
	int fd;
	pthread_mutex_lock(&s->q.mutex);
	int err = call(context_of(s->srq.context), &in, &out, &fd, 1);
	if (!err) {
		entries = (uint32_t)out.value[0];
		void *ring = add_mapping(&s->map, fd, sizeof(struct nic_ring) + (size_t)entries * s->q.stride);
		if (ring)
			move_queue(&s->q, ring, entries);
		else
			err = errno = ENOMEM; /* what is posted from now on does not reach the NIC */
	}
	pthread_mutex_unlock(&s->q.mutex);
	return err;
}

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	if (mask & ~(IBV_SRQ_LIMIT | IBV_SRQ_MAX_WR))
		return errno = EINVAL;
	int err = mask & IBV_SRQ_MAX_WR ? resize_srq((struct srq *)srq, attr->max_wr) : 0;
	if (!err && (mask & IBV_SRQ_LIMIT))
		err = simple(srq->context, NIC_MODIFY_SRQ, srq->handle, attr->srq_limit, NULL);
	return err;
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct srq *s = (struct srq *)srq;
	struct nic_answer out;
	int err = simple(srq->context, NIC_QUERY_SRQ, srq->handle, 0, &out);
	if (!err)
		*attr = (struct ibv_srq_attr){ s->q.count, s->q.sges, (uint32_t)out.value[0] };
	return err;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct srq *s = (struct srq *)srq;
	int err = simple(srq->context, NIC_DESTROY_SRQ, srq->handle, 0, NULL);
	if (err)
		return err;
	drop_events(&context_of(srq->context)->events, s, sizeof(struct nic_async));
	await_acks(&srq->mutex, &srq->cond, &srq->events_completed, &s->async_read);
	end_mappings(s->map);
	free(s);
	return 0;
}

static struct qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	if (!init->send_cq || !init->recv_cq) {
		errno = EINVAL;
		return NULL;
	}
	struct qp *q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	struct ibv_qp_cap *cap = &init->cap;
	struct nic_call in = {
		.op = NIC_CREATE_QP,
		.arg = { pd->handle, init->qp_type, init->send_cq->handle, init->recv_cq->handle, init->srq ? init->srq->handle : 0,
			 cap->max_send_wr, cap->max_recv_wr, cap->max_send_sge, cap->max_recv_sge, cap->max_inline_data,
			 (uint64_t)!!init->sq_sig_all, (uintptr_t)q },
	};
	struct nic_answer out;
	int fd;
	if (call(context_of(pd->context), &in, &out, &fd, 1)) {
		free(q);
		return NULL;
	}
	*cap = (struct ibv_qp_cap){ (uint32_t)out.value[2], (uint32_t)out.value[3], (uint32_t)out.value[4], (uint32_t)out.value[5],
				    (uint32_t)out.value[6] };
	uint32_t sstride = send_stride(cap->max_send_sge, cap->max_inline_data), rstride = recv_stride(cap->max_recv_sge);
	size_t send = sizeof(struct nic_ring) + (size_t)cap->max_send_wr * sstride;
	q->mapped = send + sizeof(struct nic_ring) + (size_t)cap->max_recv_wr * rstride;
	q->map = map_file(fd, q->mapped);
	if (!q->map) {
		simple(pd->context, NIC_DESTROY_QP, out.value[0], 0, NULL);
		free(q);
		return NULL;
	}
	set_queue(&q->sq, q->map, cap->max_send_wr, sstride, cap->max_send_sge);
	set_queue(&q->rq, (uint8_t *)q->map + send, cap->max_recv_wr, rstride, cap->max_recv_sge);
	q->inline_bytes = cap->max_inline_data;
	q->init = *init;
	struct ibv_qp *qp = &q->qp;
	qp->context = pd->context;
	qp->qp_context = init->qp_context;
	qp->pd = pd;
	qp->send_cq = init->send_cq;
	qp->recv_cq = init->recv_cq;
	qp->srq = init->srq;
	qp->handle = (uint32_t)out.value[0];
	qp->qp_num = (uint32_t)out.value[1];
	qp->state = IBV_QPS_RESET;
	qp->qp_type = init->qp_type;
	pthread_mutex_init(&qp->mutex, NULL);
	pthread_cond_init(&qp->cond, NULL);
	set_wr(&q->ex);
	return q;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct qp *q = create_qp(pd, init);
	return q ? &q->qp : NULL;
}

struct ibv_qp *create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *x)
{
	(void)ctx;
	const uint64_t ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
			     IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
			     IBV_QP_EX_WITH_SEND_WITH_INV;
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	bool with_ops = x->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	bool with_flags = x->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS;
	if ((x->comp_mask & ~known) || !(x->comp_mask & IBV_QP_INIT_ATTR_PD) || (with_ops && (x->send_ops_flags & ~ops)) ||
	    (with_flags && x->create_flags)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	struct ibv_qp_init_attr init = {
		.qp_context = x->qp_context, .send_cq = x->send_cq, .recv_cq = x->recv_cq, .srq = x->srq, .cap = x->cap,
		.qp_type = x->qp_type, .sq_sig_all = x->sq_sig_all,
	};
	struct qp *q = create_qp(x->pd, &init);
	if (!q)
		return NULL;
	x->cap = init.cap;
	return &q->qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp) { return &((struct qp *)qp)->ex; }

/* keep notes what was modified, for ibv_query_qp. */
static void keep(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
#define KEEP(bit, field)                                                                                                         \
	if (mask & (bit))                                                                                                        \
	to->field = from->field
	KEEP(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	KEEP(IBV_QP_PKEY_INDEX, pkey_index);
	KEEP(IBV_QP_PORT, port_num);
	KEEP(IBV_QP_QKEY, qkey);
	KEEP(IBV_QP_AV, ah_attr);
	KEEP(IBV_QP_PATH_MTU, path_mtu);
	KEEP(IBV_QP_TIMEOUT, timeout);
	KEEP(IBV_QP_RETRY_CNT, retry_cnt);
	KEEP(IBV_QP_RNR_RETRY, rnr_retry);
	KEEP(IBV_QP_RQ_PSN, rq_psn);
	KEEP(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	KEEP(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	KEEP(IBV_QP_SQ_PSN, sq_psn);
	KEEP(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	KEEP(IBV_QP_DEST_QPN, dest_qp_num);
#undef KEEP
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct qp *q = (struct qp *)qp;
	uint32_t address = 0;
	if ((mask & IBV_QP_AV) && address_of(qp->context, &attr->ah_attr, &address))
		return errno = EINVAL;
	if ((mask & IBV_QP_PORT) && attr->port_num != 1)
		return errno = EINVAL;
	struct nic_call in = { .op = NIC_MODIFY_QP, .arg = { qp->handle, (uint64_t)(uint32_t)mask } };
	in.arg[NIC_QP_STATE] = attr->qp_state;
	in.arg[NIC_QP_ACCESS] = attr->qp_access_flags;
	in.arg[NIC_QP_DEST_QPN] = attr->dest_qp_num;
	in.arg[NIC_QP_RQ_PSN] = attr->rq_psn;
	in.arg[NIC_QP_SQ_PSN] = attr->sq_psn;
	in.arg[NIC_QP_DEST_ADDR] = address;
	in.arg[NIC_QP_TIMEOUT] = attr->timeout;
	in.arg[NIC_QP_RETRY_CNT] = attr->retry_cnt;
	in.arg[NIC_QP_RNR_RETRY] = attr->rnr_retry;
	in.arg[NIC_QP_MIN_RNR_TIMER] = attr->min_rnr_timer;
	in.arg[NIC_QP_MAX_RD_ATOMIC] = attr->max_rd_atomic;
	in.arg[NIC_QP_MAX_DEST_RD_ATOMIC] = attr->max_dest_rd_atomic;
	in.arg[NIC_QP_QKEY] = attr->qkey;
	int err = call(context_of(qp->context), &in, NULL, NULL, 0);
	if (err)
		return err;
	keep(&q->attr, attr, mask);
	if (mask & IBV_QP_STATE) {
		qp->state = attr->qp_state;
		if (qp->state == IBV_QPS_RESET) { /* as on RNICs: a queue pair begins anew without its past */
			forget_completions(qp->recv_cq, qp->qp_num);
			if (qp->send_cq != qp->recv_cq)
				forget_completions(qp->send_cq, qp->qp_num);
		}
	}
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)mask;
	struct qp *q = (struct qp *)qp;
	struct nic_answer out;
	int err = simple(qp->context, NIC_QUERY_QP, qp->handle, 0, &out);
	if (err)
		return err;
	*attr = q->attr;
	*init = q->init;
	qp->state = (enum ibv_qp_state)out.value[0];
	attr->qp_state = attr->cur_qp_state = qp->state;
	attr->path_mig_state = IBV_MIG_MIGRATED;
	attr->cap = q->init.cap;
	return 0;
}

int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	(void)op;
	return qp->qp_type == IBV_QPT_RC && !flags;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	struct qp *q = (struct qp *)qp;
	int err = simple(qp->context, NIC_DESTROY_QP, qp->handle, 0, NULL);
	if (err)
		return err;
	drop_events(&context_of(qp->context)->events, q, sizeof(struct nic_async));
	await_acks(&qp->mutex, &qp->cond, &qp->events_completed, &q->async_read);
	munmap(q->map, q->mapped);
	free(q);
	return 0;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return EOPNOTSUPP;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	return EOPNOTSUPP;
}

int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp, (void)ece;
	return EOPNOTSUPP;
}

int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	(void)qp, (void)ece;
	return EOPNOTSUPP;
}
