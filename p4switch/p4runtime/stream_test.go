package p4runtime

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
)

// withInjection has packet-outs go through the data plane and returns where
// they went.
func withInjection(d **device, out *[]emitted) func(*Config) {
	return func(c *Config) {
		c.OnPacketOut = func(data []byte) {
			(*d).core.Switch().Process(interp.Input{Port: cpuPort, Data: data}, func(o interp.Output) {
				*out = append(*out, emitted{o.Port, string(o.Data)})
			})
		}
	}
}

func (s *session) mustRecv() *p4.StreamMessageResponse {
	s.t.Helper()
	m, err := s.recv()
	if err != nil {
		s.t.Fatalf("no message: %v", err)
	}
	return m
}

func packetOut(payload string, md ...*p4.PacketMetadata) *p4.StreamMessageRequest {
	return &p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Packet{Packet: &p4.PacketOut{Payload: []byte(payload), Metadata: md}}}
}

func meta(id uint32, value string) *p4.PacketMetadata {
	return &p4.PacketMetadata{MetadataId: id, Value: []byte(value)}
}

func TestPacketOut(t *testing.T) {
	for _, grpc := range []bool{false, true} {
		t.Run(fmt.Sprintf("grpc=%v", grpc), func(t *testing.T) {
			var d *device
			var out []emitted
			d = newDevice(t, withInjection(&d, &out))
			if grpc {
				d.overBufconn()
			}
			s := d.ready()
			payload := string(frame(1, 2, 0x1234, 5, 6))
			s.send(packetOut(payload, meta(2, "\x7f"), meta(1, "\x00\x03")))
			// A stream error answers the bad ones, in order, so the good one is done by then.
			for _, bad := range [][]*p4.PacketMetadata{
				{meta(1, "\x03")}, // one missing
				{meta(1, "\x03"), meta(2, "\x00"), meta(9, "\x00")}, // one too many
				{meta(1, "\x03"), meta(1, "\x03")},                  // twice
				{meta(1, "\x02\x00"), meta(2, "\x00")},              // too wide
				{meta(1, ""), meta(2, "\x00")},                      // empty
			} {
				s.send(packetOut(payload, bad...))
				e := s.mustRecv().GetError()
				wants(t, fmt.Sprint(bad), codes.Code(e.GetCanonicalCode()), codes.InvalidArgument)
				if len(e.GetPacketOut().GetPacketOut().GetMetadata()) != len(bad) {
					t.Errorf("the error does not name the packet: %v", e)
				}
			}
			d.locked(func() {
				if diff := cmp.Diff([]emitted{{3, payload}}, out); diff != "" {
					t.Error(diff)
				}
			})
			backup := d.open()
			wants(t, "backup", backup.bid(nil), codes.AlreadyExists)
			backup.send(packetOut(payload, meta(1, "\x03"), meta(2, "\x00")))
			wants(t, "packet of a backup", codes.Code(backup.mustRecv().GetError().GetCanonicalCode()), codes.PermissionDenied)
		})
	}
}

// Fields that a packet-out lacks are 0 where the configuration says so.
func TestPartialPacketOut(t *testing.T) {
	var d *device
	var out []emitted
	inject := withInjection(&d, &out)
	d = newDevice(t, func(c *Config) {
		inject(c)
		c.PartialPacketOut = true
	})
	s := d.ready()
	payload := string(frame(1, 2, 0x1234, 5, 6))
	s.send(packetOut(payload, meta(1, "\x03")))
	s.send(packetOut(payload, meta(9, "\x03"))) // unknown fields are refused all the same
	wants(t, "unknown field", codes.Code(s.mustRecv().GetError().GetCanonicalCode()), codes.InvalidArgument)
	d.locked(func() {
		if diff := cmp.Diff([]emitted{{3, payload}}, out); diff != "" {
			t.Error(diff)
		}
	})
}

func TestPacketOutNeedsCPUPort(t *testing.T) {
	d := newDevice(t, func(c *Config) { c.CPUPort = 0 })
	s := d.ready()
	s.send(packetOut("x", meta(1, "\x03"), meta(2, "\x00")))
	wants(t, "packet", codes.Code(s.mustRecv().GetError().GetCanonicalCode()), codes.FailedPrecondition)
}

func TestPacketIn(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		s := d.ready()
		backup := d.open()
		wants(t, "backup", backup.bid(nil), codes.AlreadyExists)
		d.mustWrite(insert(t, `table_entry { table_id: $acl priority: 1 action { action { action_id: $punt } } }`))
		pkt := frame(1, 2, 0x1234, 7, 7)
		d.inject(300, pkt)
		want := &p4.PacketIn{Payload: pkt, Metadata: []*p4.PacketMetadata{meta(1, "\x01\x2c"), meta(2, "\x05")}}
		if diff := cmp.Diff(want, s.mustRecv().GetPacket(), protocmp.Transform()); diff != "" {
			t.Error(diff)
		}
		if rest := backup.finish(); len(rest) != 0 {
			t.Errorf("the backup got %v", rest)
		}
		s.finish()
		d.inject(300, pkt)
		d.locked(func() {
			d.core.PacketIn([]byte{1})
			if got := d.core.Stats(); got.PacketIn != 1 || got.PacketInNoPrimary != 1 || got.PacketInShort != 1 {
				t.Errorf("stats %+v", got)
			}
		})
	})
}

// A primary that does not take its packets loses them, counted.
func TestPacketInStalled(t *testing.T) {
	d := newDevice(t, nil)
	full := false
	s := d.core.OpenStream(func(*p4.StreamMessageResponse) error {
		if full {
			return errStalled
		}
		return nil
	})
	if err := s.Recv(arbitration(testDevice, "", &p4.Uint128{Low: 1})); err != nil {
		t.Fatal(err)
	}
	if err := d.core.Install(config(t)); err != nil {
		t.Fatal(err)
	}
	full = true
	d.core.PacketIn(make([]byte, 20))
	if got := d.core.Stats(); got.PacketInStreamFull != 1 || got.PacketIn != 0 {
		t.Errorf("stats %+v", got)
	}
}

// learner sets the program up to digest source addresses.
func (d *device) learner(cfg string) *session {
	s := d.ready()
	d.mustWrite(
		modify(d.t, `table_entry { table_id: $smac is_default_action: true action { action { action_id: $learn } } }`),
		insert(d.t, `digest_entry { digest_id: $learn_t config { `+cfg+` } }`))
	return s
}

// at sets the device's time and does what is due.
func (d *device) at(now int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = now
	d.core.Advance(now)
}

// learned drains the digest lists of a stream as "list: address@port ...".
func (s *session) learned() []string {
	var out []string
	for {
		m, err := s.recv()
		if err != nil {
			return out
		}
		if l := m.GetDigest(); l != nil {
			line := fmt.Sprintf("%d:", l.GetListId())
			for _, x := range l.GetData() {
				f := x.GetStruct().GetMembers()
				line += fmt.Sprintf(" %x@%x", f[0].GetBitstring(), f[1].GetBitstring())
			}
			out = append(out, line)
		}
	}
}

func TestDigestLists(t *testing.T) {
	d := newDevice(t, nil)
	s := d.learner(`max_timeout_ns: 1000 max_list_size: 2 ack_timeout_ns: 5000`)
	check := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, s.learned()); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	d.inject(1, frame(1, 0xa, 0x1234))
	d.inject(1, frame(1, 0xa, 0x1234)) // a duplicate
	check("half a list")
	if next, ok := d.core.NextDeadline(); !ok || next != d.now+1000 {
		t.Errorf("next deadline %d, %v; want the list's timeout", next, ok)
	}
	d.inject(2, frame(1, 0xb, 0x1234))
	check("a full list", "1: 0a@01 0b@02")
	d.inject(1, frame(1, 0xa, 0x1234))
	check("what is sent and not acknowledged is not sent again")
	ack := &p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_DigestAck{DigestAck: &p4.DigestListAck{DigestId: ids()["learn_t"], ListId: 1}}}
	s.send(ack)
	d.inject(1, frame(1, 0xa, 0x1234))
	d.at(d.now + 999)
	check("before the timeout")
	d.at(d.now + 1)
	check("after the timeout", "2: 0a@01")
	// Without acknowledgement the switch forgets in the end.
	d.at(d.now + 5000)
	d.inject(1, frame(1, 0xa, 0x1234))
	d.at(d.now + 1000)
	check("after the acknowledgement's timeout", "3: 0a@01")

	s.send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_DigestAck{DigestAck: &p4.DigestListAck{DigestId: 9}}})
	e := s.mustRecv().GetError()
	wants(t, "ack of an unknown digest", codes.Code(e.GetCanonicalCode()), codes.InvalidArgument)
	if e.GetDigestListAck() == nil {
		t.Errorf("the error does not name the ack: %v", e)
	}
	d.mustWrite(remove(t, `digest_entry { digest_id: $learn_t }`))
	d.inject(1, frame(1, 0xc, 0x1234))
	d.at(d.now + 10_000)
	check("after DELETE")
}

func TestDigestAtOnce(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, d *device) {
		s := d.learner(``)
		d.inject(1, frame(1, 0xa, 0x1234))
		d.inject(1, frame(1, 0xa, 0x1234)) // no cache: ack_timeout_ns is 0
		for want := range uint64(2) {
			l := s.mustRecv().GetDigest()
			if l.GetListId() != want+1 || len(l.GetData()) != 1 || l.GetTimestamp() != 1000 {
				t.Errorf("got %v", l)
			}
		}
	})
}

func TestDigestWithoutPrimaryIsLost(t *testing.T) {
	d := newDevice(t, nil)
	d.learner(`ack_timeout_ns: 5000`).finish()
	d.inject(1, frame(1, 0xa, 0x1234))
	if got := d.core.Stats().DigestLost; got != 1 {
		t.Errorf("%d lost, want 1", got)
	}
	s := d.open()
	wants(t, "bid", s.bid(&p4.Uint128{Low: 2}), codes.OK)
	d.inject(1, frame(1, 0xa, 0x1234))
	if got := s.learned(); len(got) != 1 {
		t.Errorf("the new primary learned %v, want the address", got)
	}
}

func TestIdleTimeout(t *testing.T) {
	const second = int64(1e9)
	d := newDevice(t, nil)
	d.now = 0
	s := d.ready()
	d.mustWrite(insert(t, `table_entry { table_id: $mac match { field_id: 1 exact { value: "\x09" } } idle_timeout_ns: 1000000000 controller_metadata: 5 metadata: "m"
		action { action { action_id: $count_forward params { param_id: 1 value: "\x02" } } } }`),
		insert(t, `table_entry { table_id: $mac match { field_id: 1 exact { value: "\x08" } } action { action { action_id: $count_drop } } }`))
	idle := func() int {
		n := 0
		for {
			m, err := s.recv()
			if err != nil {
				return n
			}
			for _, e := range m.GetIdleTimeoutNotification().GetTableEntry() {
				if e.GetControllerMetadata() != 5 || e.GetIdleTimeoutNs() != second || len(e.GetMatch()) != 1 || string(e.GetMetadata()) != "m" {
					t.Errorf("notification of %v", e)
				}
				n++
			}
		}
	}
	// run goes from deadline to deadline until end.
	run := func(end int64) {
		for {
			next, ok := d.core.NextDeadline()
			if !ok || next > end {
				break
			}
			d.at(next)
		}
		d.at(end)
	}
	since := func() int64 {
		return d.mustRead(`table_entry { table_id: $mac match { field_id: 1 exact { value: "\x09" } } time_since_last_hit {} }`)[0].GetTableEntry().GetTimeSinceLastHit().GetElapsedNs()
	}
	run(second - 1)
	if n := idle(); n != 0 {
		t.Errorf("%d notifications before the timeout", n)
	}
	if got := since(); got != second-1 {
		t.Errorf("time since last hit %d", got)
	}
	d.inject(1, frame(9, 8, 0x1234)) // a hit
	if got := since(); got != 0 {
		t.Errorf("time since last hit %d after a hit", got)
	}
	run(2*second - 2)
	if n := idle(); n != 0 {
		t.Errorf("%d notifications within the timeout of the hit", n)
	}
	run(2*second - 1)
	if n := idle(); n != 1 {
		t.Errorf("%d notifications after the timeout, want 1", n)
	}
	run(4 * second)
	if n := idle(); n != 2 {
		t.Errorf("%d notifications in the next two timeouts, want 2", n)
	}
	// A new timeout counts from its MODIFY.
	d.mustWrite(modify(t, `table_entry { table_id: $mac match { field_id: 1 exact { value: "\x09" } } idle_timeout_ns: 0 }`))
	run(20 * second)
	if n := idle(); n != 0 {
		t.Errorf("%d notifications without a timeout", n)
	}
	if next, ok := d.core.NextDeadline(); ok {
		t.Errorf("a deadline at %d is left", next)
	}
	d.mustWrite(remove(t, macEntry))
	_, err := d.read(&p4.ReadRequest{DeviceId: testDevice, Entities: []*p4.Entity{entity(t, `table_entry { table_id: $acl time_since_last_hit {} }`)}})
	wantCodes(t, err, codes.InvalidArgument)
}

func TestStreamOther(t *testing.T) {
	d := newDevice(t, nil)
	s := d.ready()
	s.send(&p4.StreamMessageRequest{Update: &p4.StreamMessageRequest_Other{}})
	wants(t, "other", codes.Code(s.mustRecv().GetError().GetCanonicalCode()), codes.Unimplemented)
}
