/*
 * Does to queue pairs of device.c what each line of its input says, and answers with a line: the state they are in,
 * or what became of it.
 *
 *	connect NUMBER GID DESTINATION   to RTR; the GID as inet_pton has IPv6
 *	start NUMBER                     to RTS
 *	reset NUMBER, destroy NUMBER
 *	poll NUMBER                      its retries have run out
 *	fork                             a child connects queue pair 99 to ::ffff:10.0.1.2, 990, and destroys it
 *
 * Built with LOADED it loads the library that NCCL_IBVERBS_LIB names, as NCCL does.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#ifdef LOADED
static void *load(const char *name)
{
	void *lib = dlopen(getenv("NCCL_IBVERBS_LIB"), RTLD_NOW);
	void *f = lib ? dlvsym(lib, name, "IBVERBS_1.1") : NULL;
	if (!f) {
		fprintf(stderr, "%s: %s\n", name, dlerror());
		exit(3);
	}
	return f;
}

#define ibv_open_device ((__typeof__(&ibv_open_device))load("ibv_open_device"))
#define ibv_close_device ((__typeof__(&ibv_close_device))load("ibv_close_device"))
#define ibv_modify_qp ((__typeof__(&ibv_modify_qp))load("ibv_modify_qp"))
#define ibv_destroy_qp ((__typeof__(&ibv_destroy_qp))load("ibv_destroy_qp"))
#define device_expired (*(uint32_t *)load("device_expired"))
#else
extern uint32_t device_expired;
#endif

static struct ibv_qp qps[100];

static int connect_to(struct ibv_context *context, uint32_t n, const char *gid, uint32_t to)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR, .dest_qp_num = to };
	qps[n] = (struct ibv_qp){ .context = context, .qp_num = n, .qp_type = IBV_QPT_RC };
	a.ah_attr.is_global = 1;
	a.ah_attr.grh.flow_label = 77;
	a.ah_attr.grh.hop_limit = 64;
	if (inet_pton(AF_INET6, gid, a.ah_attr.grh.dgid.raw) != 1)
		return -1;
	int err = ibv_modify_qp(&qps[n], &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN);
	return err ? err : a.ah_attr.grh.flow_label != 77; /* the program's own is as it was */
}

int main(void)
{
	struct ibv_device device = { .name = "stand-in" };
	struct ibv_context *context = ibv_open_device(&device);
	struct ibv_cq cq = { .context = context };
	char line[256], word[16], gid[64];
	unsigned int n, to;
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin)) {
		struct ibv_qp_attr a = { 0 };
		struct ibv_wc wc;
		int err = -1;
		n = 0;
		if (sscanf(line, "connect %u %63s %u", &n, gid, &to) == 3 && n < 99) {
			err = connect_to(context, n, gid, to);
		} else if (!strcmp(line, "fork\n")) {
			pid_t child = fork();
			if (!child)
				_exit(connect_to(context, 99, "::ffff:10.0.1.2", 990) || ibv_destroy_qp(&qps[99]));
			waitpid(child, &err, 0);
		} else if (sscanf(line, "%15s %u", word, &n) == 2 && n < 99) {
			if (!strcmp(word, "start") || !strcmp(word, "reset")) {
				a.qp_state = *word == 's' ? IBV_QPS_RTS : IBV_QPS_RESET;
				err = ibv_modify_qp(&qps[n], &a, IBV_QP_STATE);
			} else if (!strcmp(word, "destroy")) {
				err = ibv_destroy_qp(&qps[n]);
			} else if (!strcmp(word, "poll")) {
				device_expired = n;
				err = ibv_poll_cq(&cq, 1, &wc) != 1;
			}
		}
		printf("%d\n", err);
	}
	return ibv_close_device(context);
}
