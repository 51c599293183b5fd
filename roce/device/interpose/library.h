/* The library's own structures: verbs' objects, and what it keeps beside them. */
#ifndef ETHEREAL_LIBRARY_H
#define ETHEREAL_LIBRARY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include <infiniband/verbs.h>

#include "nic.h"

#pragma GCC visibility push(hidden)

/* MAX_AH is how many address handles a program may have. The NIC does not know them. */
enum { MAX_AH = 65536 };

/* GIDS is how many the port has. */
enum { GIDS = 4 };

/* SYSFS is where the kernel would have the device's files. */
#define SYSFS "/sys/class/infiniband/ethereal0/"

/* events is a pipe of events, of which each begins with its object's address. */
struct events {
	int fd;			/* never blocks */
	pthread_mutex_t mutex;	/* of who reads it */
};

struct context {
	int socket;
	int kick;
	int generation; /* of the process that opened it: a fork's child has another */
	struct events events; /* struct nic_async */
	struct nic_bell *bell;
	pthread_mutex_t mutex; /* one call at a time */
	uint32_t address;      /* IPv4, first byte highest */
	uint32_t payload;
	uint64_t guid;
	uint64_t limit[NIC_LIMITS]; /* by enum nic_limit */
	atomic_uint ahs;	    /* address handles there are */
	struct verbs_context verbs; /* last: it ends with struct ibv_context */
};

struct queue {
	struct nic_ring *ring;
	uint8_t *entries;
	uint32_t count; /* a power of two */
	uint32_t stride;
	uint32_t sges;
	pthread_mutex_t mutex;
};

/* mapping is a ring file of a queue that can be resized. Earlier ones stay until the queue ends: others may look at them. */
struct mapping {
	void *at;
	size_t size;
	struct mapping *earlier;
};

struct pd {
	struct ibv_pd pd; /* first */
	atomic_uint ahs;  /* address handles of it */
};

struct comp_channel {
	struct ibv_comp_channel channel; /* first */
	struct events events;		 /* addresses of struct cq */
	uint32_t handle;
};

struct cq {
	union { /* first */
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	struct queue q;
	struct mapping *map;
	uint32_t handle; /* as the NIC gave it; the program can write to that in cq */
	uint32_t events_read, async_read;

	/* Between ibv_start_poll and ibv_end_poll. */
	const struct nic_cqe *at;
	uint32_t tail;
};

struct srq {
	struct ibv_srq srq; /* first */
	struct queue q;
	struct mapping *map;
	uint32_t async_read;
};

struct ah {
	struct ibv_ah ah; /* first */
	uint32_t address;
	uint32_t handle; /* as in ah, unless the program has written there */
};

struct qp {
	union { /* first */
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
	};
	struct queue sq, rq;
	void *map;
	size_t mapped;
	uint32_t inline_bytes;
	uint32_t async_read;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr; /* as last modified */

	/* Between ibv_wr_start and ibv_wr_complete. */
	uint32_t building; /* the next index */
	struct nic_send *last;
	int failed;
};

/* socket_path returns where the host's NIC serves, NULL if the program is in no host. */
const char *socket_path(void);

/* connect_nic connects to the host's NIC, and waits while its process is started again. It returns a socket, or -1. */
int connect_nic(void);

/* transact asks the NIC over a socket, and sends a descriptor unless it is -1. It returns an errno. */
int transact(int socket, const struct nic_call *in, int send_fd, struct nic_answer *out, int *fds, int nfds);

struct context *context_of(struct ibv_context *c);

/* open_events takes the reading end of a pipe of events. It returns 0 or -1. */
int open_events(struct events *e, int fd);
void close_events(struct events *e);

/* drop_events removes events of size bytes each whose object has ended; the NIC writes no more of them. */
void drop_events(struct events *e, const void *object, size_t size);

/* await_acks waits until the program has acknowledged the events of an object that it has read. */
void await_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acked, const uint32_t *read);

/* call asks the NIC. It returns an errno, and sets it. Descriptors that come back are the caller's. */
int call(struct context *c, const struct nic_call *in, struct nic_answer *out, int *fds, int nfds);

/* simple is a call with up to two arguments and no descriptor. It returns an errno. */
int simple(struct ibv_context *ctx, uint32_t op, uint64_t a, uint64_t b, struct nic_answer *out);

/* map_file maps a ring file, and closes its descriptor. */
void *map_file(int fd, size_t size);

/* add_mapping maps a ring file as the newest of a queue's; it returns where, or NULL. */
void *add_mapping(struct mapping **to, int fd, size_t size);
void end_mappings(struct mapping *m);

/* address_of finds the IPv4 address of an address vector's host. It returns an errno. */
int address_of(struct ibv_context *ctx, const struct ibv_ah_attr *ah, uint32_t *address);

/* open_sysfs opens what programs read below SYSFS. It returns -1 for a file that is not there. */
int open_sysfs(const char *path, bool close_on_exec);

struct ibv_device *the_device(void);

void set_queue(struct queue *q, void *base, uint32_t count, uint32_t stride, uint32_t sges);

/* move_queue has a queue go on in a ring of another size, into which the NIC has copied what waits. The caller holds mutex. */
void move_queue(struct queue *q, void *base, uint32_t count);

uint32_t send_stride(uint32_t sges, uint32_t inline_bytes);
uint32_t recv_stride(uint32_t sges);

void set_ops(struct ibv_context_ops *ops);

struct ibv_qp *create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *init);
struct ibv_srq *create_srq_ex(struct ibv_context *ctx, struct ibv_srq_init_attr_ex *init);
struct ibv_cq_ex *create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *init);

struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int dealloc_mw(struct ibv_mw *mw);
void set_poll(struct cq *q);

/* forget_completions removes what a queue pair has left in a completion queue. */
void forget_completions(struct ibv_cq *cq, uint32_t qp_num);
void set_wr(struct ibv_qp_ex *qp);

/* process_generation is a number that a fork's child has another of. */
int process_generation(void);

/* in_child says that this process is a child of the one that opened c. */
bool in_child(const struct context *c);

#pragma GCC visibility pop

#endif
