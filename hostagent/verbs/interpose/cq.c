/* Completion queues, their channels, and events. */
#define _GNU_SOURCE
#include "library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

static struct cq *create_cq(struct ibv_context *ctx, uint32_t cqe, void *cq_context, struct ibv_comp_channel *channel)
{
	struct cq *q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	uint64_t ch = channel ? ((struct channel *)channel)->handle : 0;
	struct nic_call in = { .op = NIC_CREATE_CQ, .arg = { cqe, ch, (uintptr_t)q } };
	struct nic_answer out;
	int fd;
	if (call(context_of(ctx), &in, &out, &fd, 1)) {
		free(q);
		return NULL;
	}
	void *ring = add_mapping(&q->map, fd, sizeof(struct nic_ring) + out.value[1] * sizeof(struct nic_cqe));
	if (!ring) {
		simple(ctx, NIC_DESTROY_CQ, out.value[0], 0, NULL);
		free(q);
		return NULL;
	}
	set_queue(&q->q, ring, (uint32_t)out.value[1], sizeof(struct nic_cqe), 0);
	q->handle = (uint32_t)out.value[0];
	q->cq.context = ctx;
	q->cq.channel = channel;
	q->cq.cq_context = cq_context;
	q->cq.handle = q->handle;
	q->cq.cqe = (int)out.value[1];
	pthread_mutex_init(&q->cq.mutex, NULL);
	pthread_cond_init(&q->cq.cond, NULL);
	if (channel) {
		pthread_mutex_lock(&ctx->mutex);
		channel->refcnt++;
		pthread_mutex_unlock(&ctx->mutex);
	}
	return q;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context, struct ibv_comp_channel *channel, int vector)
{
	if (cqe < 1 || vector < 0 || vector >= ctx->num_comp_vectors) {
		errno = EINVAL;
		return NULL;
	}
	struct cq *q = create_cq(ctx, (uint32_t)cqe, cq_context, channel);
	return q ? &q->cq : NULL;
}

struct ibv_cq_ex *create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *init)
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	if (init->cqe < 1 || init->comp_vector >= (uint32_t)ctx->num_comp_vectors) {
		errno = EINVAL;
		return NULL;
	}
	if ((init->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS) || (init->comp_mask & ~known) ||
	    ((init->comp_mask & known) && (init->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED))) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	struct cq *q = create_cq(ctx, init->cqe, init->cq_context, init->channel);
	if (!q)
		return NULL;
	set_poll(q);
	return &q->ex;
}

int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
	struct cq *q = (struct cq *)cq;
	if (cqe < 1)
		return errno = EINVAL;
	struct nic_call in = { .op = NIC_RESIZE_CQ, .arg = { cq->handle, (uint64_t)cqe } };
	struct nic_answer out;
	int fd;
	pthread_mutex_lock(&q->q.mutex);
	int err = call(context_of(cq->context), &in, &out, &fd, 1);
	if (!err) {
		uint32_t entries = (uint32_t)out.value[0];
		void *ring = add_mapping(&q->map, fd, sizeof(struct nic_ring) + (size_t)entries * sizeof(struct nic_cqe));
		if (ring) {
			move_queue(&q->q, ring, entries);
			cq->cqe = (int)entries;
		} else {
			err = errno = ENOMEM; /* the NIC writes where this program does not look: no completion comes any more */
		}
	}
	pthread_mutex_unlock(&q->q.mutex);
	return err;
}

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
	end_mappings(q->map);
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

