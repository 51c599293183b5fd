/* Protection domains, memory and addresses. */
#define _GNU_SOURCE
#include "library.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct ibv_pd *ibv_alloc_pd(struct ibv_context *ctx)
{
	struct nic_answer out;
	if (simple(ctx, NIC_ALLOC_PD, 0, 0, &out))
		return NULL;
	struct pd *pd = calloc(1, sizeof(*pd));
	if (!pd) {
		simple(ctx, NIC_DEALLOC_PD, out.value[0], 0, NULL);
		return NULL;
	}
	pd->pd.context = ctx;
	pd->pd.handle = (uint32_t)out.value[0];
	return &pd->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	if (atomic_load(&((struct pd *)pd)->ahs))
		return errno = EBUSY;
	int err = simple(pd->context, NIC_DEALLOC_PD, pd->handle, 0, NULL);
	if (!err)
		free(pd);
	return err;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access)
{
	struct nic_call in = { .op = NIC_REG_MR, .arg = { pd->handle, (uintptr_t)addr, length, access & 0xfffff, iova } };
	struct nic_answer out;
	if (call(context_of(pd->context), &in, &out, NULL, 0))
		return NULL;
	struct ibv_mr *mr = calloc(1, sizeof(*mr));
	if (!mr) {
		simple(pd->context, NIC_DEREG_MR, out.value[0], 0, NULL);
		return NULL;
	}
	uint32_t key = (uint32_t)out.value[0];
	*mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = addr, .length = length, .handle = key, .lkey = key, .rkey = key };
	return mr;
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned int)access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned int)access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	(void)pd, (void)offset, (void)length, (void)iova, (void)fd, (void)access;
	errno = EOPNOTSUPP;
	return NULL;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length, int access)
{
	const int known = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
	struct nic_call in = { .op = NIC_REREG_MR, .arg = { mr->handle, (uint64_t)(uint32_t)flags, pd ? pd->handle : 0,
							    (uintptr_t)addr, length, (uint32_t)access & 0xfffff } };
	if (!flags || (flags & ~known) || ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) && (!addr || !length)) ||
	    ((flags & IBV_REREG_MR_CHANGE_PD) && (!pd || pd->context != mr->context))) {
		errno = EINVAL;
		return IBV_REREG_MR_ERR_INPUT;
	}
	if (call(context_of(mr->context), &in, NULL, NULL, 0))
		return IBV_REREG_MR_ERR_CMD;
	if (flags & IBV_REREG_MR_CHANGE_PD)
		mr->pd = pd;
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		mr->addr = addr;
		mr->length = length;
	}
	return 0;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int err = simple(mr->context, NIC_DEREG_MR, mr->handle, 0, NULL);
	if (!err)
		free(mr);
	return err;
}

struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct nic_answer out;
	if (simple(pd->context, NIC_ALLOC_MW, pd->handle, type, &out))
		return NULL;
	struct ibv_mw *mw = calloc(1, sizeof(*mw));
	if (!mw) {
		simple(pd->context, NIC_DEALLOC_MW, out.value[0], 0, NULL);
		return NULL;
	}
	*mw = (struct ibv_mw){ pd->context, pd, (uint32_t)out.value[1], (uint32_t)out.value[0], type };
	return mw;
}

int dealloc_mw(struct ibv_mw *mw)
{
	int err = simple(mw->context, NIC_DEALLOC_MW, mw->handle, 0, NULL);
	if (!err)
		free(mw);
	return err;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	uint32_t address;
	if (address_of(pd->context, attr, &address)) {
		errno = EINVAL;
		return NULL;
	}
	struct context *c = context_of(pd->context);
	struct ah *a = calloc(1, sizeof(*a));
	if (!a)
		return NULL;
	if (atomic_fetch_add(&c->ahs, 1) >= MAX_AH) {
		atomic_fetch_sub(&c->ahs, 1);
		free(a);
		errno = ENOMEM;
		return NULL;
	}
	static atomic_uint last;
	a->handle = atomic_fetch_add(&last, 1) + 1;
	a->ah = (struct ibv_ah){ pd->context, pd, a->handle };
	a->address = address;
	atomic_fetch_add(&((struct pd *)pd)->ahs, 1);
	return &a->ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	struct ah *a = (struct ah *)ah;
	if (ah->handle != a->handle)
		return errno = ENOENT;
	atomic_fetch_sub(&context_of(ah->context)->ahs, 1);
	atomic_fetch_sub(&((struct pd *)ah->pd)->ahs, 1);
	free(a);
	return 0;
}

int ibv_init_ah_from_wc(struct ibv_context *ctx, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	(void)ctx;
	memset(attr, 0, sizeof(*attr));
	if (!(wc->wc_flags & IBV_WC_GRH))
		return -1;
	attr->port_num = port;
	attr->is_global = 1;
	attr->grh.dgid = grh->sgid;
	attr->grh.hop_limit = 64;
	return 0;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
	struct ibv_ah_attr attr;
	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *ctx, struct ibv_ah_attr *attr, uint8_t mac[6], uint16_t *vid)
{
	(void)ctx, (void)attr, (void)mac, (void)vid;
	errno = EOPNOTSUPP; /* all is sent to the host's switch */
	return -1;
}

