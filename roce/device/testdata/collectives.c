/*
 * An MPI program that checks every byte of all-to-alls and all-reduces of 1 to 32,768 elements, until there is a file, or for a
 * number of seconds. After the first rounds it makes FILE.begun.
 *
 *     mpicc -O2 -o collectives collectives.c
 *     mpirun -n 16 collectives SECONDS|FILE [BYTES]
 *
 * With BYTES each rank sends so many to each of the others in all rounds, and the goodput of all together is told.
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static uint8_t byte_of(int from, int to, int round, int i) { return (uint8_t)(from * 31 + to * 17 + round * 7 + i * 13 + (i >> 8)); }

int main(int argc, char **argv)
{
	int rank, ranks;
	long checked = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	const char *file = argc > 1 ? argv[1] : "5";
	double seconds = atof(file), start = MPI_Wtime(), worst = 0;
	double busy = 0; /* in all-to-alls */
	int round = 0, more = 1, fixed = argc > 2 ? atoi(argv[2]) : 0;
	for (; more; round++) {
		int n = fixed > 0 ? fixed : 1 << (round % 16); /* up to 32 KiB to each */
		double began = MPI_Wtime();
		uint8_t *out = malloc((size_t)n * ranks), *in = calloc((size_t)n, ranks);
		for (int to = 0; to < ranks; to++)
			for (int i = 0; i < n; i++)
				out[to * n + i] = byte_of(rank, to, round, i);
		checked += (long)n * ranks;
		MPI_Barrier(MPI_COMM_WORLD);
		double sent = MPI_Wtime();
		MPI_Alltoall(out, n, MPI_BYTE, in, n, MPI_BYTE, MPI_COMM_WORLD);
		if (round > 0) /* the first one opens connections */
			busy += MPI_Wtime() - sent;
		for (int from = 0; from < ranks; from++)
			for (int i = 0; i < n; i++)
				if (in[from * n + i] != byte_of(from, rank, round, i)) {
					fprintf(stderr, "rank %d, round %d: byte %d of %d from rank %d is wrong\n", rank, round, i, n, from);
					MPI_Abort(MPI_COMM_WORLD, 1);
				}
		n = n < 32768 ? n : 32768;
		int64_t *mine = malloc(n * sizeof(*mine)), *sum = malloc(n * sizeof(*sum));
		for (int i = 0; i < n; i++)
			mine[i] = (int64_t)rank * 1000003 + (int64_t)i * 7 + round;
		MPI_Allreduce(mine, sum, n, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
		for (int i = 0; i < n; i++)
			if (sum[i] != (int64_t)ranks * (ranks - 1) / 2 * 1000003 + ((int64_t)i * 7 + round) * ranks) {
				fprintf(stderr, "rank %d, round %d: sum %d of %d is wrong\n", rank, round, i, n);
				MPI_Abort(MPI_COMM_WORLD, 1);
			}
		checked += (long)n * 8;
		free(out), free(in), free(mine), free(sum);
		if (MPI_Wtime() - began > worst)
			worst = MPI_Wtime() - began;
		if (seconds > 0) {
			more = MPI_Wtime() - start < seconds;
		} else if (rank == 0) {
			char begun[4096];
			snprintf(begun, sizeof(begun), "%s.begun", file);
			if (round == 1)
				fclose(fopen(begun, "w"));
			more = access(file, F_OK) != 0;
		}
		MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
	}
	if (rank == 0)
		printf("%d ranks, %d rounds, %ld bytes checked at each rank, longest round %.3f s\n", ranks, round, checked, worst);
	if (rank == 0 && fixed > 0 && busy > 0)
		printf("%.2f MB/s of all ranks, %d bytes from each to each\n", (double)ranks * (ranks - 1) * fixed * (round - 1) / busy / 1e6, fixed);
	MPI_Finalize();
	return 0;
}
