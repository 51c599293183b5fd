/* A plug-in's side of one step: a message over the four paths to another pod, and a
 * time-out on the way. Prints what it would do. */
#include <stdio.h>
#include <string.h>

#include "ethereal_agent.h"

static int labels_set;

static int set_label(void *arg, const ethereal_qp *qp, uint16_t label)
{
	(void)qp;
	(void)label;
	labels_set++;
	return *(int *)arg; /* 0, or what the device says */
}

int main(int argc, char **argv)
{
	char error[200];
	int device = 0;
	ethereal_config config;
	ethereal_agent agent;
	ethereal_message message;
	ethereal_piece pieces[16];
	ethereal_move moves[16];
	size_t n, i;
	int64_t bytes = 0;

	memset(&config, 0, sizeof(config));
	config.fabric = argv[1];
	config.controllers = argc > 2 ? argv[2] : NULL;
	config.set_label = set_label;
	config.arg = &device;
	if (ethereal_open(&config, &agent, error, sizeof(error))) {
		printf("open: %s\n", error);
		return 1;
	}
	memset(&message, 0, sizeof(message));
	message.id = 7;
	message.bytes = 1 << 20;
	memcpy(message.dst.addr, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x03\x01\x03", 16); /* 10.3.1.3 */
	for (i = 0; i < 4; i++) {
		ethereal_qp qp = {message.dst, 0x100 + (uint32_t)i};
		if (ethereal_add(agent, &qp, 1))
			goto failed;
	}
	device = 5; /* EIO: nothing goes out by a wrong path */
	if (!ethereal_post(agent, &message, 1) || ethereal_pieces(agent, pieces, 16) != 0)
		return 2;
	device = 0;
	if (ethereal_acked(agent, 0, 1)) /* any call tries again */
		goto failed;
	n = ethereal_pieces(agent, pieces, 2); /* a few at a time */
	n += ethereal_pieces(agent, pieces + n, 16 - n);
	for (i = 0; i < n; i++) {
		bytes += pieces[i].bytes;
		printf("message %d: %lld bytes at %lld on %#x, label %u, port %#x, flow label %#x\n", (int)pieces[i].message,
		       (long long)pieces[i].bytes, (long long)pieces[i].offset, pieces[i].qp.num, pieces[i].label,
		       ethereal_source_port(pieces[i].label), ethereal_flow_label(pieces[i].label));
	}
	if (ethereal_timeout(agent, pieces[1].key))
		goto failed;
	n = ethereal_moves(agent, moves, 16);
	for (i = 0; i < n; i++)
		printf("%#x moved: %s\n", moves[i].qp.num, moves[i].from == pieces[1].label && moves[i].to != moves[i].from ? "away" : "?");
	for (i = 0; i < 4; i++)
		if (ethereal_done(agent, pieces[i].key))
			goto failed;
	message.dst.addr[15] = 99;
	if (!ethereal_post(agent, &message, 1))
		return 3;
	ethereal_error(agent, error, sizeof(error));
	printf("%lld bytes, %d waiting; %s\n", (long long)bytes, (int)ethereal_waiting(agent), error);
	ethereal_close(agent);
	return labels_set < 5;
failed:
	ethereal_error(agent, error, sizeof(error));
	printf("failed: %s\n", error);
	return 1;
}
