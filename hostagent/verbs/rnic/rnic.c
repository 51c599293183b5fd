/*
 * libethereal-rnic labels the queue pairs of programs that know nothing of it, on real RNICs. It is preloaded before
 * libibverbs, or named in NCCL_IBVERBS_LIB, and hands everything on to it. Of a connected queue pair it changes
 * two things: the flow label of its path, of which the device makes the UDP source port, when it goes to RTR; and that
 * port, when the agent gives it another path. ETHEREAL_OWNERS names the agent's socket (`ethereal host agent --labeller
 * verbs --listen-owners unix:PATH`); without it, or without an agent, programs go on as if the library was not there.
 *
 * See hostagent/verbs and hostagent/owners for the same in Go.
 */
#define _GNU_SOURCE
#include "rnic.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

enum { BUCKETS = 1024 };

static struct pair *pairs[BUCKETS]; /* by the other end's number */

/* Ports of labels, and what drivers make of a flow label: its upper six bits are folded into the lower fourteen. */
static uint16_t source_port(int label) { return (uint16_t)(0xC000 | label); }
static uint32_t flow_label(int label) { return 0xFC000u | ((uint32_t)label ^ 0x3F); }

/* The calls that were there before. */
static void *next(const char *name)
{
	void *f = dlvsym(RTLD_NEXT, name, "IBVERBS_1.1");
	if (!f) {
		fprintf(stderr, "libethereal-rnic: there is no libibverbs behind it that has %s\n", name);
		abort(); /* nothing can be handed on */
	}
	return f;
}

#define REAL(name) ((__typeof__(&name))({ \
	static void *_Atomic f; \
	void *g = atomic_load(&f); \
	if (!g) \
		atomic_store(&f, g = next(#name)); \
	g; }))

/* broadcom returns the call that changes a source port, of the bnxt_re provider that drives a context; NULL: another does. */
static int (*broadcom(struct ibv_context *c))(struct ibv_qp *, uint16_t)
{
	int (*call)(struct ibv_qp *, uint16_t) = NULL;
	Dl_info provider; /* its file has the distribution's name; one of its own functions leads there */
	void *file = NULL;
	if (c->ops.post_send && dladdr((void *)c->ops.post_send, &provider))
		file = dlopen(provider.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	if (file) {
		*(void **)&call = dlsym(file, "bnxt_re_dv_modify_qp_udp_sport");
		dlclose(file); /* the device keeps it open */
	}
	return call;
}

/* set_port changes the source port of a queue pair in use, where the device can. */
static int set_port(struct ibv_qp *qp, uint16_t port)
{
	static bool looked;
	static bool (*supported)(struct ibv_device *);
	static int (*modify)(struct ibv_qp *, uint16_t);

	if (!looked) { /* under the lock */
		looked = true;
		void *from = RTLD_DEFAULT;
		if (!dlsym(from, "mlx5dv_modify_qp_udp_sport"))
			from = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL); /* the provider's own file */
		if (from || dlsym(RTLD_DEFAULT, "mlx5dv_modify_qp_udp_sport")) {
			*(void **)&supported = dlsym(from, "mlx5dv_is_supported");
			*(void **)&modify = dlsym(from, "mlx5dv_modify_qp_udp_sport");
		}
	}
	int (*call)(struct ibv_qp *, uint16_t) = modify;
	if (!supported || !modify || !supported(qp->context->device))
		call = broadcom(qp->context);
	if (!call)
		return EOPNOTSUPP;
	int err = call(qp, port);
	if (err == -1)
		return errno;
	return err < 0 ? -err : err; /* Broadcom's has negative ones */
}

int relabel(struct pair *p, int label)
{
	p->want = label;
	if (!p->sending || p->label == label)
		return 0;
	int err = set_port(p->qp, source_port(label));
	if (!err)
		p->label = label;
	return err;
}

struct pair *find(const char *dst, uint32_t num)
{
	struct pair *p = pairs[num % BUCKETS];
	while (p && (p->num != num || strcmp(p->dst, dst)))
		p = p->next;
	return p;
}

void each(void (*f)(struct pair *))
{
	for (int i = 0; i < BUCKETS; i++)
		for (struct pair *p = pairs[i]; p; p = p->next)
			f(p);
}

/* of returns where the pair of a queue pair is linked, NULL if it has none. */
static struct pair **of(const struct ibv_qp *qp)
{
	for (int i = 0; i < BUCKETS; i++)
		for (struct pair **p = &pairs[i]; *p; p = &(*p)->next)
			if ((*p)->qp == qp)
				return p;
	return NULL;
}

static void drop(const struct ibv_qp *qp, bool tell)
{
	struct pair **at = of(qp), *p;
	if (!at)
		return;
	p = *at;
	*at = p->next;
	if (tell)
		forget(p);
	free(p);
}

/* name writes the destination as the agent has it: IPv4 where the GID holds one. */
static void name(char dst[INET6_ADDRSTRLEN], const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	if (memcmp(gid->raw, mapped, sizeof(mapped)))
		inet_ntop(AF_INET6, gid->raw, dst, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET, &gid->raw[12], dst, INET6_ADDRSTRLEN);
}

/* connected shows the agent a queue pair on its way to RTR, and returns its label, or NO_LABEL. */
static int connected(struct ibv_qp *qp, const struct ibv_qp_attr *attr)
{
	int label = NO_LABEL;
	pthread_mutex_lock(&lock);
	drop(qp, true); /* it was connected to another before */
	struct pair *p = follow_agent() ? calloc(1, sizeof(*p)) : NULL;
	if (p) {
		p->qp = qp;
		name(p->dst, &attr->ah_attr.grh.dgid);
		p->num = attr->dest_qp_num;
		p->label = p->want = NO_LABEL;
		if (find(p->dst, p->num)) { /* two ends of one name cannot be distinguished */
			free(p);
		} else {
			p->next = pairs[p->num % BUCKETS];
			pairs[p->num % BUCKETS] = p;
			show(p);
			await_label(p); /* p stays: only its owner ends it */
			label = p->label = p->want;
		}
	}
	pthread_mutex_unlock(&lock);
	return label;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	bool ours = (mask & IBV_QP_STATE) && (qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_UC);
	int label = NO_LABEL;
	int both = IBV_QP_AV | IBV_QP_DEST_QPN;
	if (ours && attr->qp_state == IBV_QPS_RTR && (mask & both) == both && attr->ah_attr.is_global)
		label = connected(qp, attr);
	/* In place: the program's structure may be of an older and shorter kind. */
	uint32_t before = label == NO_LABEL ? 0 : attr->ah_attr.grh.flow_label;
	if (label != NO_LABEL)
		attr->ah_attr.grh.flow_label = flow_label(label);
	int err = REAL(ibv_modify_qp)(qp, attr, mask);
	int saved = errno;
	if (label != NO_LABEL)
		attr->ah_attr.grh.flow_label = before;
	if (!ours)
		return err;
	pthread_mutex_lock(&lock);
	struct pair **at = of(qp);
	bool ended = attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_INIT || attr->qp_state == IBV_QPS_ERR;
	if (at && (err ? attr->qp_state == IBV_QPS_RTR : ended)) {
		drop(qp, true); /* not connected, or not any more */
	} else if (at && !err && attr->qp_state == IBV_QPS_RTS && !(*at)->sending) {
		(*at)->sending = true;
		if ((*at)->want != NO_LABEL && relabel(*at, (*at)->want)) {
			(*at)->want = (*at)->label; /* it cannot be changed; the agent learns its label */
			show(*at);
		}
	}
	pthread_mutex_unlock(&lock);
	errno = saved;
	return err;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	pthread_mutex_lock(&lock);
	drop(qp, true);
	pthread_mutex_unlock(&lock);
	return REAL(ibv_destroy_qp)(qp);
}

/* What contexts polled by before: programs call it by a pointer in the context. */
enum { CONTEXTS = 64 };
static struct {
	struct ibv_context *_Atomic context;
	int (*poll)(struct ibv_cq *, int, struct ibv_wc *);
} polled[CONTEXTS];

/* expired notifies the agent that a queue pair's retries ran out. */
static void expired(struct ibv_context *context, uint32_t qp_num)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < BUCKETS; i++) {
		for (struct pair *p = pairs[i]; p; p = p->next) {
			if (p->qp->context == context && p->qp->qp_num == qp_num && !p->timed_out) {
				p->timed_out = true;
				timed_out(p);
			}
		}
	}
	pthread_mutex_unlock(&lock);
}

static int poll_watched(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int i = 0;
	while (i < CONTEXTS - 1 && atomic_load_explicit(&polled[i].context, memory_order_acquire) != cq->context)
		i++;
	int got = polled[i].poll(cq, n, wc);
	for (int k = 0; k < got; k++)
		if (wc[k].status == IBV_WC_RETRY_EXC_ERR)
			expired(cq->context, wc[k].qp_num);
	return got;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *c = REAL(ibv_open_device)(device);
	if (!c || !getenv("ETHEREAL_OWNERS"))
		return c;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < CONTEXTS && c->ops.poll_cq && c->ops.poll_cq != poll_watched; i++) {
		if (atomic_load(&polled[i].context))
			continue;
		polled[i].poll = c->ops.poll_cq;
		atomic_store_explicit(&polled[i].context, c, memory_order_release);
		c->ops.poll_cq = poll_watched;
	}
	pthread_mutex_unlock(&lock);
	return c;
}

int ibv_close_device(struct ibv_context *context)
{
	pthread_mutex_lock(&lock);
	for (int i = 0; i < CONTEXTS; i++)
		if (atomic_load(&polled[i].context) == context)
			atomic_store(&polled[i].context, NULL);
	pthread_mutex_unlock(&lock);
	return REAL(ibv_close_device)(context);
}

/* A child of fork has none of its parent's queue pairs, nor its stream. */
static void before_fork(void) { pthread_mutex_lock(&lock); }
static void in_parent(void) { pthread_mutex_unlock(&lock); }
static void in_child(void)
{
	for (int i = 0; i < BUCKETS; i++) {
		for (struct pair *p = pairs[i], *after; p; p = after) {
			after = p->next;
			free(p);
		}
		pairs[i] = NULL;
	}
	reset_agent();
	pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(before_fork, in_parent, in_child); }
