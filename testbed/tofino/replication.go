package tofino

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
)

// Addresses and layouts of the chip's replication engine and mirror are those of the model's register classes for
// tofinoB0 (`StartOffset` and `write` of include/tofinoB0/register_includes) and of its rdm-defs.h, mem.h and
// mirror-reg-tofinoXX.h. All is of pipe 0.
const (
	treeNodes  = 0x61000000000 / 16 // tm_pre_rdm_mem_word: nodes of multicast trees, a word each here
	treeRoots  = 0x61001000000 / 16 // tm_pre_mit0_mem_word: the first node of each group, four to a word
	rootWidth  = 20                 // bits
	lastOfTree = 1 << 7

	deparserAddress = 0x2000000 + 0x780000
	pipesOfGroups   = deparserAddress + 0x70000 // hi_pv_table
	mirrorOfPort    = deparserAddress + 0x20000 // mir_buf_desc_norm_desc_grp, by session
	mirrorStride    = 0x20
	mirrorCtrl      = 0x14 // of a session: norm_desc_grp_session_ctrl
	mirrorAll       = mirrorOfPort + 0x8000
)

// Kinds of tree nodes: rdm.cpp, encode_type.
const (
	nodeOfReplica = 1 // L1 RID
	nodeOfPorts   = 9 // L2 port 64
)

// group has a multicast group of one replica send to ports, which are below 64. Its nodes are words 2*place+1 and
// 2*place+2; a node's address counts half words.
func (w *chipWrites) group(place int, ports uint64) {
	replica, list := uint64(2*place+1), uint64(2*place+2)
	w.memory(treeNodes+replica, nodeOfReplica|2*list<<24, 0)
	w.memory(treeNodes+list, nodeOfPorts|lastOfTree|ports<<8, ports>>56)
}

// groupsOfWord is for how many groups a register says which pipes have members, four bits each.
const groupsOfWord = 8

// roots has neighbouring groups, the first a multiple of their number, begin at trees' places; -1: nowhere.
func (w *chipWrites) roots(first uint32, places [groupsOfWord]int) {
	pipes := uint32(0)
	for half := range 2 {
		var low, high uint64
		for i, place := range places[4*half : 4*half+4] {
			if place < 0 {
				continue
			}
			pipes |= 1 << (4 * (4*half + i))
			root := 2 * uint64(2*place+1)
			low |= root << (i * rootWidth)
			if i == 3 {
				high = root >> 4
			}
		}
		w.memory(treeRoots+uint64(first)/4+uint64(half), low, high)
	}
	w.register(pipesOfGroups+first/groupsOfWord*4, pipes)
}

// mirror has an ingress mirror session send the first bytes of packets to a port's queue.
func (w *chipWrites) mirror(session, port uint32, class uint8, bytes uint32) {
	at := mirrorOfPort + session*mirrorStride
	w.register(at, uint32(class)|1<<3|port<<4|uint32(class)<<13)
	w.register(at+mirrorCtrl, 1|bytes<<16)
}

// noMirror ends a session.
func (w *chipWrites) noMirror(session uint32) {
	w.register(mirrorOfPort+session*mirrorStride+mirrorCtrl, 0)
}

// mirrors turns the mirror of ingress on.
func (w *chipWrites) mirrors() { w.register(mirrorAll, 1) }

// headerOfMirror is the length in bytes of the header that the chip adds to a mirrored packet: quench_mirror_t in
// p4src/tna/tna_headers.p4.
const headerOfMirror = 14

// maxMirrorBytes is the most that a mirror session can keep of a packet.
const maxMirrorBytes = 1<<14 - 1

// multicastTree is a multicast group in the chip.
type multicastTree struct {
	place int
	ports uint64
}

// mirrorSession is a mirror session in the chip.
type mirrorSession struct {
	port  uint32
	class uint8
	bytes uint32
}

// syncReplication writes multicast groups and clone sessions.
func (m *Mirror) syncReplication() error {
	var w chipWrites
	if err := m.syncTrees(&w); err != nil {
		return err
	}
	if err := m.syncSessions(&w); err != nil {
		return err
	}
	return m.model.write(w)
}

func (m *Mirror) syncTrees(w *chipWrites) error {
	want := map[uint32]multicastTree{}
	changed := map[uint32]bool{} // words of roots
	for id, replicas := range m.sw.MulticastGroups() {
		if id >= 1<<16 {
			return fmt.Errorf("tofino: multicast group %d; the chip's are below %d", id, 1<<16)
		}
		t := multicastTree{place: -1}
		for _, r := range replicas {
			if r.Port > LastPort {
				return fmt.Errorf("tofino: multicast group %d: port %d; the model's ports are 0 to %d", id, r.Port, LastPort)
			}
			t.ports |= 1 << r.Port
		}
		old, ok := m.trees[id]
		if t.place = old.place; !ok {
			t.place = m.freeTree(want)
			changed[id/groupsOfWord*groupsOfWord] = true
		}
		if !ok || t.ports != old.ports {
			w.group(t.place, t.ports)
		}
		want[id] = t
	}
	for id := range m.trees {
		if _, ok := want[id]; !ok {
			changed[id/groupsOfWord*groupsOfWord] = true
		}
	}
	m.trees = want
	for _, first := range slices.Sorted(maps.Keys(changed)) {
		var places [groupsOfWord]int
		for i := range places {
			places[i] = -1
			if t, ok := want[first+uint32(i)]; ok {
				places[i] = t.place
			}
		}
		w.roots(first, places)
	}
	return nil
}

// freeTree returns a place that no group has or will have.
func (m *Mirror) freeTree(want map[uint32]multicastTree) (place int) {
	taken := map[int]bool{}
	for _, all := range []map[uint32]multicastTree{m.trees, want} {
		for _, t := range all {
			taken[t.place] = true
		}
	}
	for taken[place] {
		place++
	}
	return place
}

func (m *Mirror) syncSessions(w *chipWrites) error {
	want := map[uint32]mirrorSession{}
	for id, c := range m.sw.CloneSessions() {
		s, err := chipSession(id, c)
		if err != nil {
			return err
		}
		if want[id] = s; m.sessions[id] != s {
			w.mirror(id, s.port, s.class, s.bytes)
		}
	}
	for id := range m.sessions {
		if _, ok := want[id]; !ok {
			w.noMirror(id)
		}
	}
	m.sessions = want
	return nil
}

func chipSession(id uint32, c interp.CloneSession) (mirrorSession, error) {
	switch {
	case id >= 1024:
		return mirrorSession{}, fmt.Errorf("tofino: clone session %d; the chip's are below 1024", id)
	case len(c.Replicas) != 1 || c.Replicas[0].Port > LastPort:
		return mirrorSession{}, fmt.Errorf("tofino: clone session %d: the chip's goes to one port of 0 to %d", id, LastPort)
	}
	s := mirrorSession{c.Replicas[0].Port, c.Class, uint32(c.Truncate + headerOfMirror)}
	if c.Truncate == 0 || s.bytes > maxMirrorBytes {
		s.bytes = maxMirrorBytes
	}
	return s, nil
}
