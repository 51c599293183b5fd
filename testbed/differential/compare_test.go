//go:build linux

package differential

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Pair is two devices that ought to do the same: ours and the reference.
type Pair struct {
	Ours, Reference Device
	// Lag is how many packets the reference holds back: it handles a packet
	// when that many more have come.
	Lag int
	// Ports are those the reference has: what is sent elsewhere it drops.
	Ports []uint32

	waiting []Packet
	Packets int // handled so far
	Outputs int // compared so far
	Writes  int // that both accepted
}

// Difference is what the two devices did differently.
type Difference struct {
	What            string
	Ours, Reference string
}

func (d Difference) Error() string {
	return fmt.Sprintf("%s:\n  ours:      %s\n  reference: %s", d.What, d.Ours, d.Reference)
}

// Write makes an update on both. Both must take it or refuse it; how they word
// a refusal is their own matter.
func (p *Pair) Write(u *p4.Update) error {
	mine, theirs := p.Ours.Write(u), p.Reference.Write(u)
	for _, err := range []error{mine, theirs} {
		if c := status.Code(err); c == codes.Unavailable || c == codes.DeadlineExceeded {
			return err
		}
	}
	if (mine == nil) != (theirs == nil) {
		return Difference{"write " + prototext.MarshalOptions{}.Format(u), describe(mine), describe(theirs)}
	}
	if mine == nil {
		p.Writes++
	}
	return nil
}

// describe prints an answer to a write with what it says of the update.
func describe(err error) string {
	var text strings.Builder
	fmt.Fprint(&text, err)
	for _, d := range status.Convert(err).Details() {
		fmt.Fprintf(&text, " [%v]", d)
	}
	return text.String()
}

// Run sends packets to both and compares what comes out.
func (p *Pair) Run(in []Packet) error {
	mine, theirs, err := p.Exchange(in)
	if err != nil {
		return err
	}
	for _, port := range slices.Sorted(maps.Keys(union(mine, theirs))) {
		a, b := mine[port], theirs[port]
		for i := range max(len(a), len(b)) {
			switch {
			case i >= len(a):
				return Difference{fmt.Sprintf("port %d, packet %d of this batch", port, i), "nothing", hex.EncodeToString(b[i])}
			case i >= len(b):
				return Difference{fmt.Sprintf("port %d, packet %d of this batch", port, i), hex.EncodeToString(a[i]), "nothing"}
			case !bytes.Equal(a[i], b[i]):
				return Difference{fmt.Sprintf("port %d, packet %d of this batch", port, i), hex.EncodeToString(a[i]), hex.EncodeToString(b[i])}
			}
		}
	}
	return nil
}

// Exchange sends packets to both and returns what comes out, by port.
func (p *Pair) Exchange(in []Packet) (mine, theirs map[uint32][][]byte, err error) {
	all := append(p.waiting, in...)
	ready := max(0, len(all)-p.Lag)
	if mine, err = p.Ours.Run(all[:ready], 0); err != nil {
		return nil, nil, err
	}
	want := 0
	for port, out := range mine {
		if !slices.Contains(p.Ports, port) {
			delete(mine, port)
			continue
		}
		want += len(out)
	}
	if theirs, err = p.Reference.Run(in, want); err != nil {
		return nil, nil, err
	}
	p.Packets += ready
	p.Outputs += want
	p.waiting = slices.Clone(all[ready:])
	return mine, theirs, nil
}

func union(a, b map[uint32][][]byte) map[uint32]bool {
	keys := map[uint32]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}

// patience is how long the reference may take to get to packets that it sends
// nothing for: that it has them shows in its counters alone.
const patience = 10 * time.Second

// Compare reads entities from both and compares them, in whatever order they
// come. While they differ it reads again, until patience ends.
func (p *Pair) Compare(what string, e *p4.Entity) error {
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := p.compare(what, e)
		if d := (Difference{}); !errors.As(err, &d) || time.Now().After(deadline) {
			return err
		}
	}
}

func (p *Pair) compare(what string, e *p4.Entity) error {
	mine, err := p.Ours.Read(e)
	if err != nil {
		return fmt.Errorf("differential: read %s from ours: %w", what, err)
	}
	theirs, err := p.Reference.Read(e)
	if err != nil {
		return fmt.Errorf("differential: read %s from the reference: %w", what, err)
	}
	a, b := canonical(mine), canonical(theirs)
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return Difference{what, "nothing more", b[i]}
		case i >= len(b):
			return Difference{what, a[i], "nothing more"}
		case a[i] != b[i]:
			return Difference{what, a[i], b[i]}
		}
	}
	return nil
}

// canonical prints entities, sorted. A counter cell of zero is left out: devices
// differ in whether they return those of a wildcard read.
func canonical(entities []*p4.Entity) []string {
	var out []string
	for _, e := range entities {
		if c := e.GetCounterEntry(); c != nil && c.GetData().GetPacketCount() == 0 && c.GetData().GetByteCount() == 0 {
			continue
		}
		b, err := proto.MarshalOptions{Deterministic: true}.Marshal(e)
		if err != nil {
			continue
		}
		out = append(out, hex.EncodeToString(b)+" "+prototext.MarshalOptions{}.Format(e))
	}
	slices.SortFunc(out, func(a, b string) int { return cmp.Compare(a[:min(len(a), 2000)], b[:min(len(b), 2000)]) })
	for i, s := range out {
		_, text, _ := bytes.Cut([]byte(s), []byte(" "))
		out[i] = string(bytes.Join(bytes.Fields(text), []byte(" ")))
	}
	return out
}
