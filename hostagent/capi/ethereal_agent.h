/*
 * The host agent as a library: it deals what a host sends over the paths of a Clos
 * fabric, and moves what is on paths that die. C99.
 *
 * A plug-in connects queue pairs beforehand and lends them (ethereal_add). Messages
 * that belong together, such as a step of a collective, are posted together
 * (ethereal_post). The pieces to send come from ethereal_pieces, each with a queue
 * pair that has been labelled by set_label; the plug-in posts them and says what
 * became of them (ethereal_acked, ethereal_done, ethereal_timeout). Word of dead
 * paths comes from controllers, time-outs and source quenches; pieces that were
 * moved come from ethereal_moves, and their queue pairs have their new labels then.
 *
 * All functions but ethereal_close may be called by several threads at once; with an
 * agent that is or is being closed nothing may be called. Those that return int
 * return 0, or -1, and then ethereal_error has the reason: the agent's latest
 * failure, which may be another thread's. set_label is called with a lock held, by
 * any thread: it must not call the library.
 */
#ifndef ETHEREAL_AGENT_H
#define ETHEREAL_AGENT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An agent; 0 is none. */
typedef uintptr_t ethereal_agent;

/* An IPv6 address in network order; an IPv4 address is ::ffff:a.b.c.d, as in a GID. */
typedef struct { uint8_t addr[16]; } ethereal_address;

/* A queue pair by what its packets say: where they go, and its number there. */
typedef struct {
	ethereal_address dst;
	uint32_t num; /* 24 bits */
} ethereal_qp;

typedef struct {
	const char *fabric;      /* file, as `ethereal topo` prints it */
	uint32_t host;           /* this host's rank in it */
	uint64_t seed;           /* of random choices */
	const char *controllers; /* HOST:PORT or unix:PATH, separated by commas; NULL: none */
	const char *tls_ca, *tls_cert, *tls_key; /* PEM files for controllers; tls_ca NULL: no TLS, and none of the others */
	const char *tls_server_name;             /* NULL: the address */
	/* Labels a queue pair from its next packet on; returns 0 or an errno. An RNIC's:
	 * mlx5dv_modify_qp_udp_sport(qp, ethereal_source_port(label)). NULL: the caller
	 * labels what it sends a piece on, and no queue pairs are lent. */
	int (*set_label)(void *arg, const ethereal_qp *qp, uint16_t label);
	void *arg;
} ethereal_config;

typedef struct {
	uint64_t id; /* the caller's; comes back in pieces */
	ethereal_address dst;
	int64_t bytes; /* at least 1 */
} ethereal_message;

typedef struct {
	uint64_t key;           /* names the piece in the calls below */
	uint64_t message;       /* its id */
	int64_t offset, bytes;  /* in the message */
	ethereal_qp qp;         /* to send it on; num is 0 without set_label */
	uint16_t label;         /* of no meaning unless labelled */
	uint8_t labelled;       /* 0: the destination is under the own ToR */
} ethereal_piece;

typedef struct {
	uint64_t key;
	ethereal_qp qp;
	uint16_t from, to; /* labels */
} ethereal_move;

#ifndef ETHEREAL_AGENT_TYPES /* defined where the library itself is built */

/* Starts an agent. On failure *agent is 0, and up to size bytes of the reason are
 * in error, which may be NULL. */
int ethereal_open(const ethereal_config *config, ethereal_agent *agent, char *error, size_t size);
void ethereal_close(ethereal_agent agent);

/* Writes the reason of the calling agent's last failure, and its terminating 0. */
void ethereal_error(ethereal_agent agent, char *error, size_t size);

int ethereal_add(ethereal_agent agent, const ethereal_qp *qps, size_t n);
int ethereal_withdraw(ethereal_agent agent, const ethereal_qp *qps, size_t n);
int ethereal_post(ethereal_agent agent, const ethereal_message *batch, size_t n);

/* Take what has become due, at most n; the rest comes with the next call. They
 * return how many. */
size_t ethereal_pieces(ethereal_agent agent, ethereal_piece *pieces, size_t n);
size_t ethereal_moves(ethereal_agent agent, ethereal_move *moves, size_t n);

/* Pieces that wait for an idle queue pair. */
size_t ethereal_waiting(ethereal_agent agent);

int ethereal_acked(ethereal_agent agent, uint64_t key, int64_t bytes);
int ethereal_done(ethereal_agent agent, uint64_t key);
int ethereal_timeout(ethereal_agent agent, uint64_t key);

/* A datagram to UDP port 47910: its payload, and where it came from. */
int ethereal_quench(ethereal_agent agent, const void *payload, size_t n, const ethereal_address *src);

/* What carries a label: the UDP source port, and the flow label that a queue pair
 * must get at RTR so that drivers make that port of it. */
uint16_t ethereal_source_port(uint16_t label);
uint32_t ethereal_flow_label(uint16_t label);

#endif
#ifdef __cplusplus
}
#endif
#endif
