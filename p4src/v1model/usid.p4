// SRv6 micro segments (uSID, RFC 9800): an outer IPv6 header whose destination lists
// the switches of a path, 16 bits each, behind a block of 32. A switch that is first in
// the list removes itself; route_v6 has a static route to each neighbour.
#ifndef ETHEREAL_USID_P4
#define ETHEREAL_USID_P4

control MicroSegments(inout headers_t hdr) {
    // uN, that is End with the NEXT-CSID flavour.
    @name(".shift_segments")
    action shift_segments() {
        hdr.ipv6.dst = hdr.ipv6.dst[127:96] ++ hdr.ipv6.dst[79:0] ++ 16w0;
    }
    @name(".own_segment")
    table own_segment {
        key = { hdr.ipv6.dst[127:80]: exact @name("locator"); }
        actions = { shift_segments; NoAction; }
        default_action = NoAction;
        size = 16;
    }

    apply {
        if (hdr.inner_ipv4.isValid() || hdr.inner_ipv6.isValid()) {
            own_segment.apply();
        }
    }
}

// Removes the outer header of a packet that has one. CE is copied to the inner header, as
// RFC 6040 says for ECN-capable packets.
action outer_off(inout headers_t hdr) {
    if (hdr.inner_ipv4.isValid()) {
        if (hdr.vlan.isValid()) { hdr.vlan.type = ETHERTYPE_IPV4; } else { hdr.ethernet.type = ETHERTYPE_IPV4; }
        if (hdr.ipv6.ecn == ECN_CE) {
            bit<16> grown = (bit<16>)(ECN_CE - hdr.inner_ipv4.ecn);
            bit<17> sum = (bit<17>)hdr.inner_ipv4.checksum + (bit<17>)(~grown);
            hdr.inner_ipv4.checksum = sum[15:0] + (bit<16>)sum[16:16];
            hdr.inner_ipv4.ecn = ECN_CE;
        }
        hdr.ipv4 = hdr.inner_ipv4;
        hdr.inner_ipv4.setInvalid();
        hdr.ipv6.setInvalid();
    } else if (hdr.inner_ipv6.isValid()) {
        if (hdr.ipv6.ecn == ECN_CE) { hdr.inner_ipv6.ecn = ECN_CE; }
        hdr.ipv6 = hdr.inner_ipv6;
        hdr.inner_ipv6.setInvalid();
    }
}

#endif
