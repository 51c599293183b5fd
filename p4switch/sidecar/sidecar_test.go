//go:build linux

package sidecar_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/p4switch/port"
	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
	"github.com/ethereal-fabric/ethereal/p4switch/sidecar"
)

// A Set takes the interface down, subscribers and the program learn of it, and
// of the way back.
func TestSetEnabled(t *testing.T) {
	b := newBench(t, time.Hour)
	updates := b.watch(t, "s1-eth1")
	expect(t, "at first", updates, "UP")
	first := b.await(t, "port 1 at the start", func(e event) bool { return e.port == 1 })
	if !first.up || first.epoch == 0 || first.epoch > 50_001 {
		t.Errorf("at the start: %+v", first)
	}
	if err := b.set(t, "s1-eth1", false); err != nil {
		t.Fatal(err)
	}
	if b.ns.IsUp(t, "s1-eth1") {
		t.Error("the interface is up after it was disabled")
	}
	expect(t, "disabled", updates, "DOWN")
	down := b.await(t, "port 1 down", func(e event) bool { return e.port == 1 && !e.up })
	if diff := cmp.Diff(first.epoch+1, down.epoch); diff != "" {
		t.Error(diff)
	}
	if v := b.get(t, path("s1-eth1", "state", "admin-status")).GetStringVal(); v != "DOWN" {
		t.Errorf("admin-status %s", v)
	}
	if v := b.get(t, path("s1-eth1", "config", "id")).GetUintVal(); v != 1 {
		t.Errorf("port number %d", v)
	}
	if err := b.set(t, "s1-eth1", true); err != nil {
		t.Fatal(err)
	}
	expect(t, "enabled", updates, "UP")
	b.await(t, "port 1 up", func(e event) bool { return e.port == 1 && e.up && e.epoch == down.epoch+1 })
	if err := b.set(t, "nowhere", false); status.Code(err) != codes.NotFound && status.Code(err) != codes.InvalidArgument {
		t.Errorf("an interface that is not there: %v", err)
	}
}

// What others do to an interface, and to its peer, is seen. Its counters are
// the kernel's.
func TestFollows(t *testing.T) {
	b := newBench(t, time.Hour)
	updates := b.watch(t, "Ethernet2")
	expect(t, "at first", updates, "UP")
	b.ns.Up(t, "h2", false) // the peer: the carrier is gone
	expect(t, "without a carrier", updates, "DOWN")
	b.await(t, "port 2 down", func(e event) bool { return e.port == 2 && !e.up })
	if v := b.get(t, path("Ethernet2", "state", "admin-status")).GetStringVal(); v != "UP" {
		t.Errorf("admin-status %s", v)
	}
	b.ns.Up(t, "h2", true)
	expect(t, "with it again", updates, "UP")

	link, err := netlink.LinkByName("s1-eth2")
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkDel(link); err != nil {
		t.Fatal(err)
	}
	expect(t, "removed", updates, "DOWN")
	if err := b.set(t, "Ethernet2", false); err == nil {
		t.Error("an interface that was removed can be disabled")
	}
	b.ns.Veth(t, "s1-eth2", "h2", 1500)
	expect(t, "there again", updates, "UP")

	out, err := port.OpenInterface("h2", port.InterfaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // the test is over
	frame := make([]byte, 100)
	frame[12], frame[13] = 0x88, 0xb5
	out.Send([][]byte{frame, frame, frame})
	for deadline := time.Now().Add(patience); ; {
		v := b.get(t, path("Ethernet2", "state", "counters", "in-octets")).GetUintVal()
		if v == 300 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("in-octets %d, want 300", v)
		}
	}
}

// A port is closed, opened and closed again, by a sidecar that was there all
// the time and by one that was started in between, on an interface that was made
// anew under it too.
func TestInjectAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		between func(*testing.T, *bench)
	}{
		{"same sidecar", func(*testing.T, *bench) {}},
		{"sidecar restarted", func(t *testing.T, b *bench) { b.stop(); b.start(t) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, time.Hour)
			for round := range 3 {
				if err := b.set(t, "s1-eth1", false); err != nil {
					t.Fatal(err)
				}
				c.between(t, b)
				if diff := cmp.Diff("enabled false, DOWN", b.state(t)); diff != "" {
					t.Fatalf("round %d, closed: %s", round, diff)
				}
				if b.ns.IsUp(t, "s1-eth1") {
					t.Fatalf("round %d: the interface is up", round)
				}
				b.await(t, "port 1 down", func(e event) bool { return e.port == 1 && !e.up })
				if err := b.set(t, "s1-eth1", true); err != nil {
					t.Fatal(err)
				}
				c.between(t, b)
				b.awaitState(t, "opened", "enabled true, UP")
				b.await(t, "port 1 up", func(e event) bool { return e.port == 1 && e.up })
			}
			for round := range 2 {
				if err := b.set(t, "s1-eth1", false); err != nil {
					t.Fatal(err)
				}
				b.recreate(t, func() { c.between(t, b) })
				b.awaitState(t, "made anew", "enabled true, UP")
				if err := b.set(t, "s1-eth1", false); err != nil {
					t.Fatal(err)
				}
				if b.ns.IsUp(t, "s1-eth1") {
					t.Fatalf("round %d: the new interface is up", round)
				}
				if err := b.set(t, "s1-eth1", true); err != nil {
					t.Fatal(err)
				}
				b.awaitState(t, "opened", "enabled true, UP")
			}
		})
	}
}

// What others do to an interface is its configuration, so that gNMI can undo it.
func TestOthersClose(t *testing.T) {
	b := newBench(t, time.Hour)
	b.ns.Up(t, "s1-eth1", false)
	b.awaitState(t, "closed by others", "enabled false, DOWN")
	if err := b.set(t, "s1-eth1", true); err != nil {
		t.Fatal(err)
	}
	b.awaitState(t, "opened", "enabled true, UP")
	if !b.ns.IsUp(t, "s1-eth1") {
		t.Error("the interface is down after it was enabled")
	}
}

// A Set that follows another at once is not undone by the news of the first.
func TestSetAtOnce(t *testing.T) {
	b := newBench(t, time.Hour)
	updates := b.watch(t, "s1-eth1")
	expect(t, "at first", updates, "UP")
	const rounds = 20
	for range rounds {
		for _, enabled := range []bool{false, true} {
			if err := b.set(t, "s1-eth1", enabled); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.awaitState(t, "in the end", "enabled true, UP")
	for range rounds {
		expect(t, "closed", updates, "DOWN")
		expect(t, "opened", updates, "UP")
	}
	select {
	case more := <-updates:
		t.Errorf("%s, though nobody did anything", more)
	default:
	}
}

// An interface that is stacked on another stays open, and loses its carrier.
func TestStacked(t *testing.T) {
	b := newBench(t, time.Hour)
	b.stop()
	stack := func() {
		b.ns.Rename(t, "s1-eth1", "lower")
		b.ns.Macvlan(t, "lower", "s1-eth1")
	}
	stack()
	b.start(t)
	if diff := cmp.Diff("enabled true, UP", b.state(t)); diff != "" {
		t.Fatal(diff)
	}
	for range 2 {
		if err := b.set(t, "s1-eth1", false); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff("enabled false, DOWN", b.state(t)); diff != "" {
			t.Fatal(diff)
		}
		if b.ns.IsUp(t, "lower") || !b.ns.IsUp(t, "s1-eth1") {
			t.Fatalf("up: lower %v, the switch's %v", b.ns.IsUp(t, "lower"), b.ns.IsUp(t, "s1-eth1"))
		}
		b.stop()
		b.start(t)
		if diff := cmp.Diff("enabled false, DOWN", b.state(t)); diff != "" {
			t.Fatal("after a restart", diff)
		}
		if err := b.set(t, "s1-eth1", true); err != nil {
			t.Fatal(err)
		}
		b.awaitState(t, "opened", "enabled true, UP")
		b.ns.Up(t, "lower", false)
		b.awaitState(t, "closed by others", "enabled false, DOWN")
		b.recreate(t, func() {})
		b.awaitState(t, "a plain one", "enabled true, UP")
		stack()
		b.awaitState(t, "stacked again", "enabled true, UP")
	}
}

// A program that lost its state is notified of a dead port again, with the epoch
// it had.
func TestRefresh(t *testing.T) {
	b := newBench(t, 20*time.Millisecond)
	if err := b.set(t, "s1-eth1", false); err != nil {
		t.Fatal(err)
	}
	down := b.await(t, "port 1 down", func(e event) bool { return e.port == 1 && !e.up })
	for range 3 {
		again := b.await(t, "port 1 down again", func(e event) bool { return e.port == 1 })
		if diff := cmp.Diff(down, again, cmp.AllowUnexported(event{})); diff != "" {
			t.Error(diff)
		}
		b.await(t, "port 2 up again", func(e event) bool { return e.port == 2 && e.up })
	}
}

func TestBadConfig(t *testing.T) {
	porttest.Enter(t)
	one := []sidecar.Interface{{Number: 1, Device: "a"}}
	for _, c := range []struct {
		name string
		cfg  sidecar.Config
		want string
	}{
		{"none", sidecar.Config{}, "sidecar: no interfaces"},
		{"refresh", sidecar.Config{Interfaces: one, Refresh: -1}, "sidecar: refresh -1ns is negative"},
		{"twice", sidecar.Config{Interfaces: append(one, one...)}, "sidecar: interface a is given twice"},
		{"number", sidecar.Config{Interfaces: []sidecar.Interface{{Number: 1, Device: "a"}, {Number: 1, Device: "b"}}}, "switch: two ports have the number 1"},
		{"event interface", sidecar.Config{Interfaces: one, EventInterface: "nowhere", PortEvents: eventPackets}, "port: interface nowhere: route ip+net: no such network interface"},
		{"no format of events", sidecar.Config{Interfaces: one, EventInterface: "lo"}, "sidecar: an event interface, but no format of port events"},
		{"event port", sidecar.Config{Interfaces: []sidecar.Interface{{Number: 512, Device: "a"}}, EventInterface: "lo", PortEvents: eventPackets}, "sidecar: port 512 of a: port events know ports below 512"},
	} {
		t.Run(c.name, func(t *testing.T) {
			porttest.Enter(t)
			s, err := sidecar.New(c.cfg)
			if err == nil {
				s.Close() //nolint:errcheck // it should not be there
				t.Fatal("no error")
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
