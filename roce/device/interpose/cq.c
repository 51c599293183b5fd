/* Completion queues and their channels. */
#define _GNU_SOURCE
#include "library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct nic_call in = { .op = NIC_CREATE_CHANNEL };
	struct nic_answer out;
	struct comp_channel *ch = calloc(1, sizeof(*ch));
	if (!ch)
		return NULL;
	if (call(context_of(ctx), &in, &out, &ch->channel.fd, 1)) {
		free(ch);
		return NULL;
	}
	ch->channel.context = ctx;
	ch->handle = (uint32_t)out.value[0];
	if (open_events(&ch->events, ch->channel.fd)) {
		int err = errno;
		simple(ctx, NIC_DESTROY_CHANNEL, ch->handle, 0, NULL);
		close(ch->channel.fd);
		free(ch);
		errno = err;
		return NULL;
	}
	return &ch->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct comp_channel *ch = (struct comp_channel *)channel;
	int err = simple(channel->context, NIC_DESTROY_CHANNEL, ch->handle, 0, NULL);
	if (err)
		return err;
	close_events(&ch->events);
	close(channel->fd);
	free(ch);
	return 0;
}

static struct cq *create_cq(struct ibv_context *ctx, uint32_t cqe, void *cq_context, struct ibv_comp_channel *channel)
{
	struct cq *q = calloc(1, sizeof(*q));
	if (!q)
		return NULL;
	uint64_t ch = channel ? ((struct comp_channel *)channel)->handle : 0;
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
		drop_events(&((struct comp_channel *)cq->channel)->events, q, sizeof(uint64_t));
		await_acks(&cq->mutex, &cq->cond, &cq->comp_events_completed, &q->events_read);
		pthread_mutex_lock(&cq->context->mutex);
		cq->channel->refcnt--;
		pthread_mutex_unlock(&cq->context->mutex);
	}
	drop_events(&context_of(cq->context)->events, q, sizeof(struct nic_async));
	await_acks(&cq->mutex, &cq->cond, &cq->async_events_completed, &q->async_read);
	end_mappings(q->map);
	free(q);
	return 0;
}
