/*
 * Stands between libethereal-rnic and a library that has no RNIC, for what an mlx5 device does with labels: it notes the
 * flow label of each queue pair that goes to RTR, and the source port that one in use is given, in the file
 * DEVICE_RECORD: "rtr|sport NUMBER VALUE NANOSECONDS" a line, by CLOCK_MONOTONIC. With DEVICE_FIXED its ports cannot be
 * changed. With DEVICE_ALONE there is no library behind it: queue pairs are but numbers. Built with BNXT it is a bnxt_re
 * device.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <infiniband/verbs.h>

#define NEXT(name) ((__typeof__(&name))dlvsym(RTLD_NEXT, #name, "IBVERBS_1.1"))

static void note(const char *what, uint32_t number, uint32_t value)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	FILE *f = fopen(getenv("DEVICE_RECORD"), "a");
	if (f) {
		fprintf(f, "%s %u %u %lld\n", what, number, value, now.tv_sec * 1000000000LL + now.tv_nsec);
		fclose(f);
	}
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR)
		note("rtr", qp->qp_num, attr->ah_attr.grh.flow_label);
	return getenv("DEVICE_ALONE") ? 0 : NEXT(ibv_modify_qp)(qp, attr, mask);
}

int ibv_destroy_qp(struct ibv_qp *qp) { return getenv("DEVICE_ALONE") ? 0 : NEXT(ibv_destroy_qp)(qp); }

/* The queue pair whose retries have run out, of a device alone: a program sets it before it polls. */
uint32_t device_expired;

static int poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	(void)cq, (void)n;
	wc->status = IBV_WC_RETRY_EXC_ERR;
	wc->qp_num = device_expired;
	return 1;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	*bad = wr;
	return EINVAL;
}

struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	static struct ibv_context alone;
	if (!getenv("DEVICE_ALONE"))
		return NEXT(ibv_open_device)(device);
	alone.device = device;
	alone.ops.poll_cq = poll;
	alone.ops.post_send = post_send;
	return &alone;
}

int ibv_close_device(struct ibv_context *context) { return getenv("DEVICE_ALONE") ? 0 : NEXT(ibv_close_device)(context); }

#ifdef BNXT
int bnxt_re_dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t port)
{
	if (getenv("DEVICE_FIXED"))
		return -EOPNOTSUPP;
	note("sport", qp->qp_num, port);
	return 0;
}
#else
bool mlx5dv_is_supported(struct ibv_device *device)
{
	(void)device;
	return true;
}

int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t port)
{
	if (getenv("DEVICE_FIXED"))
		return EOPNOTSUPP;
	note("sport", qp->qp_num, port);
	return 0;
}
#endif
