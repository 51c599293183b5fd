// The parser's states, from Ethernet to BTH, for a parser whose packet is
// `packet` and whose headers are `hdr`. Its start state goes to parse_ethernet.
// Fragments and IPv4 options end the parsing: such packets are routed, unlabelled.
#ifndef ETHEREAL_PARSER_P4
#define ETHEREAL_PARSER_P4

// What an architecture does with the IPv4 header in the parser, if anything.
#ifndef ETHEREAL_IPV4_EXTRACTED
#define ETHEREAL_IPV4_EXTRACTED
#endif

#define ETHEREAL_PARSER_STATES                                  \
    state parse_ethernet {                                      \
        packet.extract(hdr.ethernet);                           \
        transition select(hdr.ethernet.type) {                  \
            ETHERTYPE_IPV4: parse_ipv4;                         \
            ETHERTYPE_IPV6: parse_ipv6;                         \
            ETHERTYPE_VLAN: parse_vlan;                         \
            ETHERTYPE_PORT_EVENT: parse_port_event;             \
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
            default: accept;                                    \
        }                                                       \
    }                                                           \
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
