package sim

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"pgregory.net/rapid"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// incast makes every host but the first send to the first, at line rate.
func incast(w *world, packets int) {
	for _, s := range w.stations[1:] {
		for i := range packets {
			s.orders = append(s.orders, order{payload: 9000, up: byte(int(s.id) % 2), up2: byte(i % 2)})
		}
	}
}

// Fifteen hosts send to one through buffers that hold a fraction of it: without
// flow control most is refused, with it nothing is.
func TestPFCIncast(t *testing.T) {
	spec := fabric.Spec{Kind: fabric.KindFatTree, K: 4}
	for _, c := range []struct {
		name  string
		pfc   PFC
		cores int
	}{
		{"off", PFC{}, 1},
		{"dynamic", PFC{Alpha: 1, Frame: wire}, 1},
		{"dynamic, two regions", PFC{Alpha: 1, Frame: wire}, 2},
		{"static", PFC{Xoff: 60e3, Frame: wire}, 1},
		{"static, far apart", PFC{Xoff: 60e3, Xon: 40e3, Frame: wire}, 1},
	} {
		w := newWorld(t, spec, Config{Buffer: 600e3, PFC: c.pfc, Regions: c.cores, Cores: c.cores})
		incast(w, 100)
		w.run(t, fabric.Second)
		tot := w.Totals()
		lost := tot.Dropped[DropBuffer]
		pauses, paused := int64(0), fabric.Time(0)
		for i := range 2 * w.fab.Links() {
			k := w.Counters(LinkDir(i))
			pauses += k.Pauses
			paused += k.Paused
		}
		if got := len(w.stations[0].got); int64(got)+lost != 1500 || tot.InFlight != 0 {
			t.Errorf("%s: %d packets arrived and %d were refused, of 1500; %d under way", c.name, got, lost, tot.InFlight)
		}
		if !c.pfc.Enabled() {
			if lost == 0 || pauses != 0 {
				t.Errorf("%s: %d refused, %d pauses; the test shows nothing", c.name, lost, pauses)
			}
			continue
		}
		// 1500 packets take the last link this long, and something less before.
		least := w.dirs[Downward(0)].rate.TimeFor(1500 * wire)
		if lost != 0 || pauses == 0 || paused == 0 || w.Now() > least+10*fabric.Microsecond {
			t.Errorf("%s: %d refused, %d pauses of %v in all, ended at %v, the last link needs %v",
				c.name, lost, pauses, paused, w.Now(), least)
		}
		if tot.Pauses != 2*pauses {
			t.Errorf("%s: %d pause frames for %d pauses", c.name, tot.Pauses, pauses)
		}
	}
}

// Whatever the traffic, thresholds and rates: no data is refused, all of it
// arrives, and in the end nobody is paused.
func TestPFCLossless(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		spec := rapid.SampledFrom([]fabric.Spec{
			{Kind: fabric.KindFatTree, K: 4},
			{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 3},
			{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 2, HostsPerToR: 3,
				HostLink: fabric.LinkSpec{Rate: 100 * fabric.Gbps, Delay: 2 * fabric.Microsecond}},
		}).Draw(rt, "spec")
		pfc := rapid.SampledFrom([]PFC{
			{Alpha: 0.125, Frame: wire}, {Alpha: 4, Frame: wire}, {Xoff: 20e3, Frame: wire}, {Xoff: 50e3, Xon: 1, Frame: wire},
		}).Draw(rt, "pfc")
		w := newWorld(t, spec, Config{Buffer: fabric.Bytes(rapid.IntRange(700_000, 1_000_000).Draw(rt, "buffer")), PFC: pfc})
		sent := 0
		for _, s := range w.stations {
			for range rapid.IntRange(0, 60).Draw(rt, "n") {
				dst := fabric.NodeID(rapid.IntRange(0, 2).Draw(rt, "dst"))
				if dst == s.id {
					continue
				}
				sent++
				s.orders = append(s.orders, order{
					dst: dst, payload: rapid.SampledFrom([]int{9000, 9000, 1, 4000}).Draw(rt, "payload"),
					up: byte(rapid.IntRange(0, 1).Draw(rt, "up")), up2: byte(rapid.IntRange(0, 1).Draw(rt, "up2")),
					priority: byte(rapid.SampledFrom([]int{0, 0, 0, 1}).Draw(rt, "priority")),
				})
			}
		}
		for at := fabric.Time(0); at < 40*fabric.Microsecond; at += 3_333_333 {
			if err := w.Run(context.Background(), at); err != nil {
				rt.Fatal(err)
			}
			w.checkConservation(rt)
		}
		w.run(t, fabric.Second)
		got := 0
		for _, s := range w.stations {
			got += len(s.got)
		}
		if refused := w.Totals().Dropped[DropBuffer]; refused != 0 || got != sent {
			rt.Errorf("%d refused, %d of %d arrived", refused, got, sent)
		}
		for i, s := range w.flow.senders {
			if s.held != 0 || s.paused || w.dirs[i].paused != 0 {
				rt.Errorf("%s: %d bytes held, asked to pause: %v, paused: %v", w.DirName(LinkDir(i)), s.held, s.paused, w.dirs[i].paused)
			}
		}
	})
}

// A cut of the direction that pause frames take ends the pause: what waits does not
// fill the buffer until the link is restored. Then both ends agree again, even if
// one direction only was cut.
func TestPFCAfterCut(t *testing.T) {
	for _, c := range []struct {
		name string
		dirs func(up LinkDir) []LinkDir
	}{
		{"both ways", func(up LinkDir) []LinkDir { return []LinkDir{up, up ^ 1} }},
		{"down first", func(up LinkDir) []LinkDir { return []LinkDir{up ^ 1, up} }},
		{"down only", func(up LinkDir) []LinkDir { return []LinkDir{up ^ 1} }},
		{"up only", func(up LinkDir) []LinkDir { return []LinkDir{up} }},
	} {
		for _, back := range []fabric.Time{100 * fabric.Nanosecond, 3 * fabric.Microsecond, 50 * fabric.Microsecond} {
			t.Run(c.name+" for "+back.String(), func(t *testing.T) {
				w := newWorld(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 3, Spines: 1, HostsPerToR: 2},
					Config{Buffer: 600e3, PFC: PFC{Xoff: 30e3, Frame: wire}})
				for _, s := range w.stations[1:] {
					for range 60 {
						s.orders = append(s.orders, order{payload: 9000})
					}
				}
				link, _ := w.fab.LinkBetween(w.fab.ToRID(1), w.fab.CoreID(0))
				up := Upward(link)
				for w.dirs[up].paused == 0 { // until tor1 has received the pause
					if err := w.Run(context.Background(), w.Now()+100*fabric.Nanosecond); err != nil {
						t.Fatal(err)
					}
				}
				w.Cut(c.dirs(up)...)
				if deaf := w.IsDown(up ^ 1); deaf && w.dirs[up].paused != 0 {
					t.Error("the sender stays paused though nothing can resume it")
				}
				w.run(t, w.Now()+back)
				if waits, _ := w.Queued(up); back > 20*fabric.Microsecond && waits > 0 {
					t.Errorf("%d bytes wait at the link that is cut", waits)
				}
				w.Restore(c.dirs(up)...)
				w.run(t, fabric.Second)
				tot := w.Totals()
				if tot.InFlight != 0 || len(c.dirs(up)) > 1 && tot.Dropped[DropBuffer] != 0 {
					t.Errorf("%d packets stay where they are, %d were refused", tot.InFlight, tot.Dropped[DropBuffer])
				}
				for i, s := range w.flow.senders {
					if s.held != 0 || s.paused || w.dirs[i].paused != 0 {
						t.Errorf("%s: %d bytes held, asked to pause: %v, paused: %v", w.DirName(LinkDir(i)), s.held, s.paused, w.dirs[i].paused)
					}
				}
			})
		}
	}
}

// A pause frame is one of 802.1Qbb.
func TestPauseFrame(t *testing.T) {
	w := newWorld(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 3},
		Config{Buffer: 600e3, PFC: PFC{Xoff: 30e3, Frame: wire}})
	incast(w, 20)
	var file bytes.Buffer
	if err := w.Tap(1, &file, TapConfig{}); err != nil {
		t.Fatal(err)
	}
	w.run(t, fabric.Second)
	r, err := pcapgo.NewReader(&file)
	if err != nil {
		t.Fatal(err)
	}
	timers := map[uint16]int{}
	for {
		data, _, err := r.ReadPacketData()
		if err != nil {
			break
		}
		eth, ok := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.Default).LinkLayer().(*layers.Ethernet)
		if !ok || eth.EthernetType != 0x8808 {
			continue
		}
		body := data[14:]
		if eth.DstMAC.String() != "01:80:c2:00:00:01" || len(data) != 60 || !bytes.Equal(body[:4], []byte{1, 1, 0, 1}) {
			t.Errorf("pause frame % x", data)
		}
		timers[uint16(body[4])<<8|uint16(body[5])]++
	}
	if timers[0xffff] == 0 || timers[0] == 0 || len(timers) != 2 {
		t.Errorf("pause times %v, want the longest and 0", timers)
	}
}

func TestPFCConfig(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]Config{
		"both thresholds":   {PFC: PFC{Xoff: 1e5, Alpha: 1, Frame: wire}},
		"neither threshold": {PFC: PFC{Frame: wire}},
		"no frame":          {PFC: PFC{Alpha: 1}},
		"xon above xoff":    {PFC: PFC{Xoff: 1e5, Xon: 1e5, Frame: wire}},
		"no room":           {PFC: PFC{Xoff: 20e6, Frame: wire}},
		"no class":          {PFC: PFC{Alpha: 1, Frame: wire}, Classes: MaxClasses},
	} {
		c.Fabric = f
		if err := c.Validate(); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// storm lets host 0 pause its ToR from 2 us on, while hosts 2 and 3 send by the one uplink that they have: 2 to the
// stormer, 3 to host 1, which is beside the stormer and takes all it gets.
func storm(t *testing.T, packets int, cores int, pfc PFC) *world {
	w := newWorld(t, fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 1, HostsPerToR: 2},
		Config{Buffer: 600e3, PFC: pfc, Regions: cores, Cores: cores})
	for s := range 2 {
		for range packets {
			w.stations[2+s].orders = append(w.stations[2+s].orders, order{dst: fabric.NodeID(s), payload: 9000})
		}
	}
	w.At(2*fabric.Microsecond, func(fabric.Time) { w.Storm(Downward(0), true) })
	return w
}

// A host that pauses its ToR holds up who shares a link with what it is sent, for as long as it does so, and nothing is
// lost.
func TestStorm(t *testing.T) {
	const packets, over = 200, 300 * fabric.Microsecond
	for _, cores := range []int{1, 2} {
		w := storm(t, packets, cores, PFC{Xoff: 30e3, Frame: wire})
		w.run(t, 100*fabric.Microsecond)
		before := len(w.stations[1].got)
		w.run(t, over)
		if got := len(w.stations[1].got); got != before || got >= packets/2 {
			t.Errorf("%d cores: the victim got %d packets up to 100 us, %d while it is paused", cores, before, got-before)
		}
		if got := len(w.stations[0].got); got > 20 {
			t.Errorf("%d cores: the stormer got %d packets", cores, got)
		}
		w.At(over, func(fabric.Time) { w.Storm(Downward(0), false) })
		w.run(t, fabric.Second)
		tot, c := w.Totals(), w.Counters(Downward(0))
		if len(w.stations[0].got) != packets || len(w.stations[1].got) != packets || tot.InFlight != 0 || w.lost() != 0 {
			t.Errorf("%d cores: %d and %d packets arrived, %+v", cores, len(w.stations[0].got), len(w.stations[1].got), tot)
		}
		if want := over - 2*fabric.Microsecond; c.Pauses != 1 || c.Paused != want {
			t.Errorf("%d cores: the stormer paused %d times for %v, want %v", cores, c.Pauses, c.Paused, want)
		}
	}
}

// With a watchdog the victim waits for that alone. What is sent to the stormer is dropped from then on, until the
// storm has been over for as long.
func TestWatchdog(t *testing.T) {
	const packets, after = 200, 50 * fabric.Microsecond
	for _, cores := range []int{1, 2} {
		w := storm(t, packets, cores, PFC{Xoff: 30e3, Frame: wire, Watchdog: after})
		w.run(t, 2*fabric.Microsecond+after-1)
		if got := w.lost(); got != 0 {
			t.Errorf("%d cores: %d packets dropped before it is time", cores, got)
		}
		w.run(t, 200*fabric.Microsecond)
		tot := w.Totals()
		stormer := len(w.stations[0].got)
		if len(w.stations[1].got) != packets || stormer+int(tot.Dropped[DropWatchdog]) != packets || tot.InFlight != 0 {
			t.Errorf("%d cores: victim %d, stormer %d; %+v", cores, len(w.stations[1].got), stormer, tot)
		}
		for i := range w.routers {
			if n := w.routers[i].live(); n != 0 {
				t.Errorf("%d cores: switch %d: %d handles are not given back", cores, i, n)
			}
		}
		if held := w.flow.senders[0].held; held != 0 {
			t.Errorf("%d cores: %d bytes are counted that wait no more", cores, held)
		}
		send := func(now fabric.Time) {
			w.stations[2].orders = append(w.stations[2].orders, order{at: now, payload: 9000})
			w.Wake(2)
		}
		end := 300 * fabric.Microsecond
		w.At(end, func(fabric.Time) { w.Storm(Downward(0), false) })
		w.At(end+after/2, send)
		w.At(end+after+1, send)
		w.run(t, fabric.Second)
		if got := len(w.stations[0].got); got != stormer+1 {
			t.Errorf("%d cores: %d of the packets sent after the storm arrived, want the second", cores, got-stormer)
		}
	}
}

// A storm does not cross a cut link, and does again when the link is back.
func TestStormCut(t *testing.T) {
	w := storm(t, 20, 1, PFC{Xoff: 30e3, Frame: wire})
	down := Downward(0)
	w.At(3*fabric.Microsecond, func(fabric.Time) {
		w.Cut(Upward(0))
		if w.dirs[down].paused != 0 {
			t.Error("it stays paused by frames that are lost")
		}
	})
	w.At(4*fabric.Microsecond, func(fabric.Time) {
		w.Restore(Upward(0))
		if w.dirs[down].paused == 0 {
			t.Error("it is not paused again")
		}
		w.Storm(down, false)
	})
	w.run(t, fabric.Second)
	if got := len(w.stations[0].got); got != 20 {
		t.Errorf("%d of 20 packets arrived", got)
	}
}

// lost returns how many packets switches dropped.
func (w *world) lost() (n int64) {
	for _, count := range w.Totals().Dropped {
		n += count
	}
	return n
}
