// Congestion Signaling (draft-ravi-ippm-csig-01), as v1model/csig.p4: a packet's tag has the worst signal of the ports
// that the packet left by. Compile with -DETHEREAL_CSIG. The chip does not multiply, so that a tag of the share of a
// link stays as it is. What differs is listed in docs/results/field.md.
#ifndef ETHEREAL_TNA_CSIG_P4
#define ETHEREAL_TNA_CSIG_P4

control Csig(inout egress_headers_t hdr, inout egress_metadata_t meta, in egress_intrinsic_metadata_t intrinsic,
             in egress_intrinsic_metadata_from_parser_t from_parser) {
    bit<32> before;

    // The window of 65.536 us in which each port last sent.
    @name(".port_window")
    Register<bit<16>, PortId_t>(512, 0) port_window;
    RegisterAction<bit<16>, PortId_t, bit<16>>(port_window) enter_window = {
        void apply(inout bit<16> value, out bit<16> last) {
            last = value;
            value = meta.csig_window;
        }
    };
    // What each port has sent in that window, in quarters of a byte.
    @name(".port_bytes")
    Register<bit<32>, PortId_t>(512, 0) port_bytes;
    RegisterAction<bit<32>, PortId_t, bit<32>>(port_bytes) count_bytes = {
        void apply(inout bit<32> value) { value = value + meta.csig_length; }
    };
    RegisterAction<bit<32>, PortId_t, bit<32>>(port_bytes) restart_bytes = {
        void apply(inout bit<32> value, out bit<32> last) {
            last = value;
            value = meta.csig_length;
        }
    };
    // What it sent in the window before.
    @name(".port_load")
    Register<bit<32>, PortId_t>(512, 0) port_load;
    RegisterAction<bit<32>, PortId_t, bit<32>>(port_load) read_load = {
        void apply(inout bit<32> value, out bit<32> load) { load = value; }
    };
    RegisterAction<bit<32>, PortId_t, bit<32>>(port_load) write_load = {
        void apply(inout bit<32> value) { value = before; }
    };
    RegisterAction<bit<32>, PortId_t, bit<32>>(port_load) clear_load = {
        void apply(inout bit<32> value) { value = 0; }
    };

    action clock() {
        meta.csig_window = from_parser.global_tstamp[31:16];
        meta.csig_bytes = intrinsic.pkt_length;
    }
    // In whole units of 64 bytes.
    action round_length() { meta.csig_bytes = meta.csig_bytes + 32; }
    action compute_units() { meta.csig_length = 14w0 ++ meta.csig_bytes[15:6] ++ 8w0; }
    action enter() { meta.csig_elapsed = enter_window.execute(intrinsic.egress_port); }
    action compare_windows() { meta.csig_elapsed = meta.csig_window - meta.csig_elapsed; }

    // All accesses of a register must be in one stage, so each has one table. The chip has no index for a register
    // where a table misses.
    action count() { count_bytes.execute(intrinsic.egress_port); }
    action restart() { before = restart_bytes.execute(intrinsic.egress_port); }
    @name(".csig_bytes")
    table bytes_of_window {
        key = { meta.csig_elapsed: ternary; }
        actions = { count; restart; NoAction; }
        size = 2;
        const default_action = NoAction;
        const entries = {
            0: count();
            _: restart();
        }
    }
    action same_window() { before = read_load.execute(intrinsic.egress_port); }
    action next_window() { write_load.execute(intrinsic.egress_port); }
    action idle_window() {
        clear_load.execute(intrinsic.egress_port);
        before = 0;
    }
    @name(".csig_load")
    table load_of_window {
        key = { meta.csig_elapsed: ternary; }
        actions = { same_window; next_window; idle_window; NoAction; }
        size = 3;
        const default_action = NoAction;
        const entries = {
            0: same_window();
            1: next_window();
            _: idle_window();
        }
    }

    bit<1>  known = 0;
    bit<16> locator;
    bit<32> capacity;
    // A port's place for the tag, and what it can send in a window, in units of 64 bytes.
    @name(".signal")
    action signal(bit<16> port_locator, bit<20> port_capacity) {
        known = 1;
        locator = port_locator;
        capacity = 4w0 ++ port_capacity ++ 8w0;
    }
    // Ports without an entry leave tags as they are.
    @name(".csig_port")
    table csig_port {
        key = { intrinsic.egress_port: exact @name("port"); }
        actions = { signal; NoAction; }
        default_action = NoAction;
        size = 512;
    }

    // All numbers are times 256, which puts them where a tag's word has the value. The comparisons are prepared before
    // the load is known: the chip has few stages. A worse signal than the tag's makes excess negative.
    bit<32> tag;
    bit<32> delay;
    bit<32> room;
    bit<32> patience;
    bit<32> own;
    bit<32> excess = 0;
    action read_tag() {
        tag = 4w0 ++ hdr.csig.value ++ 8w0;
        delay = 16w0 ++ intrinsic.deq_timedelta[17:10] ++ 8w0;
    }
    action prepare() {
        room = capacity - tag;
        patience = tag - delay;
    }
    action compare_available() {
        own = capacity |-| before;
        excess = room - before;
    }
    action compare_delay() {
        own = delay;
        excess = patience;
    }
    action replace() {
        hdr.csig.value = own[27:8];
        hdr.csig.locator[23:16] = own[7:0]; // 0
        hdr.csig.locator[15:0] = locator;
    }

    apply {
        clock();
        enter();
        round_length();
        compare_windows();
        compute_units();
        if (hdr.csig.isValid()) {
            read_tag();
            csig_port.apply();
            prepare();
        }
        bytes_of_window.apply();
        load_of_window.apply();
        if (known == 1) {
            if (hdr.csig.signal_type == CSIG_AVAILABLE) {
                compare_available();
            } else if (hdr.csig.signal_type == CSIG_DELAY) {
                compare_delay();
            }
            if (excess[31:31] == 1) { replace(); }
        }
    }
}

#endif
