/* Events of completion queues, and asynchronous ones. The NIC writes them into pipes, of which the program has the reading ends.
 *
 * As with the kernel's verbs, an object ends with its events: those that wait are removed, and destroying it waits until the
 * program has acknowledged those that it has read. */
#define _GNU_SOURCE
#include "library.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* reopen opens a pipe that never blocks, whatever the program has set for its own descriptor. */
static int reopen(int fd, int mode)
{
	char path[32];
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, mode | O_NONBLOCK | O_CLOEXEC);
}

int open_events(struct events *e, int fd)
{
	e->fd = reopen(fd, O_RDONLY);
	if (e->fd < 0)
		return -1;
	pthread_mutex_init(&e->mutex, NULL);
	return 0;
}

void close_events(struct events *e) { close(e->fd); }

/* lock_event reads one event and returns 0 with the mutex locked, so that its object does not end before the event is counted. It
 * waits for an event, unless the program has made its descriptor non-blocking. The NIC writes whole events. */
static int lock_event(struct events *e, int fd, void *to, size_t size)
{
	for (;;) {
		pthread_mutex_lock(&e->mutex);
		ssize_t n = read(e->fd, to, size);
		if (n == (ssize_t)size)
			return 0;
		int err = n == 0 ? EIO : errno; /* 0: the NIC has ended */
		pthread_mutex_unlock(&e->mutex);
		if (err == EAGAIN && !(fcntl(fd, F_GETFL) & O_NONBLOCK)) {
			struct pollfd p = { .fd = fd, .events = POLLIN };
			poll(&p, 1, -1);
		} else if (err != EINTR) {
			errno = err;
			return -1;
		}
	}
}

void drop_events(struct events *e, const void *object, size_t size)
{
	pthread_mutex_lock(&e->mutex);
	int waiting = 0, to = -1;
	uint8_t *all = NULL;
	if (!ioctl(e->fd, FIONREAD, &waiting) && waiting > 0 && (all = malloc((size_t)waiting)) &&
	    (to = reopen(e->fd, O_WRONLY)) >= 0) {
		ssize_t n = read(e->fd, all, (size_t)waiting);
		size_t kept = 0;
		for (ssize_t i = 0; i + (ssize_t)size <= n; i += (ssize_t)size) {
			uint64_t cookie; /* an event begins with it */
			memcpy(&cookie, all + i, sizeof(cookie));
			if (cookie == (uintptr_t)object)
				continue;
			memmove(all + kept, all + i, size);
			kept += size;
		}
		if (kept > 0 && write(to, all, kept) < 0)
			perror("libethereal-verbs: events are lost"); /* the pipe had room for them */
	}
	if (to >= 0)
		close(to);
	free(all);
	pthread_mutex_unlock(&e->mutex);
}

void await_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acked, const uint32_t *read)
{
	pthread_mutex_lock(mutex);
	while (*acked != *read)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

static void ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *acked, unsigned int n)
{
	pthread_mutex_lock(mutex);
	*acked += n;
	pthread_cond_broadcast(cond);
	pthread_mutex_unlock(mutex);
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct events *e = &((struct comp_channel *)channel)->events;
	uint64_t cookie;
	if (lock_event(e, channel->fd, &cookie, sizeof(cookie)))
		return -1;
	struct cq *q = (struct cq *)(uintptr_t)cookie;
	q->events_read++;
	*cq = &q->cq;
	*cq_context = q->cq.cq_context;
	pthread_mutex_unlock(&e->mutex);
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n) { ack(&cq->mutex, &cq->cond, &cq->comp_events_completed, n); }

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	struct events *e = &context_of(ctx)->events;
	struct nic_async a;
	if (lock_event(e, ctx->async_fd, &a, sizeof(a)))
		return -1;
	event->event_type = a.type;
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		event->element.cq = (struct ibv_cq *)(uintptr_t)a.cookie;
		((struct cq *)event->element.cq)->async_read++;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		event->element.srq = (struct ibv_srq *)(uintptr_t)a.cookie;
		((struct srq *)event->element.srq)->async_read++;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		event->element.port_num = 1;
		break;
	default:
		event->element.qp = (struct ibv_qp *)(uintptr_t)a.cookie;
		((struct qp *)event->element.qp)->async_read++;
	}
	pthread_mutex_unlock(&e->mutex);
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_srq *srq = event->element.srq;
	struct ibv_qp *qp = event->element.qp;
	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		ack(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		ack(&srq->mutex, &srq->cond, &srq->events_completed, 1);
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		break;
	default:
		ack(&qp->mutex, &qp->cond, &qp->events_completed, 1);
	}
}
