package p4runtime

import (
	"testing"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
)

func marshal(t testing.TB, m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fuzzDevice is a direct device with the program and a primary.
func fuzzDevice(t *testing.T) *device {
	d := newDevice(t, nil)
	d.ready()
	return d
}

// Any write request is answered; an atomic one that fails leaves nothing
// behind; and the switch still forwards and can be read.
func FuzzWrite(f *testing.F) {
	f.Add(marshal(f, batch(oneOfEach(f)...)), frame(9, 8, 0x1234))
	f.Add(marshal(f, batch(insert(f, route(4)), remove(f, route(4)))), ipv4(1, 1))
	f.Add(marshal(f, batch(insert(f, ecmpMember(1, 1)),
		insert(f, `action_profile_group { action_profile_id: $ecmp group_id: 1 members { member_id: 1 weight: 1 watch_port: "\x01" } }`))), ipv4(1, 1))
	f.Fuzz(func(t *testing.T, b, packet []byte) {
		req := &p4.WriteRequest{}
		if proto.Unmarshal(b, req) != nil {
			return
		}
		req.DeviceId, req.Role, req.ElectionId = testDevice, "", &p4.Uint128{Low: 1}
		req.RoleId = 0 //nolint:staticcheck // old controllers use it
		d := fuzzDevice(t)
		before := d.mustRead(everyEntity...)
		req.Atomicity = p4.WriteRequest_DATAPLANE_ATOMIC
		if d.write(req) != nil {
			if diff := sameEntities(before, d.mustRead(everyEntity...)); diff != "" {
				t.Fatalf("a failed atomic batch left: %s", diff)
			}
		}
		req.Atomicity = p4.WriteRequest_CONTINUE_ON_ERROR
		d.write(req) //nolint:errcheck // any answer will do
		d.core.Switch().Process(interp.Input{Port: 1, Data: packet}, func(interp.Output) {})
		d.ports.SetOper(1, false, 1) //nolint:errcheck // the port is there
		after := d.mustRead(everyEntity...)
		if err := d.setPipeline(push(reconcile, config(t))); err != nil {
			t.Fatalf("what was accepted cannot be written again: %v", err)
		}
		if diff := sameEntities(after, d.mustRead(everyEntity...)); diff != "" {
			t.Fatalf("what was written again differs: %s", diff)
		}
	})
}

// Any read request is answered.
func FuzzRead(f *testing.F) {
	for _, q := range everyEntity {
		f.Add(marshal(f, &p4.ReadRequest{Entities: []*p4.Entity{entity(f, q)}}))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		req := &p4.ReadRequest{}
		if proto.Unmarshal(b, req) != nil || len(req.GetEntities()) > 20 {
			return
		}
		req.DeviceId = testDevice
		d := fuzzDevice(t)
		d.mustWrite(oneOfEach(t)...)
		d.read(req) //nolint:errcheck // any answer will do
	})
}

// Any P4Info beside the program is taken or refused.
func FuzzP4Info(f *testing.F) {
	c, err := everything()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(marshal(f, c.GetP4Info()))
	f.Fuzz(func(t *testing.T, b []byte) {
		info := &p4config.P4Info{}
		if proto.Unmarshal(b, info) != nil {
			return
		}
		c := config(t)
		c.P4Info = info
		d := newDevice(t, nil)
		d.primary()
		if d.setPipeline(push(saveAndGo, c)) != nil {
			return
		}
		d.read(&p4.ReadRequest{DeviceId: testDevice, Entities: []*p4.Entity{{Entity: &p4.Entity_TableEntry{TableEntry: &p4.TableEntry{}}}}}) //nolint:errcheck // any answer will do
		d.core.PacketIn(make([]byte, 100))
	})
}

// Any stream message is answered.
func FuzzStream(f *testing.F) {
	f.Add(marshal(f, arbitration(testDevice, "x", id(3))))
	f.Add(marshal(f, packetOut("abc", meta(1, "\x03"), meta(2, "\x01"))))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &p4.StreamMessageRequest{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		var d *device
		var out []emitted
		d = newDevice(t, withInjection(&d, &out))
		s := d.ready()
		s.send(m)
		s.finish()
	})
}

// Any wrapping of a device config is looked into without harm.
func FuzzDeviceConfig(f *testing.F) {
	f.Add([]byte("\x08\x01\x1a\x02{}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got := deviceData(b); len(got) > len(b) {
			t.Errorf("%d bytes out of %d", len(got), len(b))
		}
	})
}
