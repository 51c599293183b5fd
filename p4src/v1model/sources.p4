// The source guard: a ToR drops what a host sends with another's source address. Receivers know a
// sender by its address, so a host with another's could break the other's connections.
#ifndef ETHEREAL_SOURCES_P4
#define ETHEREAL_SOURCES_P4

control Sources(in headers_t hdr, in standard_metadata_t standard_metadata, out bit<1> foreign) {
    bit<32>  own_v4 = 0;
    bit<128> own_v6 = 0;

    // The addresses of the host at the port. Ports to switches have no entry.
    @name(".own_addresses")
    action own_addresses(bit<32> v4, bit<64> v6_high, bit<64> v6_low) {
        own_v4 = v4;
        own_v6 = v6_high ++ v6_low;
    }
    @name(".source_guard")
    table source_guard {
        key = { standard_metadata.ingress_port: exact @name("port"); }
        actions = { own_addresses; NoAction; }
        default_action = NoAction;
        size = 512;
    }

    apply {
        foreign = 0;
        if (source_guard.apply().hit) {
            // Hosts use the unspecified address and link-local ones to find addresses and neighbours. They belong to no
            // other host. IPv6 packets from the unspecified address go to multicast groups, which lead to no host.
            if (hdr.ipv4.isValid()) {
                if (hdr.ipv4.src != own_v4 && hdr.ipv4.src != 0) { foreign = 1; }
            } else {
                if (hdr.ipv6.src != own_v6 && hdr.ipv6.src[127:118] != LINK_LOCAL &&
                    hdr.ipv6.dst[127:120] != MULTICAST_V6) {
                    foreign = 1;
                }
                // Switches and receivers remove outer headers of RoCEv2 packets only. Addresses inside other tunnels
                // do not matter here.
                if (hdr.bth.isValid()) {
                    if (hdr.inner_ipv4.isValid() && hdr.inner_ipv4.src != own_v4) { foreign = 1; }
                    if (hdr.inner_ipv6.isValid() && hdr.inner_ipv6.src != own_v6) { foreign = 1; }
                }
            }
        }
    }
}

#endif
