package rollout

import (
	"fmt"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/damping"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// started returns a core of a fat-tree whose switches have their tables, and a link of it.
func started(t testing.TB, k int, link string) (*Core, fabric.End) {
	t.Helper()
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: k})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(0, Config{
		Core:    controller.Config{Fabric: f, Instance: "test", CarrierV4: controller.UDPSourcePort},
		Damping: damping.Config{Off: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Switches() {
		id := fabric.NodeID(f.Hosts() + i)
		c.TablesRead(0, id, c.Tables().Desired(id), 0)
	}
	c.Ready(0)
	id, err := f.LinkByName(link)
	if err != nil {
		t.Fatal(err)
	}
	return c, f.Link(id).A
}

// TestNewsFirst has a link go down: the notice is there before tables are computed, once.
func TestNewsFirst(t *testing.T) {
	c, end := started(t, 4, "agg0-core0")
	now := fabric.Millisecond
	c.PortState(now, end.Node, end.Port, false)
	news := c.TakeNotices(now)
	if len(news.Notices) != 1 || len(news.Writes) != 0 || c.Writing() {
		t.Errorf("the news has %d notices and %d writes; a change is being written: %v", len(news.Notices), len(news.Writes), c.Writing())
	}
	if r := c.Ready(now); len(r.Notices) != 0 || len(r.Events) != 0 || len(r.Writes) == 0 || !c.Writing() {
		t.Errorf("then %d notices, %d events, %d writes; a change is being written: %v", len(r.Notices), len(r.Events), len(r.Writes), c.Writing())
	}
}

// BenchmarkBadNews takes the time from a port's state to the notice: as it is carried out,
// and with the tables computed before. One in a hundred of the other links is down.
func BenchmarkBadNews(b *testing.B) {
	for _, link := range []string{"tor0-agg0", "agg0-core0"} {
		for name, notices := range map[string]func(*Core, fabric.Time) Ready{"news": (*Core).TakeNotices, "with tables": (*Core).Ready} {
			b.Run(fmt.Sprintf("k=64/%s/%s", link, name), func(b *testing.B) {
				c, end := started(b, 64, link)
				now := fabric.Millisecond
				for l := c.f.Hosts() + 50; l < c.f.Links(); l += 100 {
					down := c.f.Link(fabric.LinkID(l)).A
					c.PortState(now, down.Node, down.Port, false)
				}
				c.settle(now)
				for b.Loop() {
					c.PortState(now, end.Node, end.Port, false)
					if len(notices(c, now).Notices) != 1 {
						b.Fatal("there is no notice")
					}
					b.StopTimer()
					c.settle(now)
					c.PortState(now, end.Node, end.Port, true)
					c.settle(now)
					b.StartTimer()
				}
			})
		}
	}
}

// settle has all writes answered.
func (c *Core) settle(now fabric.Time) {
	for c.Ready(now); c.Writing(); c.Ready(now) {
		for id := range c.writes {
			c.Written(now, id, Acknowledged)
		}
	}
}
