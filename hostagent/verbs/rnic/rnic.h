/* The two halves of libethereal-rnic: what it does to verbs, and what it says to the host's agent. */
#ifndef ETHEREAL_RNIC_H
#define ETHEREAL_RNIC_H

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#define NO_LABEL (-1)

/* pair is a connected queue pair that the agent knows, by its destination and the other end's number. */
struct pair {
	struct pair *next;
	struct ibv_qp *qp;
	char dst[INET6_ADDRSTRLEN];
	uint32_t num;
	bool sending;   /* it is in RTS */
	bool timed_out; /* the agent has been notified */
	int label;      /* that its packets carry, as far as is known */
	int want;       /* that the agent gave it; set while it cannot be changed */
};

/* lock guards the pairs and the stream. */
extern pthread_mutex_t lock;

/* follow_agent begins to talk to the agent, if that was not done. false: there is none. With the lock held. */
bool follow_agent(void);

/* show, forget and timed_out notify the agent. With the lock held. */
void show(struct pair *p);
void forget(struct pair *p);
void timed_out(struct pair *p);

/* await_label waits, with the lock held, until the agent has given p a label, or there is no hope of one soon. */
void await_label(struct pair *p);

/* find returns the pair of a name, NULL if it is none of ours. With the lock held. */
struct pair *find(const char *dst, uint32_t num);

/* each calls f for every pair, with the lock held. */
void each(void (*f)(struct pair *));

/* relabel gives a pair a label, at once if it sends, else when it does. It returns an errno. With the lock held. */
int relabel(struct pair *p, int label);

/* reset_agent forgets the stream, in a child of fork. */
void reset_agent(void);

#endif
