/* The device, its contexts, and calls to the NIC. */
#define _GNU_SOURCE
#include "library.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#undef ibv_get_device_list
#undef ibv_query_port

/* Providers ask whether a device is theirs by looking behind struct ibv_device: there is nothing. */
static struct {
	struct ibv_device device;
	uint8_t behind[1024];
} only = {
	.device = {
		.node_type = IBV_NODE_CA,
		.transport_type = IBV_TRANSPORT_IB,
		.name = "ethereal0",
		.dev_name = "uverbs-ethereal0",
		.dev_path = "/sys/class/infiniband_verbs/uverbs-ethereal0",
		.ibdev_path = "/sys/class/infiniband/ethereal0",
	},
};

struct ibv_device *the_device(void) { return &only.device; }

static atomic_int generation = 1;

static void forked(void) { atomic_fetch_add(&generation, 1); }

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, forked); }

int process_generation(void) { return atomic_load(&generation); }

bool in_child(const struct context *c) { return c->generation != process_generation(); }

struct context *context_of(struct ibv_context *c)
{
	return (struct context *)((uint8_t *)c - offsetof(struct context, verbs.context));
}

const char *socket_path(void)
{
	const char *path = secure_getenv("ETHEREAL_NIC"); /* of a program that runs as who started it */
	if (!path || !*path)
		return NULL;
	return strncmp(path, "unix:", 5) ? path : path + 5;
}

struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **list = calloc(2, sizeof(*list));
	if (!list)
		return NULL;
	int n = 0;
	if (socket_path())
		list[n++] = &only.device;
	if (num)
		*num = n;
	return list;
}

void ibv_free_device_list(struct ibv_device **list) { free(list); }

const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

int ibv_get_device_index(struct ibv_device *d)
{
	(void)d;
	return -1; /* the kernel has none */
}

int transact(int socket, const struct nic_call *in, int send_fd, struct nic_answer *out, int *fds, int nfds)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec io = { (void *)in, sizeof(*in) };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1 };

	if (send_fd >= 0) {
		memset(&control, 0, sizeof(control));
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &send_fd, sizeof(int));
	}
	ssize_t n;
	do
		n = sendmsg(socket, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(*in))
		return n < 0 ? errno : EIO;

	io = (struct iovec){ out, sizeof(*out) };
	m = (struct msghdr){ .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	do
		n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(*out))
		return n < 0 ? errno : ECONNRESET; /* the NIC has ended */

	int got = 0;
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS) {
		int all[4];
		got = (int)((h->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		if (got > 4)
			got = 4;
		memcpy(all, CMSG_DATA(h), (size_t)got * sizeof(int));
		for (int i = 0; i < got; i++) {
			if (i < nfds)
				fds[i] = all[i];
			else
				close(all[i]);
		}
	}
	if (out->error || got < nfds) {
		for (int i = 0; i < got && i < nfds; i++)
			close(fds[i]);
		return out->error ? out->error : EPROTO;
	}
	return 0;
}

int call(struct context *c, const struct nic_call *in, struct nic_answer *out, int *fds, int nfds)
{
	struct nic_answer unused;
	if (in_child(c))
		return errno = EPERM; /* the parent's, as with hardware */
	pthread_mutex_lock(&c->mutex);
	int err = transact(c->socket, in, -1, out ? out : &unused, fds, nfds);
	pthread_mutex_unlock(&c->mutex);
	if (err)
		errno = err;
	return err;
}

int simple(struct ibv_context *ctx, uint32_t op, uint64_t a, uint64_t b, struct nic_answer *out)
{
	struct nic_call in = { .op = op, .arg = { a, b } };
	return call(context_of(ctx), &in, out, NULL, 0);
}

void *map_file(int fd, size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	int err = errno;
	close(fd);
	errno = err;
	return p == MAP_FAILED ? NULL : p;
}

void *add_mapping(struct mapping **to, int fd, size_t size)
{
	struct mapping *m = malloc(sizeof(*m));
	void *at = map_file(fd, size);
	if (!m || !at) {
		if (at)
			munmap(at, size);
		free(m);
		return NULL;
	}
	*m = (struct mapping){ at, size, *to };
	*to = m;
	return at;
}

void end_mappings(struct mapping *m)
{
	while (m) {
		struct mapping *earlier = m->earlier;
		munmap(m->at, m->size);
		free(m);
		m = earlier;
	}
}

/* OVERFLOW_UID stands for users that this user namespace does not know, unless it has a user of this number. */
enum { OVERFLOW_UID = 65534 };

/* knows reports whether this user namespace has a user of this number. */
static bool knows(uid_t uid)
{
	FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned long first, outside, count;
	bool found = false;
	while (f && !found && fscanf(f, "%lu %lu %lu", &first, &outside, &count) == 3)
		found = uid >= first && uid - first < count;
	if (f)
		fclose(f);
	return found;
}

/*
 * trusted reports whether a connection's server may have this process's memory: root, or this process's user. Numbers
 * are as this process's user namespace has them. If it does not know the server's user, that may be any.
 */
static bool trusted(int fd, const char *path)
{
	static atomic_flag said = ATOMIC_FLAG_INIT;
	struct ucred server = { .uid = (uid_t)-1 };
	socklen_t size = sizeof(server);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &server, &size) < 0)
		return false;
	bool known = server.uid != OVERFLOW_UID || knows(server.uid);
	if (known && (server.uid == 0 || server.uid == geteuid()))
		return true;
	if (!atomic_flag_test_and_set(&said))
		fprintf(stderr,
			"libethereal-verbs: user %u%s listens at ETHEREAL_NIC=%s, neither root nor this process's user, %u. It would read "
			"and write this process's memory, so it is not used: start the device as user %u or as root, or name its socket\n",
			server.uid, known ? "" : " (one that this user namespace does not know)", path, geteuid(), geteuid());
	return false;
}

/* A NIC's process that is started again listens within this time. */
enum { NIC_START_MS = 5000, NIC_RETRY_MS = 10 };

int connect_nic(void)
{
	const char *path = socket_path();
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	if (!path || strlen(path) >= sizeof(to.sun_path)) {
		errno = path ? ENAMETOOLONG : ENODEV;
		return -1;
	}
	strcpy(to.sun_path, path);
	socklen_t size = sizeof(to);
	if (*path == '@') { /* an abstract socket */
		to.sun_path[0] = 0;
		size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	}
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	int waited = 0, err = 0;
	while (connect(fd, (struct sockaddr *)&to, size) < 0) {
		bool absent = errno == ECONNREFUSED || errno == ENOENT; /* nobody listens, maybe not yet again */
		if (!absent || waited >= NIC_START_MS) {
			err = errno;
			break;
		}
		nanosleep(&(struct timespec){ .tv_nsec = NIC_RETRY_MS * 1000000L }, NULL);
		waited += NIC_RETRY_MS;
	}
	if (!err && !trusted(fd, path))
		err = EACCES;
	if (err) {
		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

static int query_port_full(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr, size_t size);
static int query_device_full(struct ibv_context *ctx, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *attr,
			     size_t size);

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	struct context *c = calloc(1, sizeof(*c));
	if (!c)
		return NULL;
	int memory = -1, fds[3] = { -1, -1, -1 }, err;
	struct nic_call in = { .op = NIC_HELLO, .arg = { NIC_ABI } };
	struct nic_answer out;
	c->socket = connect_nic();
	if (c->socket < 0)
		goto failed;
	memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (memory < 0)
		goto failed;
	err = transact(c->socket, &in, memory, &out, fds, 3);
	if (err) {
		errno = err;
		goto failed;
	}
	close(memory);
	memory = -1;
	c->bell = map_file(fds[0], sizeof(*c->bell));
	c->kick = fds[1];
	c->verbs.context.async_fd = fds[2];
	if (!c->bell || open_events(&c->events, c->verbs.context.async_fd))
		goto failed;
	c->address = (uint32_t)out.value[0];
	c->payload = (uint32_t)out.value[1];
	c->guid = out.value[2];
	memcpy(c->limit, &out.value[NIC_FIRST_LIMIT], sizeof(c->limit));
	c->generation = atomic_load(&generation);
	pthread_mutex_init(&c->mutex, NULL);

	c->verbs.sz = sizeof(c->verbs);
	c->verbs.query_port = query_port_full;
	c->verbs.query_device_ex = query_device_full;
	c->verbs.create_qp_ex = create_qp_ex;
	c->verbs.create_srq_ex = create_srq_ex;
	c->verbs.create_cq_ex = create_cq_ex;
	struct ibv_context *ctx = &c->verbs.context;
	ctx->device = d;
	ctx->cmd_fd = c->socket;
	ctx->num_comp_vectors = 1;
	ctx->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&ctx->mutex, NULL);
	set_ops(&ctx->ops);
	return ctx;

failed:
	err = errno;
	if (memory >= 0)
		close(memory);
	if (c->socket >= 0)
		close(c->socket);
	if (c->bell)
		munmap(c->bell, sizeof(*c->bell));
	if (fds[1] >= 0) {
		close(fds[1]);
		close(fds[2]);
	}
	free(c);
	errno = err;
	return NULL;
}

struct ibv_context *ibv_import_device(int fd)
{
	(void)fd; /* a context is its own connection to the NIC, and its memory this process's */
	errno = EOPNOTSUPP;
	return NULL;
}

int ibv_close_device(struct ibv_context *ctx)
{
	struct context *c = context_of(ctx);
	munmap(c->bell, sizeof(*c->bell));
	close(c->kick);
	close_events(&c->events);
	close(ctx->async_fd);
	close(c->socket); /* the NIC ends what is left of it */
	free(c);
	return 0;
}

__be64 ibv_get_device_guid(struct ibv_device *d)
{
	(void)d;
	struct ibv_context *ctx = ibv_open_device(d);
	if (!ctx)
		return 0;
	__be64 guid = htobe64(context_of(ctx)->guid);
	ibv_close_device(ctx);
	return guid;
}

/* VENDOR is as an OUI: the first bytes of the hosts' MAC addresses, which are locally administered. */
enum { VENDOR = 0x02e700 };

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	struct context *c = context_of(ctx);
	const uint64_t *limit = c->limit;
	int reads = (int)limit[NIC_LIMIT_READS];
	*attr = (struct ibv_device_attr){
		.fw_ver = "ethereal-1",
		.node_guid = htobe64(c->guid),
		.sys_image_guid = htobe64(c->guid),
		.max_mr_size = (uint64_t)1 << 40,
		.page_size_cap = ~(uint64_t)4095,
		.vendor_id = VENDOR,
		.vendor_part_id = 1,
		.max_qp = (int)limit[NIC_LIMIT_QP],
		.max_qp_wr = (int)limit[NIC_LIMIT_WR],
		.device_cap_flags = IBV_DEVICE_CHANGE_PHY_PORT | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE |
				    IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
		.max_sge = (int)limit[NIC_LIMIT_SGE],
		.max_sge_rd = (int)limit[NIC_LIMIT_SGE],
		.max_cq = (int)limit[NIC_LIMIT_CQ],
		.max_cqe = (int)limit[NIC_LIMIT_CQE],
		.max_mr = (int)limit[NIC_LIMIT_MR],
		.max_pd = (int)limit[NIC_LIMIT_PD],
		.max_mw = (int)limit[NIC_LIMIT_MW],
		.max_qp_rd_atom = reads,
		.max_res_rd_atom = reads * (int)limit[NIC_LIMIT_QP],
		.max_qp_init_rd_atom = reads,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_ah = MAX_AH,
		.max_srq = (int)limit[NIC_LIMIT_SRQ],
		.max_srq_wr = (int)limit[NIC_LIMIT_WR],
		.max_srq_sge = (int)limit[NIC_LIMIT_SGE],
		.max_pkeys = 1,
		.local_ca_ack_delay = 15,
		.phys_port_cnt = 1,
	};
	return 0;
}

static int query_device_full(struct ibv_context *ctx, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *attr,
			     size_t size)
{
	(void)in;
	if (size < sizeof(attr->orig_attr))
		return EINVAL;
	memset(attr, 0, size);
	struct ibv_device_attr_ex all = { .phys_port_cnt_ex = 1 };
	int err = ibv_query_device(ctx, &all.orig_attr);
	if (!err)
		memcpy(attr, &all, size < sizeof(all) ? size : sizeof(all));
	return err;
}

static int query_port_full(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	struct context *c = context_of(ctx);
	struct nic_call in = { .op = NIC_QUERY_PORT };
	struct nic_answer out;
	if (port != 1)
		return EINVAL;
	int err = call(c, &in, &out, NULL, 0);
	if (err)
		return err;
	enum ibv_mtu mtu = IBV_MTU_256;
	while (mtu < IBV_MTU_4096 && (128u << (mtu + 1)) <= c->payload)
		mtu++;
	struct ibv_port_attr a = {
		.state = out.value[0] ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = mtu,
		.gid_tbl_len = GIDS,
		.port_cap_flags = 0x04010000, /* connection management, IP-based GIDs */
		.max_msg_sz = 1u << 30,
		.pkey_tbl_len = 1,
		.max_vl_num = 1,
		.active_width = 1,
		.active_speed = 1,
		.phys_state = out.value[0] ? 5 : 3,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.flags = IBV_QPF_GRH_REQUIRED,
	};
	memset(attr, 0, size);
	memcpy(attr, &a, size < sizeof(a) ? size : sizeof(a));
	return 0;
}

int ibv_query_port(struct ibv_context *ctx, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return query_port_full(ctx, port, (struct ibv_port_attr *)attr, offsetof(struct ibv_port_attr, port_cap_flags2));
}

int ibv_query_pkey(struct ibv_context *ctx, uint8_t port, int index, __be16 *pkey)
{
	(void)ctx;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(0xffff);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *ctx, uint8_t port, __be16 pkey)
{
	(void)ctx;
	return port == 1 && (be16toh(pkey) & 0x7fff) == 0x7fff ? 0 : -1;
}

/* Registered memory is found by its address in this process, whichever page that is: a fork needs no care. */
int ibv_fork_init(void) { return 0; }
enum ibv_fork_status ibv_is_fork_initialized(void) { return IBV_FORK_UNNEEDED; }

/* UCX leaves devices out that have no node in /dev/infiniband. It asks by a function of its own, which this stands before. */
int uct_ib_device_is_accessible(struct ibv_device *d)
{
	(void)d; /* there are none but ours */
	return 1;
}
