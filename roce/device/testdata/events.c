/* Ends completion queues while their events wait or are not acknowledged. It prints what is wrong. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

static atomic_int acked;

static void need(int held, const char *what)
{
	if (held)
		return;
	printf("%s: %s\n", what, strerror(errno));
	exit(1);
}

static void *end_queue(void *cq)
{
	need(!ibv_destroy_cq(cq), "ibv_destroy_cq");
	need(atomic_load(&acked), "a completion queue ended before its event was acknowledged");
	return NULL;
}

/* connect_self connects a queue pair to itself. */
static void connect_self(struct ibv_context *ctx, struct ibv_qp *qp)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	need(!ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = qp->qp_num,
				  .ah_attr = { .is_global = 1, .port_num = 1 } };
	need(!ibv_query_gid(ctx, 1, 0, &a.ah_attr.grh.dgid), "ibv_query_gid");
	need(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				    IBV_QP_MIN_RNR_TIMER),
	     "RTR");
	a = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7 };
	need(!ibv_modify_qp(qp, &a,
			    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
	     "RTS");
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	need(devices && devices[0], "ibv_get_device_list");
	struct ibv_context *ctx = ibv_open_device(devices[0]);
	need(ctx != NULL, "ibv_open_device");
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	need(pd && channel, "ibv_create_comp_channel");
	struct ibv_cq *sent = ibv_create_cq(ctx, 4, NULL, channel, 0), *got = ibv_create_cq(ctx, 4, NULL, channel, 0);
	need(sent && got && !ibv_req_notify_cq(sent, 0) && !ibv_req_notify_cq(got, 0), "ibv_create_cq");
	struct ibv_qp_init_attr_ex init = { .send_cq = sent, .recv_cq = got, .qp_type = IBV_QPT_RC, .pd = pd,
					    .cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
					    .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS }; /* there are none */
	struct ibv_qp *qp = ibv_create_qp_ex(ctx, &init);
	need(qp != NULL, "ibv_create_qp_ex");
	connect_self(ctx, qp);

	struct ibv_recv_wr recv = { 0 }, *bad_recv;
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad_send;
	need(!ibv_post_recv(qp, &recv, &bad_recv) && !ibv_post_send(qp, &send, &bad_send), "ibv_post_send");
	struct ibv_wc wc;
	while (!ibv_poll_cq(sent, 1, &wc))
		;
	while (!ibv_poll_cq(got, 1, &wc))
		;
	need(!ibv_destroy_qp(qp), "ibv_destroy_qp"); /* the NIC has written both events before it answers */

	/* The event of a completion queue ends with it; that of the other one stays. */
	need(!ibv_destroy_cq(sent), "ibv_destroy_cq");
	need(!fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), "fcntl");
	struct ibv_cq *of;
	void *context;
	need(!ibv_get_cq_event(channel, &of, &context) && of == got, "the event of the queue that is left");
	need(ibv_get_cq_event(channel, &of, &context) && errno == EAGAIN, "an event of a queue that has ended");

	/* A completion queue ends when its events are acknowledged. Until then the program may look at it. */
	pthread_t t;
	need(!pthread_create(&t, NULL, end_queue, got), "pthread_create");
	while (!ibv_resize_cq(got, 4)) /* until the NIC has ended it */
		;
	atomic_store(&acked, 1);
	ibv_ack_cq_events(got, 1);
	need(!pthread_join(t, NULL), "pthread_join");
	need(!ibv_destroy_comp_channel(channel) && !ibv_dealloc_pd(pd) && !ibv_close_device(ctx), "ibv_close_device");
	puts("no errors");
	return 0;
}
