/*
 * The kernel's /dev/infiniband/rdma_cm, by which librdmacm connects queue pairs. Debian's librdmacm, with its rsockets, runs
 * on it unchanged: this file stands before the calls of the C library that it uses the device by. The NIC carries the commands
 * out (roce/device/cm); here they are only passed on.
 *
 * The descriptor that a program gets for the device is a socket to the NIC with one byte for each event that waits, so that
 * poll, blocking and O_NONBLOCK are the kernel's. The NIC sees when its last copy is closed.
 */
#undef _FORTIFY_SOURCE /* its open and write are inline functions */
#define _GNU_SOURCE
#include "library.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_user_cm.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEVICE "/dev/infiniband/rdma_cm"

/* A descriptor of the device. Programs close them unseen, and the number may be another file's later: the inode tells. */
struct channel {
	uint32_t number; /* the NIC's; 0: none */
	int generation;
	dev_t dev;
	ino_t inode;
};

enum { PER_PART = 1024, PARTS = 1024 };
static struct channel *_Atomic parts[PARTS]; /* by descriptor. Parts are never freed. */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* one command at a time */
static struct {
	int socket;
	int generation; /* 0: not connected */
} nic;

static int (*next_open)(const char *, int, ...);
static int (*next_open64)(const char *, int, ...);
static ssize_t (*next_write)(int, const void *, size_t);
static int (*next_fstat)(int, struct stat *);
static int (*next_fstat64)(int, struct stat64 *);

/* find_next finds the C library's functions before a signal handler can need one. */
__attribute__((constructor)) static void find_next(void)
{
	if (next_fstat64)
		return;
	next_open = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	next_open64 = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open64");
	next_write = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
	next_fstat = (int (*)(int, struct stat *))dlsym(RTLD_NEXT, "fstat");
	next_fstat64 = (int (*)(int, struct stat64 *))dlsym(RTLD_NEXT, "fstat64");
}

/* place_of returns where a descriptor's channel is kept, NULL if no channel was ever near it. */
static struct channel *place_of(int fd)
{
	if (fd < 0 || fd >= PER_PART * PARTS)
		return NULL;
	struct channel *part = atomic_load_explicit(&parts[fd / PER_PART], memory_order_acquire);
	return part ? &part[fd % PER_PART] : NULL;
}

/* find copies the channel of a descriptor. It reports whether there is one. */
static bool find(int fd, struct channel *out)
{
	struct channel *c = place_of(fd);
	if (!c || !__atomic_load_n(&c->number, __ATOMIC_ACQUIRE))
		return false;
	pthread_mutex_lock(&mutex);
	*out = *c;
	pthread_mutex_unlock(&mutex);
	struct stat st;
	int err = errno;
	bool is = out->number && !next_fstat(fd, &st) && st.st_dev == out->dev && st.st_ino == out->inode;
	errno = err;
	return is;
}

static int keep(int fd, uint32_t number)
{
	struct stat st;
	if (fd >= PER_PART * PARTS)
		return EMFILE;
	if (next_fstat(fd, &st))
		return errno;
	struct channel *part = atomic_load(&parts[fd / PER_PART]);
	if (!part) {
		part = calloc(PER_PART, sizeof(*part));
		if (!part)
			return ENOMEM;
		atomic_store_explicit(&parts[fd / PER_PART], part, memory_order_release);
	}
	struct channel *c = &part[fd % PER_PART];
	c->generation = nic.generation;
	c->dev = st.st_dev;
	c->inode = st.st_ino;
	__atomic_store_n(&c->number, number, __ATOMIC_RELEASE);
	return 0;
}

/* transact_cm sends a command and awaits the answer. It returns an errno. The caller holds mutex. */
static int transact_cm(uint32_t channel, const void *command, size_t n, struct nic_cm_answer *out, size_t *size, int *fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct nic_cm_call in = { .channel = channel };
	if (n > sizeof(in.command))
		return EINVAL;
	if (n)
		memcpy(in.command, command, n);
	n += offsetof(struct nic_cm_call, command);
	ssize_t k;
	do
		k = send(nic.socket, &in, n, MSG_NOSIGNAL);
	while (k < 0 && errno == EINTR);
	if (k != (ssize_t)n)
		return k < 0 ? errno : EIO;
	struct iovec io = { out, sizeof(*out) };
	struct msghdr m = { .msg_iov = &io, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control) };
	do
		k = recvmsg(nic.socket, &m, MSG_CMSG_CLOEXEC);
	while (k < 0 && errno == EINTR);
	if (k < (ssize_t)offsetof(struct nic_cm_answer, response))
		return k < 0 ? errno : ECONNRESET; /* the NIC has ended */
	*size = (size_t)k - offsetof(struct nic_cm_answer, response);
	struct cmsghdr *h = CMSG_FIRSTHDR(&m);
	if (h && h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS && h->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(h), sizeof(int));
	return out->error;
}

/* join connects to the NIC's connection manager. A fork's child has another connection. The caller holds mutex. */
static int join(void)
{
	int now = process_generation();
	if (nic.generation == now)
		return 0;
	int s = connect_nic();
	if (s < 0)
		return errno;
	struct nic_call in = { .op = NIC_CM, .arg = { NIC_ABI } };
	struct nic_answer out;
	int err = transact(s, &in, -1, &out, NULL, 0);
	if (err) {
		close(s);
		return err;
	}
	if (nic.generation)
		close(nic.socket); /* the parent's */
	nic.socket = s;
	nic.generation = now;
	return 0;
}

static int open_device(int flags)
{
	struct nic_cm_answer out;
	size_t n = 0;
	int fd = -1;
	pthread_mutex_lock(&mutex);
	int err = join();
	if (!err)
		err = transact_cm(0, NULL, 0, &out, &n, &fd);
	if (!err && (fd < 0 || n != sizeof(uint32_t)))
		err = EPROTO;
	uint32_t number;
	if (!err) {
		memcpy(&number, out.response, sizeof(number));
		err = keep(fd, number);
	}
	pthread_mutex_unlock(&mutex);
	if (!err && ((!(flags & O_CLOEXEC) && fcntl(fd, F_SETFD, 0)) || ((flags & O_NONBLOCK) && fcntl(fd, F_SETFL, O_NONBLOCK))))
		err = errno;
	if (!err)
		return fd;
	if (fd >= 0)
		close(fd);
	errno = err;
	return -1;
}

/* drain takes bytes of events that wait no more. */
static void drain(int fd, uint32_t n)
{
	char b[64];
	while (n > 0) {
		ssize_t k = recv(fd, b, n < sizeof(b) ? n : sizeof(b), MSG_DONTWAIT);
		if (k <= 0)
			return; /* another thread has the byte, and finds that there is no event */
		n -= (uint32_t)k;
	}
}

/* response_of returns where the answer to a command is to be written, NULL if nowhere. */
static void *response_of(const uint8_t *command, size_t n, uint32_t cmd)
{
	uint64_t at = sizeof(struct rdma_ucm_cmd_hdr), to;
	if (cmd == RDMA_USER_CM_CMD_CREATE_ID)
		at += offsetof(struct rdma_ucm_create_id, response);
	if (at + sizeof(to) > n)
		return NULL;
	memcpy(&to, command + at, sizeof(to));
	return (void *)(uintptr_t)to;
}

/* with_option puts the value of an option, which is in the program's memory, behind the command. */
static size_t with_option(uint8_t *command, size_t n)
{
	struct rdma_ucm_set_option o;
	size_t at = sizeof(struct rdma_ucm_cmd_hdr);
	if (n != at + sizeof(o))
		return n;
	memcpy(&o, command + at, sizeof(o));
	if (o.optlen > NIC_CM_OPTION)
		return n; /* the NIC knows none of that size */
	memcpy(command + n, (void *)(uintptr_t)o.optval, o.optlen);
	return n + o.optlen;
}

static int do_command(const struct channel *c, int fd, uint8_t *command, size_t n)
{
	struct rdma_ucm_cmd_hdr head;
	struct rdma_ucm_migrate_id migrate;
	struct nic_cm_answer out = { 0 };
	size_t size = 0, sent = n;
	int unused = -1, from = fd;
	memcpy(&head, command, sizeof(head));
	if (head.cmd == RDMA_USER_CM_CMD_SET_OPTION)
		sent = with_option(command, n);
	if (head.cmd == RDMA_USER_CM_CMD_MIGRATE_ID && n == sizeof(head) + sizeof(migrate)) {
		memcpy(&migrate, command + sizeof(head), sizeof(migrate));
		from = (int)migrate.fd;
	}
	pthread_mutex_lock(&mutex);
	int err = c->generation == process_generation() && c->generation == nic.generation ?
			  transact_cm(c->number, command, sent, &out, &size, &unused) :
			  EPERM; /* the parent's, as with queue pairs */
	pthread_mutex_unlock(&mutex);
	if (unused >= 0)
		close(unused);
	drain(from, out.dropped);
	if (err)
		return err;
	void *to = response_of(command, n, head.cmd);
	if (size > head.out)
		size = head.out;
	if (size && to)
		memcpy(to, out.response, size);
	return 0;
}

/* await waits for an event. */
static int await(int fd)
{
	char b;
	ssize_t n = recv(fd, &b, 1, 0);
	if (n < 0)
		return errno;
	return n ? 0 : EIO; /* the NIC has ended */
}

static ssize_t command(const struct channel *c, int fd, const void *buf, size_t n)
{
	uint8_t copy[sizeof(((struct nic_cm_call *)0)->command) + NIC_CM_OPTION];
	struct rdma_ucm_cmd_hdr head;
	if (n < sizeof(head) || n > sizeof(copy) - NIC_CM_OPTION) {
		errno = EINVAL;
		return -1;
	}
	memcpy(copy, buf, n);
	memcpy(&head, copy, sizeof(head));
	int err;
	do {
		err = head.cmd == RDMA_USER_CM_CMD_GET_EVENT ? await(fd) : 0;
		if (err)
			break;
		err = do_command(c, fd, copy, n);
	} while (err == EAGAIN && head.cmd == RDMA_USER_CM_CMD_GET_EVENT);
	if (err) {
		errno = err;
		return -1;
	}
	return (ssize_t)n;
}

/* These are separate functions because open's declaration says that a path is never NULL. Programs pass it all the same. */
__attribute__((noipa)) static bool is_device(const char *path) { return path && !strcmp(path, DEVICE) && socket_path(); }

__attribute__((noipa)) static bool is_sysfs(const char *path)
{
	return path && !strncmp(path, SYSFS, strlen(SYSFS)) && socket_path();
}

/* The C library's functions. A mode is passed on whether or not there is one, as it is not looked at without O_CREAT. */

int open(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	unsigned mode = va_arg(args, unsigned);
	va_end(args);
	find_next();
	if (is_device(path))
		return open_device(flags);
	if (is_sysfs(path))
		return open_sysfs(path, flags & O_CLOEXEC);
	return next_open(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
	va_list args;
	va_start(args, flags);
	unsigned mode = va_arg(args, unsigned);
	va_end(args);
	find_next();
	if (is_device(path))
		return open_device(flags);
	if (is_sysfs(path))
		return open_sysfs(path, flags & O_CLOEXEC);
	return next_open64(path, flags, mode);
}

ssize_t write(int fd, const void *buf, size_t n)
{
	struct channel c;
	find_next();
	if (!find(fd, &c))
		return next_write(fd, buf, n);
	return command(&c, fd, buf, n);
}

/* librdmacm looks whether it has opened a character device, and where the kernel has one, whether that. */

int fstat(int fd, struct stat *st)
{
	struct channel c;
	struct stat real;
	find_next();
	int err = next_fstat(fd, st);
	if (!err && find(fd, &c)) {
		st->st_mode = S_IFCHR | 0666;
		st->st_rdev = stat(DEVICE, &real) ? 0 : real.st_rdev;
	}
	return err;
}

int fstat64(int fd, struct stat64 *st)
{
	struct channel c;
	struct stat64 real;
	find_next();
	int err = next_fstat64(fd, st);
	if (!err && find(fd, &c)) {
		st->st_mode = S_IFCHR | 0666;
		st->st_rdev = stat64(DEVICE, &real) ? 0 : real.st_rdev;
	}
	return err;
}
