/* Protection domains, memory, completion and queue pairs: made and ended by calls to the NIC. */
#define _GNU_SOURCE
#include "library.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* simple is a call with up to three arguments and no descriptor. It returns an errno. */
static int simple(struct ibv_context *ctx, uint32_t op, uint64_t a, uint64_t b, struct nic_answer *out)
{
	struct nic_call in = { .op = op, .arg = { a, b } };
	return call(context_of(ctx), &in, out, NULL, 0);
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct nic_answer out;
	if (simple(ctx, NIC_ALLOC_PD, 0, 0, &out))
		return NULL;
	struct ibv_pd *pd = calloc(1, sizeof(*pd));
	if (!pd) {
		simple(ctx, NIC_DEALLOC_PD, out.value[0], 0, NULL);
		return NULL;
	}
	pd->context = ctx;
	pd->handle = (uint32_t)out.value[0];
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	int err = simple(pd->context, NIC_DEALLOC_PD, pd->handle, 0, NULL);
	if (!err)
		free(pd);
	return err;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct nic_call in = { .op = NIC_REG_MR, .arg = { pd->handle, (uintptr_t)addr, length, access & 0xfffff, iova } };
	struct nic_answer out;
	if (call(context_of(pd->context), &in, &out, NULL, 0))
		return NULL;
	struct ibv_mr *mr = calloc(1, sizeof(*mr));
	if (!mr) {
		simple(pd->context, NIC_DEREG_MR, out.value[0], 0, NULL);
		return NULL;
	}
	uint32_t key = (uint32_t)out.value[0];
	*mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = length, .handle = key, .lkey = key, .rkey = key };
	return mr;
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	errno = EOPNOTSUPP;
	return NULL;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)mr, (void)flags, (void)pd, (void)addr, (void)length, (void)access;
	errno = EOPNOTSUPP;
	return IBV_REREG_MR_ERR_INPUT;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int err = simple(mr->context, NIC_DEREG_MR, mr->handle, 0, NULL);
	if (!err)
		free(mr);
	return err;
}

struct channel {
	struct ibv_comp_channel channel; /* first */
	uint32_t handle;
};

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct nic_call in = { .op = NIC_CREATE_CHANNEL };
	struct nic_answer out;
	struct channel *ch = calloc(1, sizeof(*ch));
	if (!ch)
		return NULL;
	if (call(context_of(ctx), &in, &out, &ch->channel.fd, 1)) {
		free(ch);
		return NULL;
	}
	ch->channel.context = ctx;
	ch->handle = (uint32_t)out.value[0];
	return &ch->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct channel *ch = (struct channel *)channel;
	int err = simple(channel->context, NIC_DESTROY_CHANNEL, ch->handle, 0, NULL);
	if (err)
		return err;
	close(channel->fd);
	free(ch);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector)
{
	if (cqe < 1 || vector < 0 || vector >= ctx->num_comp_vectors) {
		errno = EINVAL;
		return NULL;
	}
	struct cq *q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	uint64_t ch = channel ? ((struct channel *)channel)->handle : 0;
	struct nic_call in = { .op = NIC_CREATE_CQ, .arg = { (uint64_t)cqe, ch, (uintptr_t)q } };
	struct nic_answer out;
	int fd;
	if (call(context_of(ctx), &in, &out, &fd, 1)) {
		free(q);
		return NULL;
	}
	q->mapped = sizeof(struct nic_ring) + out.value[1] * sizeof(struct nic_cqe);
	void *ring = map_file(fd, q->mapped);
	if (!ring) {
		simple(ctx, NIC_DESTROY_CQ, out.value[0], 0, NULL);
		free(q);
		return NULL;
	}
	set_queue(&q->q, ring, (uint32_t)out.value[1], sizeof(struct nic_cqe), 0);
	q->cq.context = ctx;
	q->cq.channel = channel;
	q->cq.cq_context = cq_context;
	q->cq.handle = (uint32_t)out.value[0];
	q->cq.cqe = (int)out.value[1];
	pthread_mutex_init(&q->cq.mutex, NULL);
	pthread_cond_init(&q->cq.cond, NULL);
	if (channel) {
		pthread_mutex_lock(&ctx->mutex);
		channel->refcnt++;
		pthread_mutex_unlock(&ctx->mutex);
	}
	return &q->cq;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe) { return cqe <= cq->cqe ? 0 : ENOSYS; }

int ibv_destroy_cq(struct ibv_cq *cq)
{
	struct cq *q = (struct cq *)cq;
	int err = simple(cq->context, NIC_DESTROY_CQ, cq->handle, 0, NULL);
	if (err)
		return err;
	if (cq->channel) {
		pthread_mutex_lock(&cq->context->mutex);
		cq->channel->refcnt--;
		pthread_mutex_unlock(&cq->context->mutex);
	}
	munmap(q->q.ring, q->mapped);
	free(q);
	return 0;
}

/* read_event reads one record, and waits for it unless the program has made the descriptor non-blocking. The NIC's end
 * of the pipe is: records are whole. */
static int read_event(int fd, void *to, size_t size)
{
	ssize_t n;
	do
		n = read(fd, to, size);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		errno = EIO; /* the NIC has ended */
	return n == (ssize_t)size ? 0 : -1;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	uint64_t cookie;
	if (read_event(channel->fd, &cookie, sizeof(cookie)))
		return -1;
	*cq = (struct ibv_cq *)(uintptr_t)cookie;
	*cq_context = (*cq)->cq_context;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += n;
	pthread_mutex_unlock(&cq->mutex);
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	struct nic_async a;
	if (read_event(ctx->async_fd, &a, sizeof(a)))
		return -1;
	event->event_type = a.type;
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		event->element.cq = (struct ibv_cq *)(uintptr_t)a.cookie;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		event->element.srq = (struct ibv_srq *)(uintptr_t)a.cookie;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		event->element.port_num = 1;
		break;
	default:
		event->element.qp = (struct ibv_qp *)(uintptr_t)a.cookie;
	}
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event) { (void)event; }

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
	s->mapped = sizeof(struct nic_ring) + (size_t)entries * recv_stride(sges);
	void *ring = map_file(fd, s->mapped);
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

int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
	if (mask & ~IBV_SRQ_LIMIT)
		return EOPNOTSUPP;
	return mask ? simple(srq->context, NIC_MODIFY_SRQ, srq->handle, attr->srq_limit, NULL) : 0;
}

int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
	struct srq *s = (struct srq *)srq;
	*attr = (struct ibv_srq_attr){ .max_wr = s->q.count, .max_sge = s->q.sges };
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
	struct srq *s = (struct srq *)srq;
	int err = simple(srq->context, NIC_DESTROY_SRQ, srq->handle, 0, NULL);
	if (err)
		return err;
	munmap(s->q.ring, s->mapped);
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
			     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
	const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	bool with_ops = x->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	if ((x->comp_mask & ~known) || !(x->comp_mask & IBV_QP_INIT_ATTR_PD) || (with_ops && (x->send_ops_flags & ~ops))) {
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

static int address_of(const struct ibv_ah_attr *ah, uint32_t *address)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	uint32_t net;
	if (!ah->is_global || memcmp(ah->grh.dgid.raw, mapped, sizeof(mapped)))
		return EINVAL; /* RoCEv2 over IPv4 alone */
	memcpy(&net, &ah->grh.dgid.raw[12], sizeof(net));
	*address = ntohl(net);
	return 0;
}

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
	if ((mask & IBV_QP_AV) && address_of(&attr->ah_attr, &address))
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
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
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
	munmap(q->map, q->mapped);
	free(q);
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	uint32_t address;
	if (address_of(attr, &address)) {
		errno = EINVAL;
		return NULL;
	}
	struct ah *a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	a->ah.context = pd->context;
	a->ah.pd = pd;
	a->address = address;
	return &a->ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	free(ah);
	return 0;
}

int ibv_init_ah_from_wc(struct ibv_context *ctx, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	(void)ctx;
	memset(attr, 0, sizeof(*attr));
	if (!(wc->wc_flags & IBV_WC_GRH))
		return -1;
	attr->port_num = port;
	attr->is_global = 1;
	attr->grh.dgid = grh->sgid;
	attr->grh.hop_limit = 64;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;
	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *ctx, struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid)
{
	(void)ctx, (void)attr, (void)mac, (void)vid;
	errno = EOPNOTSUPP; /* all is sent to the host's switch */
	return -1;
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
