package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/ethereal-fabric/ethereal/internal/durable/durabletest"
)

// TestSplitBrainUnderDiskFaults has two controllers that cannot reach each other, each primary of the switches that
// only it reaches, drain and undo links while their disks fail. A drain that is answered as done is on that
// controller's disk, and one that the disk did not take is in no table. Once they reach each other and the disks work,
// both know the same drains, on disk too, and the tables are as desired; not before.
func TestSplitBrainUnderDiskFaults(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		rng := rand.New(rand.NewPCG(1, 38))
		p := &peers{t: t, lis: map[string]*bufconn.Listener{}}
		const path = "d/drained.json"
		disks := map[string]*durabletest.Disk{"a": durabletest.New(), "b": durabletest.New()}
		live := map[string]*running{}
		for name, own := range map[string]uint64{"a": 9, "b": 1} {
			other := map[string]string{"a": "b", "b": "a"}[name]
			live[name] = l.run(func(c *Config) {
				c.Own, c.Dial, c.StateFile, c.Files = own, l.dialer(name), path, disks[name]
				p.join(other)(c)
			})
		}
		serve := func() (stop func()) {
			a, b := p.serve("a", live["a"]), p.serve("b", live["b"])
			return func() { a(); b() }
		}
		stop := serve()
		for _, r := range live {
			waitIdle(r)
		}
		switches := slices.Sorted(maps.Keys(l.switches))
		disk := func(name string, f func(*durabletest.Disk)) { // in the controller's loop, which is what uses the disk
			if err := live[name].runInLoop(context.Background(), func() { f(disks[name]) }); err != nil {
				t.Fatal(err)
			}
		}
		content := func(name string) (text []byte) {
			disk(name, func(d *durabletest.Disk) { text = bytes.Clone(d.Now(path)) })
			return text
		}
		onDisk := func(name string) map[string]bool { // links that are drained, by the file
			var file drainedFile
			if text := content(name); text != nil {
				if err := json.Unmarshal(text, &file); err != nil {
					t.Fatalf("the state file of %s: %v: %s", name, err, text)
				}
			}
			out := map[string]bool{}
			for _, x := range file.Links {
				if x.Drained {
					out[x.Name] = true
				}
			}
			return out
		}
		inCore := func(name string) map[string]bool {
			out := map[string]bool{}
			for _, x := range live[name].state().NotUp {
				if x.Drained {
					out[x.Name] = true
				}
			}
			return out
		}
		links := []string{"agg0-core0", "agg0-core1", "agg1-core2", "tor5-agg4", "tor5-agg5", "tor0-agg0"}
		kinds := []durabletest.Fault{durabletest.NoSpace, durabletest.InputOutput, durabletest.ReadOnly, durabletest.ShortWrite}
		done, refused, unsure := 0, 0, 0
		for round := range 8 {
			stop()
			for i, name := range switches {
				l.block(route{[]string{"a", "b"}[(i+round)%2], name}, true)
			}
			time.Sleep(3 * time.Second) // mastership moves
			for range 6 {
				name := []string{"a", "b"}[rng.IntN(2)]
				link, undo := links[rng.IntN(len(links))], rng.IntN(3) == 0
				synctest.Wait()
				before, old := inCore(name)[link], content(name)
				if rng.IntN(2) == 0 {
					at, kind := rng.IntN(6), kinds[rng.IntN(len(kinds))]
					disk(name, func(d *durabletest.Disk) { d.At, d.Fault = len(d.Ops)+at, kind })
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				_, err := live[name].Drain(ctx, link, undo, false)
				cancel()
				synctest.Wait()
				var failed bool
				var restarts [][]byte
				disk(name, func(d *durabletest.Disk) {
					failed = d.Fault != durabletest.None && len(d.Ops) > d.At
					d.Fault, restarts = durabletest.None, d.Restarts(path)
				})
				is := inCore(name)[link]
				switch {
				case err == nil || errors.Is(err, ErrUnacknowledged): // here; the peer's switches are out of reach
					done++
					if is == undo {
						t.Fatalf("round %d: %s undo %v at %s is done, and drained is %v", round, link, undo, name, is)
					}
					for _, text := range restarts {
						want := fmt.Sprintf("%q,\n      \"drained\": %v", link, !undo)
						if before != is && !bytes.Contains(text, []byte(want)) {
							t.Fatalf("round %d: %s undo %v at %s is done, and a restart may find %s", round, link, undo, name, text)
						}
					}
				case failed && is != before: // the new content is there, and may not last
					unsure++
				case failed:
					refused++
					if got := content(name); !bytes.Equal(got, old) {
						t.Fatalf("round %d: %s at %s is refused, and the file has become %s", round, link, name, got)
					}
				}
				if d := onDisk(name); fmt.Sprint(d) != fmt.Sprint(inCore(name)) {
					t.Fatalf("round %d: %s has %v drained, and on its disk %v", round, name, inCore(name), d)
				}
			}
			// They meet while one disk takes nothing: it learns nothing that it would forget.
			bad := []string{"a", "b"}[rng.IntN(2)]
			synctest.Wait()
			kind := kinds[rng.IntN(len(kinds))]
			disk(bad, func(d *durabletest.Disk) { d.At, d.Fault, d.Every = len(d.Ops), kind, true })
			for _, name := range switches {
				for _, w := range []string{"a", "b"} {
					l.block(route{w, name}, false)
				}
			}
			stop = serve()
			time.Sleep(3 * peerInterval)
			synctest.Wait()
			if fmt.Sprint(onDisk(bad)) != fmt.Sprint(inCore(bad)) {
				t.Fatalf("round %d: the disk of %s takes nothing: it has %v drained, and on its disk %v", round, bad, inCore(bad), onDisk(bad))
			}
			disk(bad, func(d *durabletest.Disk) { d.Fault, d.Every = durabletest.None, false })
			time.Sleep(3 * peerInterval)
			for _, r := range live {
				waitIdle(r)
			}
			synctest.Wait()
			a, b := inCore("a"), inCore("b")
			if fmt.Sprint(a) != fmt.Sprint(b) || fmt.Sprint(a) != fmt.Sprint(onDisk("a")) || fmt.Sprint(b) != fmt.Sprint(onDisk("b")) {
				t.Fatalf("round %d: drained at a %v, on its disk %v; at b %v, on its disk %v", round, a, onDisk("a"), b, onDisk("b"))
			}
			l.check(live["a"])
		}
		t.Logf("%d drains done, %d refused by the disk, %d unsure", done, refused, unsure)
		if done == 0 || refused == 0 {
			t.Error("nothing was tried")
		}
		stop()
		for _, r := range live {
			r.stop()
		}
	})
}
