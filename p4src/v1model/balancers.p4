// The balancers choose the uplink of a packet that goes up without a known label.
// Table `balancer` selects the balancer at run time. Packets with a known label do
// not use it.
//
// Balancers keep their state in registers. In v1model, ingress cannot read a queue's
// depth, so register `uplink_depth` has it: egress writes the depth when a packet
// leaves the queue, and ingress adds each packet that it sends there afterwards.
// docs/balancers.md says how stale that is.
#ifndef ETHEREAL_BALANCERS_P4
#define ETHEREAL_BALANCERS_P4

// Values of meta.balancer.
const bit<3> BALANCE_HASH     = 0; // table ecmp
const bit<3> BALANCE_ROBIN    = 1;
const bit<3> BALANCE_RANDOM   = 2;
const bit<3> BALANCE_ROTATION = 3;
const bit<3> BALANCE_SHORTEST = 4;
const bit<3> BALANCE_FLOWLET  = 5;

// Values of meta.flowlet_mode.
const bit<2> FLOWLET_GAP      = 0; // a gap frees the flow to move
const bit<2> FLOWLET_ASSIGNED = 1; // it stays where it began
const bit<2> FLOWLET_PACKET   = 2; // every packet is free

const bit<16> EACH_UPLINK = 0xFFFF; // the group whose slots are the uplinks, in order

// The depth of an uplink's data queue, in the target's unit.
@name(".uplink_depth")
register<bit<32>>(64) uplink_depth;
// The shortest-queue and flowlet balancers choose the uplink of the smallest rank: its
// depth, or the depth's bin, or the time in ns at which it is free. The ranks are there
// twice, one after the other, so that they can be read in order from any start.
@name(".uplink_rank")
register<bit<48>>(128) uplink_rank;

// rank becomes the rank of a depth.
#define RANK_OF(rank, depth)                                                    \
    if (meta.bin3 == 0) { rank = (bit<48>)(depth); }                            \
    else if ((depth) < (bit<32>)meta.bin1) { rank = 0; }                        \
    else if ((depth) < (bit<32>)meta.bin2) { rank = 1; }                        \
    else if ((depth) < (bit<32>)meta.bin3) { rank = 2; }                        \
    else { rank = 3; }

#define WRITE_RANK(uplink, rank)                                                \
    uplink_rank.write((bit<32>)(uplink), rank);                                 \
    uplink_rank.write((bit<32>)(uplink) + (bit<32>)meta.uplinks, rank);

// Is the uplink i places after `start` better than the best one so far? What is
// compared is the rank, and below it i. a - (a |-| b) is the lesser of a and b.
#define WEIGH(i)                                                                \
    uplink_rank.read(rank, (bit<32>)(start + i));                               \
    weight = (rank |-| floor) ++ 8w##i | ((bit<56>)(bit<1>)(live >> i) - 1);    \
    best = best - (best |-| weight);

control Balancer(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    // Round robin by group: the next position; wraps since the order was shuffled.
    @name(".robin_position")
    register<bit<8>>(64) robin_position;
    @name(".robin_wraps")
    register<bit<8>>(64) robin_wraps;
    // By group and position, the slot XOR the position: all 0 is the order of the table.
    @name(".robin_order")
    register<bit<8>>(4096) robin_order;
    // Destination rotation, by destination and size of packet: position + 1, or 0
    // before the first packet.
    @name(".rotation_pointer")
    register<bit<8>>(8192) rotation_pointer;
    // Flowlets, by hash: 48 bits of when the last packet came, in us, and uplink + 1.
    @name(".flowset")
    register<bit<56>>(16384) flowset;

    // The slots of a group: which uplinks a destination may be reached by, as a
    // list in which one can come several times (its weight), and as a set.
    @name(".set_slots")
    action set_slots(bit<8> slots, bit<64> uplinks) {
        meta.slots = slots;
        meta.live = uplinks;
    }
    @name(".uplink_group")
    table uplink_group {
        key = { meta.group: exact @name("group"); }
        actions = { set_slots; NoAction; }
        default_action = NoAction;
        size = 1024;
    }

    // Chooses a packet's uplink, by the rotation that it belongs to.
    @name(".set_rotation")
    action set_rotation(bit<12> index) { meta.rotation = index; }
    @name(".rotation_v4")
    table rotation_v4 {
        key = { hdr.ipv4.dst: lpm @name("dst"); }
        actions = { set_rotation; NoAction; }
        default_action = NoAction;
        size = 4096;
    }
    @name(".rotation_v6")
    table rotation_v6 {
        key = { hdr.ipv6.dst: lpm @name("dst"); }
        actions = { set_rotation; NoAction; }
        default_action = NoAction;
        size = 4096;
    }

    bit<8> start;
    bit<48> floor = 0;
    bit<48> rank = 0;
    bit<56> best = 0xFFFFFFFFFFFFFF;
    bit<56> weight;
    bit<64> live = 0;
    action weigh_0() {
        WEIGH(0) WEIGH(1) WEIGH(2) WEIGH(3)
        WEIGH(4) WEIGH(5) WEIGH(6) WEIGH(7)
    }
    action weigh_8() {
        WEIGH(8) WEIGH(9) WEIGH(10) WEIGH(11)
        WEIGH(12) WEIGH(13) WEIGH(14) WEIGH(15)
    }
    action weigh_16() {
        WEIGH(16) WEIGH(17) WEIGH(18) WEIGH(19)
        WEIGH(20) WEIGH(21) WEIGH(22) WEIGH(23)
    }
    action weigh_24() {
        WEIGH(24) WEIGH(25) WEIGH(26) WEIGH(27)
        WEIGH(28) WEIGH(29) WEIGH(30) WEIGH(31)
    }
    action weigh_32() {
        WEIGH(32) WEIGH(33) WEIGH(34) WEIGH(35)
        WEIGH(36) WEIGH(37) WEIGH(38) WEIGH(39)
    }
    action weigh_40() {
        WEIGH(40) WEIGH(41) WEIGH(42) WEIGH(43)
        WEIGH(44) WEIGH(45) WEIGH(46) WEIGH(47)
    }
    action weigh_48() {
        WEIGH(48) WEIGH(49) WEIGH(50) WEIGH(51)
        WEIGH(52) WEIGH(53) WEIGH(54) WEIGH(55)
    }
    action weigh_56() {
        WEIGH(56) WEIGH(57) WEIGH(58) WEIGH(59)
        WEIGH(60) WEIGH(61) WEIGH(62) WEIGH(63)
    }

    apply {
        bit<8> position;
        bit<48> now = standard_metadata.ingress_global_timestamp;
        uplink_group.apply();
        if (meta.slots != 0) {
            meta.slot = 0;
            if (meta.balancer == BALANCE_RANDOM) {
                random(meta.slot, 8w0, meta.slots - 1);
            } else if (meta.balancer == BALANCE_ROBIN) {
                bit<8> wraps;
                bit<8> slot;
                bit<32> state = (bit<32>)meta.group & 63;
                bit<32> base = state << 6;
                robin_position.read(position, state);
                robin_wraps.read(wraps, state);
                if (position >= meta.slots) { position = 0; } // the group was larger
                robin_order.read(slot, base | (bit<32>)position);
                slot = slot ^ position;
                if (wraps == 0 && meta.wraps != 0) {
                    // Fisher and Yates, a step a packet: after this wrap all orders
                    // are equally likely.
                    bit<8> other;
                    bit<8> moved;
                    random(other, position, meta.slots - 1);
                    robin_order.read(moved, base | (bit<32>)other);
                    moved = moved ^ other;
                    robin_order.write(base | (bit<32>)other, slot ^ other);
                    robin_order.write(base | (bit<32>)position, moved ^ position);
                    slot = moved;
                }
                // Groups whose numbers agree modulo 64 share their state, whatever their sizes.
                if (slot >= meta.slots) { random(slot, 8w0, meta.slots - 1); }
                meta.slot = slot;
                position = position + 1;
                if (position >= meta.slots) {
                    position = 0;
                    wraps = wraps + 1;
                    if (wraps >= meta.wraps) { wraps = 0; }
                    robin_wraps.write(state, wraps);
                }
                robin_position.write(state, position);
            } else if (meta.balancer == BALANCE_ROTATION) {
                if (meta.is_ipv6 == 1) { rotation_v6.apply(); } else { rotation_v4.apply(); }
                bit<32> pointer = (bit<32>)meta.rotation << 1;
                if (standard_metadata.packet_length >= 256) { pointer = pointer | 1; }
                rotation_pointer.read(position, pointer);
                if (position == 0) {
                    random(position, 8w0, meta.slots - 1);
                } else {
                    position = position - 1;
                    if (position >= meta.slots) { position = 0; }
                }
                meta.slot = position;
                position = position + 1;
                if (position >= meta.slots) { position = 0; }
                rotation_pointer.write(pointer, position + 1);
            } else {
                bit<1> free = 1;
                bit<8> uplink = 0;
                live = meta.live;
                bit<64> dead;
                bit<56> flow;
                bit<32> entry = (meta.hash & 0x3FFF);
                if (meta.balancer == BALANCE_FLOWLET) {
                    floor = now * 1000;
                    if (meta.flowlet_mode != FLOWLET_PACKET) {
                        flowset.read(flow, entry);
                        if (flow != 0) {
                            uplink = flow[7:0] - 1;
                            // It must still lead there; and the port may be dead.
                            dead_uplinks.read(dead, 0);
                            if (((live & ~dead) >> uplink) & 1 == 1 &&
                                (meta.flowlet_mode == FLOWLET_ASSIGNED || now - flow[55:8] <= (bit<48>)meta.flowlet_gap)) {
                                free = 0;
                            }
                        }
                    }
                }
                if (free == 1) {
                    dead_uplinks.read(dead, 0);
                    if (live & ~dead != 0) { live = live & ~dead; }
                    random(start, 8w0, meta.uplinks - 1); // ties are broken at random
                    live = (live >> start) | (live << (meta.uplinks - start));
                    live = live & ((64w1 << meta.uplinks) - 1);
                    weigh_0();
                    if (meta.uplinks > 8) {
                        weigh_8();
                        if (meta.uplinks > 16) {
                            weigh_16();
                            weigh_24();
                            if (meta.uplinks > 32) {
                                weigh_32();
                                weigh_40();
                                weigh_48();
                                weigh_56();
                            }
                        }
                    }
                    uplink = start + best[7:0];
                    if (uplink >= meta.uplinks) { uplink = uplink - meta.uplinks; }
                }
                if (meta.balancer == BALANCE_FLOWLET) {
                    if (meta.flowlet_mode != FLOWLET_PACKET) {
                        flowset.write(entry, now ++ (uplink + 1));
                    }
                    // The uplink is busy longer, by the packet's time on the wire.
                    uplink_rank.read(rank, (bit<32>)uplink);
                    if (rank < floor) { rank = floor; }
                    rank = rank + (((bit<48>)standard_metadata.packet_length * (bit<48>)meta.cost) >> 8);
                    if (rank > floor + ((bit<48>)meta.cost << 12)) { rank = floor + ((bit<48>)meta.cost << 12); }
                    WRITE_RANK(uplink, rank)
                } else if (meta.is_data == 1) {
                    bit<32> depth;
                    uplink_depth.read(depth, (bit<32>)uplink);
                    depth = depth + (standard_metadata.packet_length >> meta.unit_shift) + 1;
                    uplink_depth.write((bit<32>)uplink, depth);
                    RANK_OF(rank, depth)
                    WRITE_RANK(uplink, rank)
                }
                meta.balanced_uplink = uplink;
                meta.slot = uplink;
                meta.group = EACH_UPLINK;
            }
        }
    }
}

// At egress, the depth of the queue that a balanced packet has left.
control BalancerFeedback(in metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        bit<48> rank;
        bit<32> depth = (bit<32>)standard_metadata.deq_qdepth;
        bit<32> uplink = (bit<32>)meta.balanced_uplink;
        if (meta.balancer == BALANCE_SHORTEST) {
            uplink_depth.write(uplink, depth);
            RANK_OF(rank, depth)
            WRITE_RANK(uplink, rank)
        } else {
            bit<48> until = standard_metadata.egress_global_timestamp * 1000 + (bit<48>)depth * (bit<48>)meta.unit_cost;
            uplink_rank.read(rank, uplink);
            if (rank < until) { WRITE_RANK(uplink, until) }
        }
    }
}

#endif
