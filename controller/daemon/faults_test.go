package daemon

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/ethereal-fabric/ethereal/internal/durable/durabletest"
)

// A drain that cannot be written down is refused, as often as it is asked for, and
// nothing is drained; one that is answered done is on disk. At every point, by every
// fault.
func TestDrainUnderDiskFaults(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		disk := durabletest.New()
		const path = "d/drained.json"
		r := l.run(func(c *Config) { c.StateFile, c.Files = path, disk })
		waitIdle(r)
		drain := func(undo bool) error {
			_, err := r.Drain(context.Background(), "agg0", undo, false)
			synctest.Wait()
			return err
		}
		if err := errors.Join(drain(false), drain(true)); err != nil {
			t.Fatal(err)
		}
		begin := len(disk.Ops)
		if err := errors.Join(drain(false), drain(true)); err != nil {
			t.Fatal(err)
		}
		points := (len(disk.Ops) - begin) / 2
		tried := 0
		for _, fault := range []durabletest.Fault{durabletest.NoSpace, durabletest.InputOutput, durabletest.ReadOnly, durabletest.ShortWrite} {
			for k := range points {
				old := bytes.Clone(disk.Now(path))
				for range 2 { // the second try is no better
					disk.At, disk.Fault = len(disk.Ops)+k, fault
					if err := drain(false); err == nil {
						t.Errorf("%v at operation %d: reported done", fault, k)
					}
					disk.Fault = durabletest.None
					if got := disk.Now(path); !bytes.Equal(got, old) {
						t.Errorf("%v at operation %d: the file is %s", fault, k, got)
					}
					if s := r.state(); len(s.NotUp) != 0 {
						t.Errorf("%v at operation %d: refused, and drained: %v", fault, k, s.NotUp)
					}
					tried++
				}
				if err := drain(false); err != nil {
					t.Fatal(err)
				}
				for _, got := range disk.Restarts(path) {
					if !bytes.Contains(got, []byte(`"drained": true`)) {
						t.Errorf("done, and after a restart the file may hold %q", got)
					}
				}
				if err := drain(true); err != nil {
					t.Fatal(err)
				}
			}
		}
		t.Logf("%d operations, %d faults tried", points, tried)
		l.check(r)
		r.stop()
	})
}
