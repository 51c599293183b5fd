package p4runtime

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/test/bufconn"
)

// The whole of a controller's work, over TCP on the loopback with the
// generated clients.
func TestOverTCP(t *testing.T) {
	d := newDevice(t, nil).overTCP()
	s := d.ready()
	status := d.operStatus()
	d.mustWrite(insert(t, macEntry), insert(t, route(4)),
		insert(t, `packet_replication_engine_entry { clone_session_entry { session_id: 4 replicas { port: "\x03" instance: 1 } } }`),
		insert(t, `table_entry { table_id: $acl priority: 1 match { field_id: 3 optional { value: "\x99\x99" } } action { action { action_id: $punt } } }`))
	if diff := cmp.Diff([]uint32{2}, d.outPorts(1, frame(9, 8, 0x1234))); diff != "" {
		t.Error(diff)
	}
	got := d.mustRead(`direct_counter_entry { table_entry { table_id: $mac } }`)
	if c := got[0].GetDirectCounterEntry().GetData(); c.GetPacketCount() != 1 || c.GetByteCount() != 14 {
		t.Errorf("the entry counted %v", c)
	}
	d.inject(1, frame(1, 8, 0x9999))
	if p := s.mustRecv().GetPacket(); len(p.GetPayload()) != 14 {
		t.Errorf("packet-in %v", p)
	}
	if err := d.enable("Ethernet3", false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("Ethernet3 DOWN", status()); diff != "" {
		t.Error(diff)
	}
	if got := d.spread(); got[3] != 0 || len(got) != 3 {
		t.Errorf("with port 3 disabled the selector sends to %v", got)
	}
	s.finish()
}

// inBubble runs a device with the wall clock of a synctest bubble.
func inBubble(t *testing.T, test func(*testing.T, *device)) {
	synctest.Test(t, func(t *testing.T) {
		d := newDevice(t, func(c *Config) { c.Now = func() int64 { return time.Now().UnixNano() } })
		// grpc over an in-memory pipe: sockets would keep the bubble awake.
		lis := bufconn.Listen(1 << 16)
		d.serve(lis, func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) })
		test(t, d)
	})
}

// Run sends digests when the clock says so.
func TestServerKeepsTime(t *testing.T) {
	inBubble(t, func(t *testing.T, d *device) {
		c := d.learner(`max_timeout_ns: 5000000000 max_list_size: 10`)
		d.locked(func() { d.core.cfg.Epoch = time.Now().UnixNano() })
		sent := time.Now()
		d.inject(1, frame(1, 0xa, 0x1234))
		if l := c.mustRecv().GetDigest(); len(l.GetData()) != 1 {
			t.Errorf("got %v, want a digest list", l)
		}
		if got := time.Since(sent); got != 5*time.Second {
			t.Errorf("the list came after %v, want 5 s", got)
		}
		c.finish()
	})
}

// Controllers, a subscriber and the data plane at once; the race detector
// watches.
func TestServerConcurrency(t *testing.T) {
	d := newDevice(t, nil).overBufconn()
	d.ready()
	const rounds = 100
	var g errgroup.Group
	g.Go(func() error {
		for range rounds {
			if err := d.write(batch(insert(t, route(4)))); err != nil {
				return err
			}
			if err := d.write(batch(remove(t, route(4)))); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() error {
		for range rounds {
			req := batch(insert(t, macEntry), remove(t, macEntry))
			req.Atomicity = p4.WriteRequest_DATAPLANE_ATOMIC
			if err := d.write(req); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() error {
		for range rounds {
			if _, err := d.read(&p4.ReadRequest{DeviceId: testDevice, Entities: []*p4.Entity{entity(t, `table_entry {}`)}}); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() error {
		for i := range rounds {
			if err := d.enable("Ethernet1", i%2 == 1); err != nil {
				return err
			}
		}
		return nil
	})
	g.Go(func() error {
		for i := range 10 * rounds {
			if got := d.outPorts(4, frame(9, 8, 0x1234)); len(got) == 1 && got[0] == 2 {
				return errors.New("a packet saw half of an atomic batch")
			}
			d.outPorts(4, ipv4(1, uint16(i)))
		}
		return nil
	})
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
}
