// The kernel's half of the tagger: it finds RoCEv2 among what an interface is
// about to send, looks up the label of its queue pair, writes it into the UDP
// source port (or the IPv6 flow label), and corrects the ICRC and the UDP
// checksum. What it leaves alone, it counts. Labeller.Inline is the same in Go,
// and the tests compare the two.
//
// Compiled for little-endian machines by `go generate`; see object.go.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ROCE_PORT 4791
#define BTH_SIZE 12
#define ICRC_SIZE 4
#define PROTO_UDP 17
#define PROTO_FRAGMENT 44 // IPv6
#define FRAGMENT_SIZE 8
#define SOURCE_PORT_BASE 0xC000
#define FLOW_LABEL_BASE 0xFC000
#define LABELS (1 << 14)
#define PASS (-1) // TCX_NEXT, and TC_ACT_UNSPEC for a classifier: others may look

// In the order of labeller.Reason.
enum reason {
	LABELLED,
	NO_LABEL,
	FRAGMENT,
	MALFORMED,
	SEGMENTED,
	FAILED,
	NOT_ROCE,
	REASONS,
};

// A queue pair, by what its packets say. IPv4 addresses are mapped into IPv6's.
struct qp {
	__u8 dst[16];
	__u32 number; // 24 bits
};

struct label {
	__u32 label;
	__u32 used; // a packet passed since user space wrote the element
};

struct count {
	__u64 packets;
	__u64 bytes;
};

struct seen_count {
	struct count count;
	__u64 last; // ns, CLOCK_MONOTONIC
};

// What user space sets: updating an element is what flips a queue pair.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct qp);
	__type(value, struct label);
} labels SEC(".maps");

// Queue pairs whose packets passed while they had no label.
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct qp);
	__type(value, struct seen_count);
} unlabelled SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, LABELS);
	__type(key, __u32);
	__type(value, struct count);
} label_counts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, REASONS);
	__type(key, __u32);
	__type(value, struct count);
} reason_counts SEC(".maps");

// powers[n] is x^(8(n-2)) modulo the CRC's polynomial, reflected: what a change
// of the source port is multiplied with in a UDP datagram of n bytes, ICRC
// included. User space fills it in before the program is loaded.
__u32 powers[65536];

// Non-zero if IPv6 packets carry the label in the flow label.
const volatile __u8 ipv6_flow_label = 0;

// Where the headers of a packet are, and what matters in them.
struct packet {
	struct qp qp;
	__u32 ip, udp, end; // offsets in the frame
	__u32 word;         // IPv6: version, traffic class, flow label; as in the packet
	__u16 port;         // UDP source port; as in the packet
	__u16 checksum;     // of UDP; as in the packet
	__u8 ipv6;
};

// The ends of the readable part of a frame. In C the compiler would treat them
// as the 32-bit numbers they are declared as, merge loads, and lose for the
// verifier that they are pointers.
#define CONTEXT(skb, field)                                                              \
	({                                                                               \
		void *_p;                                                                \
		asm volatile("%0 = *(u32 *)(%1 + %2)"                                    \
			     : "=r"(_p)                                                  \
			     : "r"(skb), "i"(__builtin_offsetof(struct __sk_buff, field))); \
		_p;                                                                      \
	})

// reach makes the first n bytes of the frame readable through skb->data. It
// fails if the frame ends before.
static __always_inline int reach(struct __sk_buff *skb, __u32 n)
{
	if (CONTEXT(skb, data) + n <= CONTEXT(skb, data_end))
		return 1;
	if (n > skb->len)
		return 0;
	return bpf_skb_pull_data(skb, n) == 0;
}

// AT is a pointer to a header at an offset; it needs a reach before, and a
// branch for the verifier, which does not know what reach did.
#define AT(type, p, skb, offset, size, otherwise)                       \
	type *p = CONTEXT(skb, data) + (offset);                        \
	if ((void *)p + (size) > CONTEXT(skb, data_end))                \
		return otherwise

static __always_inline int parse_udp(struct __sk_buff *skb, struct packet *p)
{
	__u32 udp = p->udp;

	if (udp > 256) // never: 22 + 60 at most; the verifier wants to hear it
		return MALFORMED;
	if (!reach(skb, udp + sizeof(struct udphdr)))
		return MALFORMED;
	{
		AT(struct udphdr, h, skb, udp, sizeof(*h), MALFORMED);
		if (h->dest != bpf_htons(ROCE_PORT))
			return NOT_ROCE;
		if (bpf_ntohs(h->len) != p->end - udp)
			return MALFORMED;
		p->port = h->source;
		p->checksum = h->check;
	}
	if (p->end - udp < sizeof(struct udphdr) + BTH_SIZE + ICRC_SIZE || p->end > skb->len)
		return MALFORMED;
	if (!reach(skb, udp + sizeof(struct udphdr) + BTH_SIZE))
		return MALFORMED;
	AT(__u8, h, skb, udp, sizeof(struct udphdr) + BTH_SIZE, MALFORMED);
	p->qp.number = bpf_ntohl(*(__be32 *)(h + sizeof(struct udphdr) + 4)) & 0xffffff;
	return LABELLED;
}

// fragment tells whether the first fragment of some UDP datagram, whose UDP
// header would be at an offset, is RoCEv2.
static __always_inline int fragment(struct __sk_buff *skb, int first, __u32 udp)
{
	if (!first || udp > 256 || !reach(skb, udp + sizeof(struct udphdr)))
		return NOT_ROCE;
	AT(struct udphdr, h, skb, udp, sizeof(*h), NOT_ROCE);
	return h->dest == bpf_htons(ROCE_PORT) ? FRAGMENT : NOT_ROCE;
}

static __always_inline int parse_ipv4(struct __sk_buff *skb, struct packet *p)
{
	__u32 ip = p->ip, size, total;
	__u16 off;

	if (!reach(skb, ip + sizeof(struct iphdr)))
		return MALFORMED;
	{
		AT(struct iphdr, h, skb, ip, sizeof(*h), MALFORMED);
		size = h->ihl * 4;
		total = bpf_ntohs(h->tot_len);
		if (h->version != 4 || size < sizeof(*h) || total < size)
			return MALFORMED;
		if (h->protocol != PROTO_UDP)
			return NOT_ROCE;
		off = bpf_ntohs(h->frag_off);
		p->qp.dst[10] = p->qp.dst[11] = 0xff;
		__builtin_memcpy(p->qp.dst + 12, &h->daddr, 4);
	}
	if (off & 0x3fff)
		return fragment(skb, !(off & 0x1fff), ip + size);
	p->udp = ip + size;
	p->end = ip + total;
	return parse_udp(skb, p);
}

static __always_inline int parse_ipv6(struct __sk_buff *skb, struct packet *p)
{
	__u32 ip = p->ip, total;
	__u8 next;

	if (!reach(skb, ip + sizeof(struct ipv6hdr)))
		return MALFORMED;
	{
		AT(struct ipv6hdr, h, skb, ip, sizeof(*h), MALFORMED);
		if (h->version != 6)
			return MALFORMED;
		next = h->nexthdr;
		total = bpf_ntohs(h->payload_len);
		p->word = *(__u32 *)h;
		__builtin_memcpy(p->qp.dst, &h->daddr, 16);
	}
	if (next == PROTO_FRAGMENT) {
		__u32 at = ip + sizeof(struct ipv6hdr);

		if (!reach(skb, at + FRAGMENT_SIZE))
			return NOT_ROCE;
		AT(__u8, f, skb, at, FRAGMENT_SIZE, NOT_ROCE);
		if (f[0] != PROTO_UDP)
			return NOT_ROCE;
		return fragment(skb, !(f[2] || f[3] & 0xf8), at + FRAGMENT_SIZE);
	}
	if (next != PROTO_UDP)
		return NOT_ROCE;
	p->ipv6 = 1;
	p->udp = ip + sizeof(struct ipv6hdr);
	p->end = p->udp + total;
	return parse_udp(skb, p);
}

static __always_inline int parse(struct __sk_buff *skb, struct packet *p)
{
	__be16 kind;
	__u32 at = ETH_HLEN;

	if (!reach(skb, ETH_HLEN))
		return MALFORMED;
	{
		AT(struct ethhdr, h, skb, 0, sizeof(*h), MALFORMED);
		kind = h->h_proto;
	}
	// Tags in the frame; one that the interface will insert is not there yet.
#pragma unroll
	for (int tag = 0; tag < 3; tag++) {
		if (kind != bpf_htons(ETH_P_8021Q) && kind != bpf_htons(ETH_P_8021AD))
			break;
		if (tag == 2)
			return NOT_ROCE;
		if (!reach(skb, at + 4))
			return MALFORMED;
		AT(__u8, h, skb, at, 4, MALFORMED);
		kind = *(__be16 *)(h + 2);
		at += 4;
	}
	p->ip = at;
	if (kind == bpf_htons(ETH_P_IP))
		return parse_ipv4(skb, p);
	if (kind == bpf_htons(ETH_P_IPV6))
		return parse_ipv6(skb, p);
	return NOT_ROCE;
}

// set_source_port writes the port and corrects ICRC and UDP checksum. The CRC
// is linear: with the change of two bytes as a polynomial, and the power of x
// that their distance from the end stands for, the ICRC changes by the product.
static __always_inline int set_source_port(struct __sk_buff *skb, struct packet *p, __u16 port)
{
	__u32 icrc, was, at = p->end - ICRC_SIZE;
	// Without a UDP checksum nothing balances the change in the sum the kernel
	// may keep of the whole packet.
	__u64 flags = p->checksum ? 0 : BPF_F_RECOMPUTE_CSUM;
	__u32 a = (__u32)(p->port ^ port) << 16;
	__u32 b = powers[(__u16)(p->end - p->udp)];

	if (bpf_skb_load_bytes(skb, at, &was, sizeof(was)))
		return FAILED;
	icrc = was;
#pragma unroll
	for (int i = 0; i < 16; i++) {
		// Products, not masks: of a mask the verifier follows both values.
		icrc ^= b * (a >> 31);
		a <<= 1;
		b = b >> 1 ^ 0xedb88320 * (b & 1);
	}
	// The ICRC first: making its place writable is what can fail.
	if (bpf_skb_store_bytes(skb, at, &icrc, sizeof(icrc), flags))
		return FAILED;
	bpf_skb_store_bytes(skb, p->udp, &port, sizeof(port), flags);
	if (!p->checksum)
		return LABELLED;
	if ((at - p->udp) & 1) { // shifted by a byte against the sum's words
		was = was << 8 | was >> 24;
		icrc = icrc << 8 | icrc >> 24;
	}
	// Both know when the interface is to complete the checksum, and then leave
	// it alone. A sum of 0 becomes 0xffff.
	bpf_l4_csum_replace(skb, p->udp + 6, p->port, port, BPF_F_MARK_MANGLED_0 | sizeof(port));
	bpf_l4_csum_replace(skb, p->udp + 6, was, icrc, BPF_F_MARK_MANGLED_0 | sizeof(icrc));
	return LABELLED;
}

static __always_inline int set_flow_label(struct __sk_buff *skb, struct packet *p, __u32 label)
{
	__u32 word = (p->word & bpf_htonl(0xfff00000)) | bpf_htonl(FLOW_LABEL_BASE | label);

	if (word != p->word && bpf_skb_store_bytes(skb, p->ip, &word, sizeof(word), BPF_F_RECOMPUTE_CSUM))
		return FAILED;
	return LABELLED;
}

static __always_inline void add(void *map, __u32 key, __u32 bytes)
{
	struct count *c = bpf_map_lookup_elem(map, &key);

	if (c) {
		c->packets++;
		c->bytes += bytes;
	}
}

static __always_inline void remember(struct qp *qp, __u32 bytes)
{
	struct seen_count *s = bpf_map_lookup_elem(&unlabelled, qp);

	if (s) {
		__sync_fetch_and_add(&s->count.packets, 1);
		__sync_fetch_and_add(&s->count.bytes, bytes);
		s->last = bpf_ktime_get_ns();
	} else {
		struct seen_count first = {{1, bytes}, bpf_ktime_get_ns()};

		bpf_map_update_elem(&unlabelled, qp, &first, BPF_ANY);
	}
}

static __always_inline int rewrite(struct __sk_buff *skb, __u32 bytes)
{
	struct packet p = {};
	struct label *label;
	__u32 l;
	__u16 port;
	int r = parse(skb, &p);

	if (r != LABELLED)
		return r;
	label = bpf_map_lookup_elem(&labels, &p.qp);
	if (!label) {
		remember(&p.qp, bytes);
		return NO_LABEL;
	}
	if (skb->gso_size)
		return SEGMENTED;
	if (!label->used) // most often it is: then the cache line stays shared
		label->used = 1;
	l = label->label & (LABELS - 1);
	if (p.ipv6 && ipv6_flow_label) {
		r = set_flow_label(skb, &p, l);
	} else {
		port = bpf_htons(SOURCE_PORT_BASE | l);
		if (port != p.port)
			r = set_source_port(skb, &p, port);
	}
	if (r == LABELLED)
		add(&label_counts, l, bytes);
	return r;
}

SEC("tc")
int tag_egress(struct __sk_buff *skb)
{
	__u32 bytes = skb->len; // before anything is pulled or written

	add(&reason_counts, rewrite(skb, bytes), bytes);
	return PASS;
}
