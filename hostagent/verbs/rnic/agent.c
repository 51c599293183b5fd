/*
 * The stream to the agent: a JSON object a line, as package hostagent/owners has it. What the agent says is read by a
 * thread of the library's, and carried out there.
 */
#define _GNU_SOURCE
#include "rnic.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef PATIENCE_MS
#define PATIENCE_MS 200 /* that a queue pair waits for its label; tests on busy machines have more */
#endif

enum {
	LINE = 1 << 20,       /* a line has so many bytes at most */
	UNREAD = 1 << 20,     /* so many wait for an agent that does not read */
	AGAIN_MS = 100,       /* between attempts to join */
	IN_VAIN = 4,          /* such waits, one after the other, until none is made */
	LABELS = 1 << 14,
};

static int stream = -1;  /* -1: not joined */
static bool following;   /* there is a thread */
static bool tried;       /* it has tried to join */
static int in_vain;      /* waits since the agent said anything */
static pthread_cond_t changed;

static const char *socket_path(void)
{
	const char *path = getenv("ETHEREAL_OWNERS");
	if (!path || !*path)
		return NULL;
	return strncmp(path, "unix:", 5) ? path : path + 5;
}

static char out[UNREAD]; /* what is said, and not sent yet: the program does not wait for an agent that does not read */
static size_t unsent;
static int unsent_event = -1; /* has the thread look at unsent */

/* hang_up ends the stream, which the thread sees. The next one begins with everything. */
static void hang_up(void)
{
	unsent = 0;
	shutdown(stream, SHUT_RDWR);
}

/* flush sends what the agent takes now. */
static void flush(void)
{
	while (unsent > 0) {
		ssize_t n = send(stream, out, unsent, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return;
		if (n <= 0) {
			hang_up();
			return;
		}
		unsent -= (size_t)n;
		memmove(out, out + n, unsent);
	}
}

/* say writes a line. What cannot be said is lost with the stream. */
static void say(const char *format, ...)
{
	char line[512];
	va_list args;
	if (stream < 0)
		return;
	va_start(args, format);
	int n = vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= sizeof(line) || unsent + (size_t)n > sizeof(out)) {
		hang_up();
		return;
	}
	bool waited = unsent > 0;
	memcpy(out + unsent, line, (size_t)n);
	unsent += (size_t)n;
	if (waited)
		return; /* the thread sends it */
	flush();
	if (unsent > 0)
		eventfd_write(unsent_event, 1);
}

void show(struct pair *p)
{
	if (p->label == NO_LABEL)
		say("{\"show\":[{\"dst\":\"%s\",\"qp\":%u}]}\n", p->dst, p->num);
	else
		say("{\"show\":[{\"dst\":\"%s\",\"qp\":%u,\"label\":%d}]}\n", p->dst, p->num, p->label);
}

void forget(struct pair *p) { say("{\"forget\":[{\"dst\":\"%s\",\"qp\":%u}]}\n", p->dst, p->num); }

void timed_out(struct pair *p) { say("{\"timeout\":[{\"dst\":\"%s\",\"qp\":%u}]}\n", p->dst, p->num); }

/* A cursor in a line: a strict reader of the little JSON that agents write. */
struct cursor {
	const char *at;
	bool bad;
};

static bool take(struct cursor *c, char want)
{
	while (*c->at == ' ' || *c->at == '\t')
		c->at++;
	if (*c->at != want)
		return false;
	c->at++;
	return true;
}

static void need(struct cursor *c, char want)
{
	if (!take(c, want))
		c->bad = true;
}

static void text(struct cursor *c, char *to, size_t room)
{
	size_t n = 0;
	need(c, '"');
	while (!c->bad && *c->at != '"') {
		if (*c->at <= ' ' || *c->at > '~' || *c->at == '\\' || n + 1 >= room) {
			c->bad = true;
			break;
		}
		to[n++] = *c->at++;
	}
	to[n] = 0;
	need(c, '"');
}

static uint64_t number(struct cursor *c)
{
	uint64_t v = 0;
	take(c, ' ');
	if (!isdigit((unsigned char)*c->at) || (*c->at == '0' && isdigit((unsigned char)c->at[1])))
		c->bad = true;
	for (; !c->bad && isdigit((unsigned char)*c->at); c->at++)
		c->bad = __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *c->at - '0', &v);
	return v;
}

/* set_one reads an object of "set" and carries it out. */
static void set_one(struct cursor *c, char *error, size_t room)
{
	char key[16], dst[INET6_ADDRSTRLEN] = "";
	uint64_t num = UINT64_MAX, label = UINT64_MAX;
	need(c, '{');
	do {
		text(c, key, sizeof(key));
		need(c, ':');
		if (c->bad)
			return;
		if (!strcmp(key, "dst") && !*dst)
			text(c, dst, sizeof(dst));
		else if (!strcmp(key, "qp") && num == UINT64_MAX)
			num = number(c);
		else if (!strcmp(key, "label") && label == UINT64_MAX)
			label = number(c);
		else
			c->bad = true;
	} while (!c->bad && take(c, ','));
	need(c, '}');
	if (c->bad || !*dst || num > UINT32_MAX || label >= LABELS) {
		c->bad = true;
		return;
	}
	struct pair *p = find(dst, (uint32_t)num);
	int err = p ? relabel(p, (int)label) : 0;
	if (err && !*error)
		snprintf(error, room, "%s queue pair %u: %s", p->dst, p->num,
			 err != EOPNOTSUPP ? strerrorname_np(err) :
			 "the device cannot change the source port of a queue pair in use");
}

/* obey carries a line out and answers it. false: it is none of an agent's. */
static bool obey(const char *line)
{
	struct cursor c = { .at = line };
	char key[16], error[256] = "";
	uint64_t seq = 0;
	bool set = false;
	need(&c, '{');
	do {
		text(&c, key, sizeof(key));
		need(&c, ':');
		if (c.bad)
			return false;
		if (!strcmp(key, "seq") && !seq) {
			seq = number(&c);
		} else if (!strcmp(key, "set") && !set) {
			set = true;
			need(&c, '[');
			do
				set_one(&c, error, sizeof(error));
			while (!c.bad && take(&c, ','));
			need(&c, ']');
		} else {
			c.bad = true;
		}
	} while (!c.bad && take(&c, ','));
	need(&c, '}');
	if (c.bad || !set || !seq || *c.at)
		return false;
	in_vain = 0;
	pthread_cond_broadcast(&changed);
	if (*error)
		say("{\"seq\":%llu,\"error\":\"%s\"}\n", (unsigned long long)seq, error);
	else
		say("{\"seq\":%llu}\n", (unsigned long long)seq);
	return true;
}

static struct sockaddr_un agent = { .sun_family = AF_UNIX };

static int join(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&agent, sizeof(agent))) {
		close(fd);
		return -1;
	}
	return fd;
}

/* listen_to obeys the agent until its stream ends. */
static void listen_to(int fd, char *line)
{
	size_t have = 0;
	for (;;) {
		struct pollfd ready[] = { { .fd = fd, .events = POLLIN }, { .fd = unsent_event, .events = POLLIN } };
		pthread_mutex_lock(&lock);
		if (unsent > 0)
			ready[0].events |= POLLOUT;
		pthread_mutex_unlock(&lock);
		if (poll(ready, 2, -1) < 0 && errno != EINTR)
			return;
		if (ready[1].revents)
			eventfd_read(unsent_event, &(eventfd_t){ 0 });
		if (ready[0].revents & POLLOUT) {
			pthread_mutex_lock(&lock);
			flush();
			pthread_mutex_unlock(&lock);
		}
		if (!(ready[0].revents & ~POLLOUT))
			continue;
		ssize_t n = recv(fd, line + have, LINE - have, MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			continue;
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return;
		have += (size_t)n;
		char *begin = line, *end;
		while ((end = memchr(begin, '\n', have - (size_t)(begin - line)))) {
			*end = 0;
			pthread_mutex_lock(&lock);
			bool ok = !memchr(begin, 0, (size_t)(end - begin)) && obey(begin);
			pthread_mutex_unlock(&lock);
			if (!ok) {
				static bool said;
				if (!said)
					fprintf(stderr, "libethereal-rnic: what serves ETHEREAL_OWNERS is no agent\n");
				said = true;
				return;
			}
			begin = end + 1;
		}
		have -= (size_t)(begin - line);
		memmove(line, begin, have);
		if (have == LINE)
			return;
	}
}

static void *follow(void *unused)
{
	static char line[LINE]; /* of the one thread that there is */
	for (;;) {
		int fd = join();
		pthread_mutex_lock(&lock);
		stream = fd;
		unsent = 0;
		tried = true;
		if (fd >= 0)
			each(show);
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
		if (fd >= 0) {
			listen_to(fd, line);
			pthread_mutex_lock(&lock);
			stream = -1;
			pthread_cond_broadcast(&changed);
			pthread_mutex_unlock(&lock);
			close(fd);
		}
		nanosleep(&(struct timespec){ .tv_nsec = AGAIN_MS * 1000000L }, NULL);
	}
	return unused;
}

bool follow_agent(void)
{
	const char *path = socket_path();
	if (following || !path)
		return following;
	if (strlen(path) >= sizeof(agent.sun_path)) {
		fprintf(stderr, "libethereal-rnic: ETHEREAL_OWNERS: a socket's path has %zu bytes at most\n",
			sizeof(agent.sun_path) - 1);
		return false;
	}
	strcpy(agent.sun_path, path);
	unsent_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (unsent_event < 0)
		return false;
	pthread_t thread;
	pthread_attr_t detached;
	pthread_condattr_t monotonic;
	sigset_t all, before;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the program's threads' */
	pthread_attr_init(&detached);
	pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
	following = !pthread_create(&thread, &detached, follow, NULL);
	pthread_attr_destroy(&detached);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return following;
}

void await_label(struct pair *p)
{
	struct timespec end;
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += PATIENCE_MS % 1000 * 1000000L;
	end.tv_sec += PATIENCE_MS / 1000 + end.tv_nsec / 1000000000L;
	end.tv_nsec %= 1000000000L;
	while (p->want == NO_LABEL && in_vain < IN_VAIN && (stream >= 0 || !tried)) {
		if (pthread_cond_timedwait(&changed, &lock, &end) == ETIMEDOUT) {
			in_vain++;
			return;
		}
	}
}

void reset_agent(void)
{
	if (stream >= 0)
		close(stream);
	if (unsent_event >= 0)
		close(unsent_event);
	stream = unsent_event = -1;
	following = tried = false;
	unsent = 0;
	in_vain = 0;
}
