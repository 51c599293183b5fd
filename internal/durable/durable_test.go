package durable_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/durable"
	"github.com/ethereal-fabric/ethereal/internal/durable/durabletest"
)

// Every fault at every operation: what is answered done lasts, an error changed
// nothing, and a power loss leaves the old content or the new.
func TestReplaceUnderFaults(t *testing.T) {
	const path = "d/state"
	old, fresh := []byte("old content\n"), []byte("new content, which is longer\n")
	set := func() *durabletest.Disk {
		d := durabletest.New()
		if err := durable.Replace(d, path, old); err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := set()
	before := len(d.Ops)
	if err := durable.Replace(d, path, fresh); err != nil {
		t.Fatal(err)
	}
	points := d.Ops[before:]
	t.Logf("%d points %v, %d faults", len(points), points, len(durabletest.Faults()))
	for at, name := range points {
		for _, fault := range durabletest.Faults() {
			for _, every := range []bool{false, true} {
				d := set()
				d.At, d.Fault, d.Every = before+at, fault, every
				err := durable.Replace(d, path, fresh)
				unsure := errors.Is(err, durable.ErrUnsure) || errors.Is(err, durabletest.ErrPower)
				now := d.Now(path)
				switch {
				case err == nil && !bytes.Equal(now, fresh), err != nil && !unsure && !bytes.Equal(now, old):
					t.Errorf("%v at %s: %v, and the file holds %q", fault, name, err, now)
				case fault != durabletest.None && err == nil:
					t.Errorf("%v at %s went unnoticed", fault, name)
				}
				for _, got := range d.Restarts(path) {
					if !bytes.Equal(got, old) && !bytes.Equal(got, fresh) || err == nil && !bytes.Equal(got, fresh) || err != nil && !unsure && !bytes.Equal(got, old) {
						t.Errorf("%v at %s: %v, and after a restart the file may hold %q", fault, name, err, got)
					}
				}
				if n := d.Names(); !every && !unsure && len(n) != 1 {
					t.Errorf("%v at %s leaves %v", fault, name, n)
				}
			}
		}
	}
	for _, got := range d.Restarts(path) {
		if !bytes.Equal(got, fresh) {
			t.Errorf("done, and after a restart the file may hold %q", got)
		}
	}
}

// On the real file system.
func TestReplace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	for _, text := range []string{"one", "two"} {
		if err := durable.Replace(durable.OS, path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := durable.Replace(durable.OS, filepath.Join(path, "below a file"), nil); err == nil {
		t.Error("a folder that is none was taken")
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}
