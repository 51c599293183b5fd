package process_test

import (
	"encoding/binary"
	"testing"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/process"
)

// What a packet asks of circulate.p4.
const (
	passes = iota // nothing
	resubmits
	recirculates
	clonesClones
	loops
	truncates
)

// circulating starts a switch that runs circulate.p4: what comes in at port 1 leaves at port 2.
func circulating(t *testing.T, cfg process.Config) *lab {
	t.Helper()
	l := newLab(t, []int{linkFrames, linkFrames}, cfg)
	if err := l.d.Install(program(t, "circulate")); err != nil {
		t.Fatal(err)
	}
	return l
}

// ask sends a packet of 60 bytes.
func (l *lab) ask(how byte, want uint32) {
	l.t.Helper()
	b := make([]byte, 60)
	b[14] = how
	binary.BigEndian.PutUint32(b[15:], want)
	if l.far[0].Send([][]byte{b}) != 1 {
		l.t.Fatal("port 1 takes no packet")
	}
}

// leaves waits for a packet at port 2 and returns the passes or rounds it made, and its length.
func (l *lab) leaves() (how byte, made uint32, length int) {
	l.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); length == 0; {
		l.far[1].Receive(1, func(b []byte) { how, made, length = b[14], binary.BigEndian.Uint32(b[19:]), len(b) })
		if length == 0 && time.Now().After(deadline) {
			l.t.Fatalf("no packet: %+v", l.d.Stats())
		}
	}
	return how, made, length
}

// A packet circulates as often as its program wants, and truncate is for packets that leave, both as in BMv2.
func TestCirculates(t *testing.T) {
	for _, c := range []struct {
		how        byte
		want, made uint32
	}{
		{resubmits, 300, 300}, {resubmits, 3000, 3000}, {recirculates, 300, 300}, {recirculates, 5000, 5000}, {loops, 100_000, 100_000},
		{truncates, 0, 60},
	} {
		l := circulating(t, process.Config{})
		l.ask(c.how, c.want)
		if how, made, length := l.leaves(); how != c.how || made != c.made || length != 60 {
			t.Errorf("request %d: packet %d of %d bytes made %d; want %d, of 60 bytes", c.how, how, length, made, c.made)
		}
	}
}

// Packets that circulate for ever, or are cloned for ever, leave time for others, and so does an action without end.
func TestCirculatesForEver(t *testing.T) {
	for _, how := range []byte{resubmits, recirculates, clonesClones, loops} {
		l := circulating(t, process.Config{MaxLoops: 1000})
		l.write(insert(&p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
			Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: &p4.CloneSessionEntry{
				SessionId: 5, Replicas: []*p4.Replica{{PortKind: &p4.Replica_Port{Port: []byte{2}}, Instance: 1}}}}}}}))
		l.ask(how, 1<<32-1)
		n := 0
		for got := how; got != passes; n++ {
			if n%500 == 0 { // clones may have filled the queue of the port
				l.ask(passes, 0)
			}
			if got, _, _ = l.leaves(); n == 1_000_000 {
				t.Fatalf("request %d: an ordinary packet does not leave", how)
			}
		}
		switch how {
		case loops:
			l.until(func(s process.Stats) bool { return s.PipelineDrops[interp.DropActionLoop] == 1 })
		case resubmits, recirculates:
			l.until(func(s process.Stats) bool { return s.Recirculated > 1000 })
		}
	}
}

// The bound of passes is an option.
func TestMaxPasses(t *testing.T) {
	for _, how := range []byte{resubmits, recirculates} {
		l := circulating(t, process.Config{MaxPasses: 299})
		l.ask(how, 301)
		l.until(func(s process.Stats) bool { return s.PipelineDrops[interp.DropPasses] == 1 })
		if how == resubmits {
			continue // whose count is the program's register
		}
		l.ask(how, 300)
		if _, made, _ := l.leaves(); made != 300 {
			t.Errorf("request %d: %d passes", how, made)
		}
	}
}
