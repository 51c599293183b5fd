// The parser's states, from Ethernet to BTH, for a parser whose packet is
// `packet` and whose headers are `hdr`. Its start state goes to parse_ethernet.
// Fragments and IPv4 options end the parsing: such packets are routed, unlabelled.
#ifndef ETHEREAL_PARSER_P4
#define ETHEREAL_PARSER_P4

// What an architecture does with the IPv4 header in the parser, if anything.
#ifndef ETHEREAL_IPV4_EXTRACTED
#define ETHEREAL_IPV4_EXTRACTED
#endif

// What is within an outer IPv6 header, where a program knows micro segments: it
// defines ETHEREAL_MICRO_SEGMENTS.
#ifdef ETHEREAL_MICRO_SEGMENTS
#define ETHEREAL_INNER_SELECT                                   \
            PROTOCOL_IPV4: parse_inner_ipv4;                    \
            PROTOCOL_IPV6: parse_inner_ipv6;
#define ETHEREAL_INNER_STATES                                   \
    state parse_inner_ipv4 {                                    \
        packet.extract(hdr.inner_ipv4);                         \
        transition select(hdr.inner_ipv4.ihl, hdr.inner_ipv4.fragment, hdr.inner_ipv4.protocol) { \
            (5, 0, PROTOCOL_UDP): parse_udp;                    \
            default: accept;                                    \
        }                                                       \
    }                                                           \
    state parse_inner_ipv6 {                                    \
        packet.extract(hdr.inner_ipv6);                         \
        transition select(hdr.inner_ipv6.next_header) {         \
            PROTOCOL_UDP: parse_udp;                            \
            default: accept;                                    \
        }                                                       \
    }
#else
#define ETHEREAL_INNER_SELECT
#define ETHEREAL_INNER_STATES
#endif

#ifdef ETHEREAL_CSIG
#define ETHEREAL_CSIG_SELECT                                    \
            ETHERTYPE_CSIG: parse_csig;
#define ETHEREAL_CSIG_STATES                                    \
    state parse_csig {                                          \
        packet.extract(hdr.csig);                               \
        transition select(hdr.csig.type) {                      \
            ETHERTYPE_IPV4: parse_ipv4;                         \
            ETHERTYPE_IPV6: parse_ipv6;                         \
            default: accept;                                    \
        }                                                       \
    }
#else
#define ETHEREAL_CSIG_SELECT
#define ETHEREAL_CSIG_STATES
#endif

#define ETHEREAL_PARSER_STATES                                  \
    state parse_ethernet {                                      \
        packet.extract(hdr.ethernet);                           \
        transition select(hdr.ethernet.type) {                  \
            ETHERTYPE_IPV4: parse_ipv4;                         \
            ETHERTYPE_IPV6: parse_ipv6;                         \
            ETHERTYPE_VLAN: parse_vlan;                         \
            ETHERTYPE_PORT_EVENT: parse_port_event;             \
            ETHEREAL_CSIG_SELECT                                \
            default: accept;                                    \
        }                                                       \
    }                                                           \
    state parse_vlan {                                          \
        packet.extract(hdr.vlan);                               \
        transition select(hdr.vlan.type) {                      \
            ETHERTYPE_IPV4: parse_ipv4;                         \
            ETHERTYPE_IPV6: parse_ipv6;                         \
            default: accept;                                    \
        }                                                       \
    }                                                           \
    state parse_port_event {                                    \
        packet.extract(hdr.port_event);                         \
        transition accept;                                      \
    }                                                           \
    state parse_ipv4 {                                          \
        packet.extract(hdr.ipv4);                               \
        ETHEREAL_IPV4_EXTRACTED                                 \
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment, hdr.ipv4.protocol) { \
            (5, 0, PROTOCOL_UDP): parse_udp;                    \
            default: accept;                                    \
        }                                                       \
    }                                                           \
    state parse_ipv6 {                                          \
        packet.extract(hdr.ipv6);                               \
        transition select(hdr.ipv6.next_header) {               \
            PROTOCOL_UDP: parse_udp;                            \
            ETHEREAL_INNER_SELECT                               \
            default: accept;                                    \
        }                                                       \
    }                                                           \
    ETHEREAL_INNER_STATES                                       \
    ETHEREAL_CSIG_STATES                                        \
    state parse_udp {                                           \
        packet.extract(hdr.udp);                                \
        transition select(hdr.udp.dst) {                        \
            UDP_ROCEV2: parse_bth;                              \
            default: accept;                                    \
        }                                                       \
    }                                                           \
    state parse_bth {                                           \
        packet.extract(hdr.bth);                                \
        transition accept;                                      \
    }

#endif
