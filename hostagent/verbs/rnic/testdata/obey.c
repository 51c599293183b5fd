/*
 * Reads lines as an agent writes them, and answers each with what the library understands: "DST QP LABEL," for each
 * label that it would set, then the library's answer, or "bad" for a line that is none of an agent's.
 */
#include "../agent.c"

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct pair asked;

struct pair *find(const char *dst, uint32_t num)
{
	snprintf(asked.dst, sizeof(asked.dst), "%s", dst);
	asked.num = num;
	return &asked;
}

int relabel(struct pair *p, int label)
{
	printf("%s %u %d,", p->dst, p->num, label);
	return 0;
}

void each(void (*f)(struct pair *)) { (void)f; }

int main(void)
{
	char *line = NULL, answer[64];
	size_t room = 0;
	ssize_t n;
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
		return 1;
	stream = ends[0]; /* answers are said there */
	while ((n = getline(&line, &room, stdin)) > 0) {
		line[n - 1] = 0;
		if (obey(line) && (n = recv(ends[1], answer, sizeof(answer) - 1, 0)) > 0)
			printf("%.*s", (int)n, answer);
		else
			puts("bad");
		fflush(stdout);
	}
	free(line);
	return 0;
}
