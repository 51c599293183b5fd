/* Posting and polling: what programs do all the time. */
#define _GNU_SOURCE
#include "library.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static uint32_t load(uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
static void store(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }

uint32_t send_stride(uint32_t sges, uint32_t inline_bytes)
{
	uint32_t n = sges * (uint32_t)sizeof(struct nic_sge);
	if (n < inline_bytes)
		n = inline_bytes;
	return (uint32_t)sizeof(struct nic_send) + ((n + 15) & ~15u);
}

uint32_t recv_stride(uint32_t sges) { return (uint32_t)(sizeof(struct nic_recv) + sges * sizeof(struct nic_sge)); }

void set_queue(struct queue *q, void *base, uint32_t count, uint32_t stride, uint32_t sges)
{
	q->ring = base;
	q->entries = (uint8_t *)base + sizeof(struct nic_ring);
	q->count = count;
	q->stride = stride;
	q->sges = sges;
	pthread_mutex_init(&q->mutex, NULL);
}

void move_queue(struct queue *q, void *base, uint32_t count)
{
	q->entries = (uint8_t *)base + sizeof(struct nic_ring);
	q->count = count;
	__atomic_store_n(&q->ring, (struct nic_ring *)base, __ATOMIC_RELEASE);
}

static void *entry(struct queue *q, uint32_t index) { return q->entries + (size_t)(index & (q->count - 1)) * q->stride; }

static void kick(struct context *c)
{
	uint64_t one = 1;
	if (__atomic_exchange_n(&c->bell->asleep, 0, __ATOMIC_SEQ_CST))
		(void)!write(c->kick, &one, sizeof(one)); /* a full counter wakes, too */
}

/* ring notifies the NIC that something was posted. */
static void ring(struct context *c)
{
	__atomic_fetch_add(&c->bell->rung, 1, __ATOMIC_SEQ_CST);
	kick(c);
}

static struct nic_sge *sges_of(struct nic_send *s) { return (struct nic_sge *)(s + 1); }

static int put_sges(struct nic_sge *to, uint32_t room, const struct ibv_sge *from, int n)
{
	if (n < 0 || (uint32_t)n > room)
		return EINVAL;
	for (int i = 0; i < n; i++)
		to[i] = (struct nic_sge){ from[i].addr, from[i].length, from[i].lkey };
	return 0;
}

/* put_inline copies sges' bytes behind s. */
static int put_inline(struct qp *q, struct nic_send *s, const struct ibv_sge *from, int n)
{
	uint8_t *to = (uint8_t *)(s + 1);
	size_t at = 0;
	for (int i = 0; i < n; i++) {
		if (from[i].length > q->inline_bytes - at)
			return ENOMEM;
		memcpy(to + at, (void *)(uintptr_t)from[i].addr, from[i].length);
		at += from[i].length;
	}
	s->num_sge = 0;
	s->inline_bytes = (uint32_t)at;
	return 0;
}

static void put_ah(struct nic_send *s, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	s->ud_addr = ((struct ah *)ah)->address;
	s->ud_qpn = qpn;
	s->ud_qkey = qkey;
}

/* put_bind writes down what a window is to be bound to, and gives it its new key. */
static int put_bind(struct nic_send *s, struct ibv_mw *mw, uint32_t key, const struct ibv_mw_bind_info *info)
{
	if (info->length && !info->mr)
		return EINVAL;
	s->rkey = (mw->rkey & 0xffffff00) | (key & 0xff);
	s->remote_addr = info->addr;
	s->compare_add = info->length;
	s->swap = info->mw_access_flags;
	s->ud_qkey = info->mr ? info->mr->lkey : 0;
	mw->rkey = s->rkey;
	return 0;
}

static int put_send(struct qp *q, struct nic_send *s, const struct ibv_send_wr *wr)
{
	*s = (struct nic_send){
		.wr_id = wr->wr_id, .opcode = wr->opcode, .flags = wr->send_flags, .imm = wr->imm_data, .num_sge = (uint32_t)wr->num_sge,
	};
	switch (wr->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
	case IBV_WR_RDMA_READ:
		s->remote_addr = wr->wr.rdma.remote_addr;
		s->rkey = wr->wr.rdma.rkey;
		break;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		s->remote_addr = wr->wr.atomic.remote_addr;
		s->rkey = wr->wr.atomic.rkey;
		s->compare_add = wr->wr.atomic.compare_add;
		s->swap = wr->wr.atomic.swap;
		break;
	case IBV_WR_SEND:
	case IBV_WR_SEND_WITH_IMM:
		if (q->qp.qp_type == IBV_QPT_UD) {
			if (!wr->wr.ud.ah)
				return EINVAL;
			put_ah(s, wr->wr.ud.ah, wr->wr.ud.remote_qpn, wr->wr.ud.remote_qkey);
		}
		break;
	case IBV_WR_BIND_MW:
		return put_bind(s, wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
	case IBV_WR_LOCAL_INV:
		s->rkey = wr->invalidate_rkey;
		return 0;
	case IBV_WR_SEND_WITH_INV:
		s->rkey = wr->invalidate_rkey;
		break;
	default:
		return EINVAL;
	}
	if (wr->send_flags & IBV_SEND_INLINE)
		return put_inline(q, s, wr->sg_list, wr->num_sge);
	return put_sges(sges_of(s), q->sq.sges, wr->sg_list, wr->num_sge);
}

static bool may_send(const struct qp *q) { return q->qp.state == IBV_QPS_RTS || q->qp.state == IBV_QPS_SQE || q->qp.state == IBV_QPS_ERR; }

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *q = (struct qp *)qp;
	struct context *c = context_of(qp->context);
	int err = may_send(q) && !in_child(c) ? 0 : EINVAL;
	pthread_mutex_lock(&q->sq.mutex);
	uint32_t head = q->sq.ring->head, posted = head;
	for (; wr && !err; wr = wr->next) {
		if (head - load(&q->sq.ring->tail) >= q->sq.count)
			err = ENOMEM;
		else
			err = put_send(q, entry(&q->sq, head), wr);
		if (err)
			break;
		head++;
	}
	if (head != posted)
		store(&q->sq.ring->head, head);
	pthread_mutex_unlock(&q->sq.mutex);
	if (head != posted)
		ring(c);
	if (err)
		*bad = wr;
	return err;
}

/* bind_mw binds a window of type 1, which has another key afterwards. */
static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ibv_send_wr *bad, wr = { .wr_id = bind->wr_id, .opcode = IBV_WR_BIND_MW, .send_flags = bind->send_flags };
	if (mw->type != IBV_MW_TYPE_1)
		return errno = EINVAL;
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = bind->bind_info;
	return post_send(qp, &wr, &bad);
}

static int post_receive(struct context *c, struct queue *rq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	int err = in_child(c) ? EINVAL : 0;
	pthread_mutex_lock(&rq->mutex);
	uint32_t head = rq->ring->head, posted = head;
	for (; wr && !err; wr = wr->next) {
		if (head - load(&rq->ring->tail) >= rq->count) {
			err = ENOMEM;
			break;
		}
		struct nic_recv *r = entry(rq, head);
		*r = (struct nic_recv){ .wr_id = wr->wr_id, .num_sge = (uint32_t)wr->num_sge };
		err = put_sges((struct nic_sge *)(r + 1), rq->sges, wr->sg_list, wr->num_sge);
		if (err)
			break;
		head++;
	}
	if (head != posted)
		__atomic_store_n(&rq->ring->head, head, __ATOMIC_SEQ_CST);
	pthread_mutex_unlock(&rq->mutex);
	if (head != posted && __atomic_exchange_n(&rq->ring->armed, 0, __ATOMIC_SEQ_CST))
		ring(c); /* a message waits for it */
	if (err)
		*bad = wr;
	return err;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *q = (struct qp *)qp;
	if (qp->srq || qp->state == IBV_QPS_RESET) {
		*bad = wr;
		return EINVAL;
	}
	int err = post_receive(context_of(qp->context), &q->rq, wr, bad);
	if (!err && qp->state == IBV_QPS_ERR)
		ring(context_of(qp->context)); /* to be flushed */
	return err;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	return post_receive(context_of(srq->context), &((struct srq *)srq)->q, wr, bad);
}

/*
 * A program that polls takes a processor from the NIC and from the fabric's switches, which may be on the same machine:
 * sched_yield lends it for a moment only. After YIELDS polls that found nothing a thread waits until the NIC has done
 * something for its program; 50 us at first and 0.8 ms at most, as it may poll other things, too.
 */
enum { YIELDS = 8, WAIT_LEAST = 50000 /* nanoseconds */, WAIT_DOUBLINGS = 4 };

static bool empty(struct queue *q)
{
	struct nic_ring *r = __atomic_load_n(&q->ring, __ATOMIC_ACQUIRE);
	return load(&r->head) == __atomic_load_n(&r->tail, __ATOMIC_RELAXED);
}

static void wait_for_news(struct context *c, struct queue *q, uint32_t news)
{
	static _Thread_local unsigned int polls; /* in vain */
	static _Thread_local uint32_t before;    /* news then */
	if (news != before) {
		before = news;
		polls = 0;
	}
	if (polls++ < YIELDS || in_child(c)) {
		sched_yield();
		return;
	}
	unsigned int doublings = polls - YIELDS - 1;
	if (doublings > WAIT_DOUBLINGS)
		polls--, doublings = WAIT_DOUBLINGS;
	struct timespec most = { .tv_nsec = WAIT_LEAST << doublings };
	__atomic_store_n(&c->bell->waiting, 1, __ATOMIC_SEQ_CST);
	if (empty(q))
		syscall(SYS_futex, &c->bell->news, FUTEX_WAIT, news, &most, NULL, 0);
}

/* nothing_new waits a moment if a completion queue is empty, and says whether it was. */
static bool nothing_new(struct ibv_cq *cq)
{
	struct queue *q = &((struct cq *)cq)->q;
	struct context *c = context_of(cq->context);
	uint32_t news = __atomic_load_n(&c->bell->news, __ATOMIC_SEQ_CST);
	if (!empty(q))
		return false;
	int err = errno;
	wait_for_news(c, q, news);
	errno = err;
	return true;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct queue *q = &((struct cq *)cq)->q;
	if (nothing_new(cq))
		return 0;
	pthread_mutex_lock(&q->mutex);
	uint32_t tail = q->ring->tail, head = load(&q->ring->head);
	int got = 0;
	for (; got < n && tail != head; tail++, got++) {
		const struct nic_cqe *e = entry(q, tail);
		wc[got] = (struct ibv_wc){
			.wr_id = e->wr_id, .status = e->status, .opcode = e->opcode, .vendor_err = e->vendor_err, .byte_len = e->byte_len,
			.imm_data = e->imm, .qp_num = e->qp_num, .src_qp = e->src_qp, .wc_flags = e->wc_flags,
		};
	}
	store(&q->ring->tail, tail);
	pthread_mutex_unlock(&q->mutex);
	return got;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	struct cq *q = (struct cq *)cq;
	if (!cq->channel || cq->handle != q->handle)
		return EINVAL; /* no event could come */
	pthread_mutex_lock(&q->q.mutex); /* the ring may be about to change */
	struct nic_ring *r = q->q.ring;
	uint32_t want = solicited_only ? 2 : 1, had = load(&r->armed);
	while (had != 1 && !__atomic_compare_exchange_n(&r->armed, &had, want, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		;
	pthread_mutex_unlock(&q->q.mutex);
	return 0;
}

void forget_completions(struct ibv_cq *cq, uint32_t qp_num)
{
	struct queue *q = &((struct cq *)cq)->q;
	pthread_mutex_lock(&q->mutex);
	uint32_t tail = q->ring->tail, head = load(&q->ring->head), to = head;
	for (uint32_t i = head; i != tail;) {
		const struct nic_cqe *e = entry(q, --i);
		if (e->qp_num != qp_num && --to != i)
			*(struct nic_cqe *)entry(q, to) = *e;
	}
	store(&q->ring->tail, to);
	pthread_mutex_unlock(&q->mutex);
}

/* What follows is ibv_start_poll and the like: completions read where the NIC has written them. */

static void show(struct cq *q)
{
	q->at = entry(&q->q, q->tail);
	q->ex.wr_id = q->at->wr_id;
	q->ex.status = q->at->status;
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct cq *q = (struct cq *)ex;
	if (attr->comp_mask)
		return EINVAL;
	if (nothing_new(&q->cq))
		return ENOENT;
	pthread_mutex_lock(&q->q.mutex);
	q->tail = q->q.ring->tail;
	if (q->tail == load(&q->q.ring->head)) { /* another thread was faster */
		pthread_mutex_unlock(&q->q.mutex);
		return ENOENT;
	}
	show(q);
	return 0;
}

static int next_poll(struct ibv_cq_ex *ex)
{
	struct cq *q = (struct cq *)ex;
	if (q->tail + 1 == load(&q->q.ring->head))
		return ENOENT;
	q->tail++;
	show(q);
	return 0;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	struct cq *q = (struct cq *)ex;
	store(&q->q.ring->tail, q->tail + 1);
	pthread_mutex_unlock(&q->q.mutex);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex) { return ((struct cq *)ex)->at->opcode; }
static uint32_t read_vendor_err(struct ibv_cq_ex *ex) { return ((struct cq *)ex)->at->vendor_err; }
static uint32_t read_byte_len(struct ibv_cq_ex *ex) { return ((struct cq *)ex)->at->byte_len; }
static __be32 read_imm_data(struct ibv_cq_ex *ex) { return ((struct cq *)ex)->at->imm; }
static uint32_t read_qp_num(struct ibv_cq_ex *ex) { return ((struct cq *)ex)->at->qp_num; }
static uint32_t read_src_qp(struct ibv_cq_ex *ex) { return ((struct cq *)ex)->at->src_qp; }
static unsigned int read_wc_flags(struct ibv_cq_ex *ex) { return ((struct cq *)ex)->at->wc_flags; }

/* There are neither LIDs nor service levels on Ethernet. */
static uint32_t read_slid(struct ibv_cq_ex *ex) { return (void)ex, 0; }
static uint8_t read_zero(struct ibv_cq_ex *ex) { return (void)ex, 0; }

void set_poll(struct cq *q)
{
	struct ibv_cq_ex *ex = &q->ex;
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_zero;
	ex->read_dlid_path_bits = read_zero;
}

void set_ops(struct ibv_context_ops *ops)
{
	ops->alloc_mw = alloc_mw;
	ops->dealloc_mw = dealloc_mw;
	ops->bind_mw = bind_mw;
	ops->poll_cq = poll_cq;
	ops->req_notify_cq = req_notify_cq;
	ops->post_send = post_send;
	ops->post_recv = post_recv;
	ops->post_srq_recv = post_srq_recv;
}

/* What follows is ibv_wr_*: a list of requests built in place, between start and complete. */

static void begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode op)
{
	struct qp *q = (struct qp *)ex;
	if (!q->failed && q->building - load(&q->sq.ring->tail) >= q->sq.count)
		q->failed = ENOMEM;
	q->last = NULL;
	if (q->failed)
		return;
	q->last = entry(&q->sq, q->building++);
	*q->last = (struct nic_send){ .wr_id = ex->wr_id, .opcode = op, .flags = ex->wr_flags };
}

static void begin_remote(struct ibv_qp_ex *ex, enum ibv_wr_opcode op, uint32_t rkey, uint64_t addr)
{
	begin(ex, op);
	struct nic_send *s = ((struct qp *)ex)->last;
	if (s) {
		s->rkey = rkey;
		s->remote_addr = addr;
	}
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr) { begin_remote(ex, IBV_WR_RDMA_WRITE, rkey, addr); }
static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr) { begin_remote(ex, IBV_WR_RDMA_READ, rkey, addr); }
static void wr_send(struct ibv_qp_ex *ex) { begin(ex, IBV_WR_SEND); }

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	begin_remote(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr);
	if (((struct qp *)ex)->last)
		((struct qp *)ex)->last->imm = imm;
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	begin(ex, IBV_WR_SEND_WITH_IMM);
	if (((struct qp *)ex)->last)
		((struct qp *)ex)->last->imm = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t key) { begin_remote(ex, IBV_WR_SEND_WITH_INV, key, 0); }
static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t key) { begin_remote(ex, IBV_WR_LOCAL_INV, key, 0); }

static void fail(struct qp *q, int err)
{
	if (err && !q->failed)
		q->failed = err;
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t key, const struct ibv_mw_bind_info *info)
{
	begin(ex, IBV_WR_BIND_MW);
	struct qp *q = (struct qp *)ex;
	if (q->last)
		fail(q, put_bind(q->last, mw, key, info));
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	begin_remote(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr);
	struct nic_send *s = ((struct qp *)ex)->last;
	if (s) {
		s->compare_add = compare;
		s->swap = swap;
	}
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	begin_remote(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr);
	if (((struct qp *)ex)->last)
		((struct qp *)ex)->last->compare_add = add;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	if (((struct qp *)ex)->last)
		put_ah(((struct qp *)ex)->last, ah, qpn, qkey);
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct qp *q = (struct qp *)ex;
	if (!q->last)
		return;
	fail(q, n > q->sq.sges ? EINVAL : put_sges(sges_of(q->last), q->sq.sges, list, (int)n));
	q->last->num_sge = (uint32_t)n;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge s = { addr, length, lkey };
	wr_set_sge_list(ex, 1, &s);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct qp *q = (struct qp *)ex;
	if (!q->last)
		return;
	uint8_t *to = (uint8_t *)(q->last + 1);
	size_t at = 0;
	for (size_t i = 0; i < n; i++) {
		if (list[i].length > q->inline_bytes - at) {
			fail(q, ENOMEM);
			return;
		}
		memcpy(to + at, list[i].addr, list[i].length);
		at += list[i].length;
	}
	q->last->flags |= IBV_SEND_INLINE;
	q->last->inline_bytes = (uint32_t)at;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf b = { addr, length };
	wr_set_inline_data_list(ex, 1, &b);
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct qp *q = (struct qp *)ex;
	pthread_mutex_lock(&q->sq.mutex);
	q->building = q->sq.ring->head;
	q->last = NULL;
	q->failed = may_send(q) && !in_child(context_of(q->qp.context)) ? 0 : EINVAL;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct qp *q = (struct qp *)ex;
	int err = q->failed;
	bool posted = !err && q->building != q->sq.ring->head;
	if (posted)
		store(&q->sq.ring->head, q->building);
	pthread_mutex_unlock(&q->sq.mutex);
	if (posted)
		ring(context_of(q->qp.context));
	return err;
}

static void wr_abort(struct ibv_qp_ex *ex) { pthread_mutex_unlock(&((struct qp *)ex)->sq.mutex); }

void set_wr(struct ibv_qp_ex *ex)
{
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}
