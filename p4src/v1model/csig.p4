// Congestion Signaling (draft-ravi-ippm-csig-01): a packet's tag has the worst signal of the ports that the packet left
// by. Each port compares its own signal with the tag's, and replaces the tag if it is worse. Compile with -DETHEREAL_CSIG.
#ifndef ETHEREAL_CSIG_P4
#define ETHEREAL_CSIG_P4

control Csig(inout headers_t hdr, in standard_metadata_t standard_metadata) {
    // Bytes that each port sends in windows of 256 us: the window's number in 12 bits, 26 bits of the window before, and
    // 26 bits of this one.
    @name(".port_load")
    register<bit<64>>(512) port_load;

    bit<24> locator = 0;
    bit<20> capacity = 0;
    bit<8>  unit_shift = 0;
    bit<32> share = 0;
    // A port's place for the tag; what it can send in a window, in units of 1 << unit_shift bytes; and the share of the
    // link that a unit is, in 2^-36.
    @name(".signal")
    action signal(bit<24> port_locator, bit<20> port_capacity, bit<8> port_unit_shift, bit<32> unit_share) {
        locator = port_locator;
        capacity = port_capacity;
        unit_shift = port_unit_shift;
        share = unit_share;
    }
    // Ports without an entry leave tags as they are.
    @name(".csig_port")
    table csig_port {
        key = { standard_metadata.egress_port: exact @name("port"); }
        actions = { signal; NoAction; }
        default_action = NoAction;
        size = 512;
    }

    apply {
        bit<64> load;
        bit<12> window = standard_metadata.egress_global_timestamp[19:8];
        port_load.read(load, (bit<32>)standard_metadata.egress_port);
        bit<26> before = load[51:26];
        bit<26> bytes = load[25:0];
        if (load[63:52] != window) {
            before = 0;
            if (load[63:52] + 1 == window) { before = bytes; }
            bytes = 0;
        }
        bytes = bytes + (bit<26>)standard_metadata.packet_length;
        port_load.write((bit<32>)standard_metadata.egress_port, window ++ before ++ bytes);

        if (hdr.csig.isValid() && csig_port.apply().hit) {
            // What was sent may be more than fits: a packet counts for the window in which it leaves.
            bit<26> used = before >> unit_shift;
            bit<20> available = 0;
            if (used < (bit<26>)capacity) { available = capacity - used[19:0]; }
            bit<20> own = available;
            bit<1>  worse = 0;
            if (hdr.csig.signal_type == CSIG_DELAY) {
                own = 0xFFFFF;
                if (standard_metadata.deq_timedelta < 0xFFFFF) { own = standard_metadata.deq_timedelta[19:0]; }
                if (own > hdr.csig.value) { worse = 1; }
            } else {
                if (hdr.csig.signal_type == CSIG_RELATIVE) {
                    bit<56> product = (bit<56>)available * (bit<56>)share;
                    own = product[35:16];
                }
                if (own < hdr.csig.value && hdr.csig.signal_type <= CSIG_RELATIVE) { worse = 1; }
            }
            if (worse == 1) {
                hdr.csig.value = own;
                hdr.csig.locator = locator;
            }
        }
    }
}

#endif
