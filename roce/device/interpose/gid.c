/*
 * The port's GIDs, as an RNIC of RoCE has them whose interface has an IPv4 address: link-local and IPv4, each for RoCEv1 and
 * for RoCEv2. Scripts name them by index, so `-x 3` and NCCL_IB_GID_INDEX=3 are RoCEv2 over IPv4. The device sends RoCEv2
 * over IPv4 whichever a program takes.
 *
 * Programs read an index's type from sysfs, where the kernel has no such device: open (cm.c) and ibv_read_sysfs_file ask here.
 */
#define _GNU_SOURCE
#include "library.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool routable(uint32_t index) { return index & 1; } /* RoCEv2 */

static void gid_at(const struct context *c, uint32_t index, union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	if (index < 2) {
		gid->global.subnet_prefix = htobe64(0xfe80ull << 48);
		gid->global.interface_id = htobe64(c->guid);
		return;
	}
	gid->raw[10] = gid->raw[11] = 0xff;
	uint32_t net = htonl(c->address);
	memcpy(&gid->raw[12], &net, sizeof(net));
}

int ibv_query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	if (port != 1 || index < 0 || index >= GIDS) {
		errno = EINVAL;
		return -1;
	}
	gid_at(context_of(ctx), (uint32_t)index, gid);
	return 0;
}

/* interface_of writes the name of the interface with the device's address; it may have none. It returns its number, or 0. */
static unsigned interface_of(const struct context *c, char name[IF_NAMESIZE])
{
	struct ifaddrs *all = NULL;
	unsigned number = 0;
	if (getifaddrs(&all))
		return 0;
	for (struct ifaddrs *a = all; a && !number; a = a->ifa_next) {
		if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || strlen(a->ifa_name) >= IF_NAMESIZE)
			continue;
		if (ntohl(((struct sockaddr_in *)(void *)a->ifa_addr)->sin_addr.s_addr) != c->address)
			continue;
		strcpy(name, a->ifa_name);
		number = if_nametoindex(name);
	}
	freeifaddrs(all);
	return number;
}

int _ibv_query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index, struct ibv_gid_entry *entry, uint32_t flags,
		      size_t size)
{
	if (port != 1 || index >= GIDS || flags)
		return EINVAL;
	char name[IF_NAMESIZE];
	struct ibv_gid_entry e = { .gid_index = index, .port_num = 1, .ndev_ifindex = interface_of(context_of(ctx), name),
				   .gid_type = routable(index) ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1 };
	gid_at(context_of(ctx), index, &e.gid);
	memcpy(entry, &e, size < sizeof(e) ? size : sizeof(e));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *ctx, struct ibv_gid_entry *entries, size_t max, uint32_t flags, size_t size)
{
	if (max < GIDS || flags)
		return -EINVAL;
	for (uint32_t i = 0; i < GIDS; i++)
		_ibv_query_gid_ex(ctx, 1, i, (struct ibv_gid_entry *)(void *)((uint8_t *)entries + i * size), 0, size);
	return GIDS;
}

/* ibv_query_gid_type is private to libibverbs and the programs of ibverbs-utils. 0 is RoCEv1, 1 is RoCEv2. */
int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned int index, unsigned int *type)
{
	(void)ctx;
	if (port != 1 || index >= GIDS) {
		errno = EINVAL;
		return -1;
	}
	*type = routable(index);
	return 0;
}

/* address_of asks the NIC which host has a link-local GID. */
int address_of(struct ibv_context *ctx, const struct ibv_ah_attr *ah, uint32_t *address)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff }, local[8] = { 0xfe, 0x80 };
	const union ibv_gid *gid = &ah->grh.dgid;
	uint32_t net;
	if (!ah->is_global)
		return EINVAL;
	if (!memcmp(gid->raw, local, sizeof(local))) {
		struct nic_answer out;
		uint64_t id = be64toh(gid->global.interface_id);
		int err = simple(ctx, NIC_FIND_HOST, id >> 32, id & UINT32_MAX, &out);
		if (!err)
			*address = (uint32_t)out.value[0];
		return err;
	}
	if (memcmp(gid->raw, mapped, sizeof(mapped)))
		return EINVAL; /* RoCEv2 over IPv4 alone */
	memcpy(&net, &gid->raw[12], sizeof(net));
	*address = ntohl(net);
	return 0;
}

/* read_file writes what a file below the device's folder in sysfs has. It returns the length, or -1. */
static int read_file(const char *file, char *buf, size_t size)
{
	unsigned index;
	int end = 0;
	char name[IF_NAMESIZE];
	union ibv_gid g;
	if (!strcmp(file, "ports/1/link_layer"))
		return snprintf(buf, size, "Ethernet\n");
	if (sscanf(file, "ports/1/gid_attrs/types/%u%n", &index, &end) == 1 && !file[end] && index < GIDS)
		return snprintf(buf, size, "%s\n", routable(index) ? "RoCE v2" : "IB/RoCE v1");
	bool ndev = sscanf(file, "ports/1/gid_attrs/ndevs/%u%n", &index, &end) == 1 && !file[end] && index < GIDS;
	if (!ndev && (sscanf(file, "ports/1/gids/%u%n", &index, &end) != 1 || file[end] || index >= GIDS))
		return -1;
	struct ibv_context *ctx = ibv_open_device(the_device());
	if (!ctx)
		return -1;
	int n = -1;
	gid_at(context_of(ctx), index, &g);
	if (!ndev)
		n = snprintf(buf, size, "%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x:%02x%02x\n", g.raw[0], g.raw[1],
			     g.raw[2], g.raw[3], g.raw[4], g.raw[5], g.raw[6], g.raw[7], g.raw[8], g.raw[9], g.raw[10], g.raw[11],
			     g.raw[12], g.raw[13], g.raw[14], g.raw[15]);
	else if (interface_of(context_of(ctx), name))
		n = snprintf(buf, size, "%s\n", name);
	ibv_close_device(ctx);
	return n;
}

int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
	char path[256], text[64];
	size_t below = strlen(SYSFS);
	if (!socket_path() || snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path) || strncmp(path, SYSFS, below))
		return -1;
	int n = read_file(path + below, text, sizeof(text));
	if (n <= 0 || !size)
		return -1;
	n--; /* without the end of the line */
	if ((size_t)n >= size)
		n = (int)size - 1;
	memcpy(buf, text, (size_t)n);
	buf[n] = 0;
	return n;
}

int open_sysfs(const char *path, bool close_on_exec)
{
	char text[64];
	int n = read_file(path + strlen(SYSFS), text, sizeof(text));
	if (n < 0) {
		errno = ENOENT;
		return -1;
	}
	int fd = memfd_create("sysfs", close_on_exec ? MFD_CLOEXEC : 0);
	if (fd < 0)
		return -1;
	if (write(fd, text, (size_t)n) != n || lseek(fd, 0, SEEK_SET)) {
		close(fd);
		errno = EIO;
		return -1;
	}
	return fd;
}
