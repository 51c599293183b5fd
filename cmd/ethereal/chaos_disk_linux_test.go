package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/controller/eventlog"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/daemon"
)

// Bytes of a controller's disks.
const (
	stateDisk = 1 << 20
	logDisk   = 32 << 20
)

// mountDisks gives each controller a disk for its state and one for its event log, and each agent one for its state.
func (c *chaos) mountDisks() {
	c.t.Helper()
	err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "")
	mount := func(path string, size int) {
		err = errors.Join(err, os.MkdirAll(path, 0o700))
		err = errors.Join(err, syscall.Mount("tmpfs", path, "tmpfs", 0, "size="+strconv.Itoa(size)))
		c.t.Cleanup(func() { syscall.Unmount(path, syscall.MNT_DETACH) }) //nolint:errcheck // the namespace takes it along
	}
	for i := range 2 {
		mount(filepath.Dir(c.stateFile(i)), stateDisk)
		mount(filepath.Dir(c.eventLog(i)), logDisk)
	}
	for _, h := range c.agents {
		mount(filepath.Dir(c.agentState(h)), stateDisk)
	}
	if err != nil {
		c.t.Skipf("no tmpfs of the namespace's own: %v", err)
	}
}

// diskEvents are failures of what is below a process: its disks and descriptors.
func diskEvents() []chaosEvent {
	return []chaosEvent{
		{"disk full", 6, func(c *chaos) (string, func()) {
			i := c.rng.IntN(2)
			dirs := []string{filepath.Dir(c.stateFile(i)), filepath.Dir(c.eventLog(i))}
			c.endPage(c.eventLog(i))
			for _, d := range dirs {
				c.fill(d)
			}
			c.refused(i)
			up := c.flip()
			return fmt.Sprint("controller", i), func() {
				up()
				for _, d := range dirs {
					os.Remove(filepath.Join(d, "filler")) //nolint:errcheck // converging shows it
				}
				c.drainLasts(i)
			}
		}, false},
		{"disk read-only", 5, func(c *chaos) (string, func()) {
			i := c.rng.IntN(2)
			dir := filepath.Dir(c.stateFile(i))
			c.readOnly(dir, true)
			c.refused(i)
			return fmt.Sprint("controller", i), func() {
				c.readOnly(dir, false)
				c.drainLasts(i)
			}
		}, false},
		{"log torn", 4, func(c *chaos) (string, func()) {
			i := c.rng.IntN(2)
			c.kill(fmt.Sprintf("controller%d", i))
			c.tear(i)
			return fmt.Sprint("controller", i), func() { c.startController(i, c.proxied[i], 1-i) }
		}, false},
		{"no descriptors", 6, func(c *chaos) (string, func()) {
			var names []string
			for i := range 2 {
				names = append(names, fmt.Sprintf("controller%d", i))
			}
			for i := range c.f.Switches() {
				names = append(names, c.f.Name(c.switchID(i)))
			}
			name := names[c.rng.IntN(len(names))]
			free := c.noDescriptors(name)
			for i := range 2 {
				for _, p := range c.proxies[i] {
					p.cut()
				}
			}
			up := c.flip()
			return name, func() { up(); free() }
		}, false},
		{"agent's disk full", 6, func(c *chaos) (string, func()) {
			h := c.agents[c.rng.IntN(len(c.agents))]
			dir := filepath.Dir(c.agentState(h))
			c.fill(dir)
			return c.f.Name(h), c.restartOnDisk(h, func() { os.Remove(filepath.Join(dir, "filler")) }) //nolint:errcheck // converging shows it
		}, false},
		{"agent's disk read-only", 5, func(c *chaos) (string, func()) {
			h := c.agents[c.rng.IntN(len(c.agents))]
			dir := filepath.Dir(c.agentState(h))
			c.readOnly(dir, true)
			return c.f.Name(h), c.restartOnDisk(h, func() { c.readOnly(dir, false) })
		}, false},
		{"agent's state torn", 4, func(c *chaos) (string, func()) {
			h := c.agents[c.rng.IntN(len(c.agents))]
			c.kill(c.f.Name(h))
			// What a loss of power leaves beside the state: replacing a file leaves the old one or the new one.
			if err := os.WriteFile(filepath.Join(filepath.Dir(c.agentState(h)), ".state.json-1"), []byte(`{"version": 2, "ho`), 0o600); err != nil {
				c.t.Fatal(err)
			}
			return c.f.Name(h), func() { c.startAgent(h) }
		}, false},
	}
}

// agentState is the file that keeps what an agent knows.
func (c *chaos) agentState(h fabric.NodeID) string {
	return c.folder("agent-"+c.f.Name(h), "state.json")
}

// restartOnDisk has a link fail while an agent cannot write, and kills and starts the agent meanwhile. What it returns
// mends the disk and the link.
func (c *chaos) restartOnDisk(h fabric.NodeID, mend func()) func() {
	up := c.flip()
	c.kill(c.f.Name(h))
	c.startAgent(h)
	return func() { mend(); up() }
}

// readStates finds every agent's state file whole: of the present form, with an epoch of a controller.
func (c *chaos) readStates() {
	c.t.Helper()
	for _, h := range c.agents {
		s, err := daemon.ReadState(c.agentState(h), h)
		if err != nil || s.Known() == nil {
			c.t.Errorf("the state of %s: %v, %v", c.f.Name(h), s, err)
			continue
		}
		c.t.Logf("%s: controller %s, epoch %d, %d links", c.f.Name(h), s.Instance, s.Epoch, len(s.Links))
	}
}

// endPage fills a file's last page with empty lines: the next byte needs a page more.
func (c *chaos) endPage(path string) {
	c.t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		page := int64(os.Getpagesize())
		_, err = f.Write(bytes.Repeat([]byte("\n"), int(page-info.Size()%page)))
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// fill leaves no room on a disk.
func (c *chaos) fill(dir string) {
	c.t.Helper()
	f, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		c.t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<16); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		c.t.Fatal(err)
	}
}

func (c *chaos) readOnly(dir string, on bool) {
	c.t.Helper()
	flags := uintptr(syscall.MS_REMOUNT)
	if on {
		flags |= syscall.MS_RDONLY
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", flags, ""); err != nil {
		c.t.Fatalf("%s: %v", dir, err)
	}
}

// tear cuts the end of a dead controller's event log off, as a loss of power does, and
// leaves a state file beside the one that holds.
func (c *chaos) tear(i int) {
	c.t.Helper()
	info, err := os.Stat(c.eventLog(i))
	if err == nil {
		err = os.Truncate(c.eventLog(i), max(0, info.Size()-1-c.rng.Int64N(150)))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(c.stateFile(i)), ".drained.json-1"), []byte(`{"links": [{"na`), 0o600)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// noDescriptors keeps a process from opening anything more, and returns what ends it.
func (c *chaos) noDescriptors(name string) func() {
	c.t.Helper()
	pid := c.procs[name].cmd.Process.Pid
	var old unix.Rlimit
	err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &old)
	if err == nil {
		err = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: old.Max}, nil)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &old, nil); err != nil {
			c.t.Fatalf("%s: %v", name, err)
		}
	}
}

// drain drains a link at a controller, or takes it back into use.
func (c *chaos) drain(i int, link string, more ...string) (code int, said string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	code, out, errs := etherealCommand(ctx, append([]string{"drain", link, "--admin=" + adminAddr(i),
		"--admin-token-file=" + filepath.Join(c.dir, "token")}, more...)...)
	return code, out + errs
}

func (c *chaos) uplink() string {
	return c.f.LinkName(fabric.LinkID(c.f.Hosts() + c.rng.IntN(c.f.Links()-c.f.Hosts())))
}

// refused asks a controller that cannot write for a drain: it says no, as often as it
// is asked, and drains nothing.
func (c *chaos) refused(i int) {
	c.t.Helper()
	link := c.uplink()
	for range 2 {
		if code, said := c.drain(i, link); code == exitOK {
			c.t.Errorf("controller %d cannot write, and drains %s: %s", i, link, said)
		}
	}
	s, err := c.status(i)
	if err != nil {
		c.t.Errorf("controller %d: %v", i, err)
	}
	for _, l := range s.NotUp {
		if l.Drained {
			c.t.Errorf("controller %d refused to drain %s, and has %s drained", i, link, l.Name)
		}
	}
}

// drainLasts drains a link, kills the controller, and finds the drain on disk and in
// the controller that is started again.
func (c *chaos) drainLasts(i int) {
	c.t.Helper()
	c.converge("before a drain")
	link := c.uplink()
	c.until(time.Minute, "a drain", func() error { // the other one may believe a link to be down still
		if code, said := c.drain(i, link); code != exitOK {
			return errors.New(strings.TrimSpace(said))
		}
		return nil
	})
	c.kill(fmt.Sprintf("controller%d", i))
	if text, err := os.ReadFile(c.stateFile(i)); err != nil || !bytes.Contains(text, []byte(`"drained": true`)) {
		c.t.Errorf("%s is drained, and the state file is %s, %v", link, text, err)
	}
	c.startController(i, c.proxied[i], 1-i)
	c.until(time.Minute, "a drain survives a crash", func() error {
		s, err := c.status(i)
		for _, l := range s.NotUp {
			if l.Name == link && l.Drained && s.Ready {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("%s was drained; not up: %v", link, s.NotUp))
	})
	c.until(time.Minute, "the drain is undone", func() error {
		if code, said := c.drain(i, link, "--undo"); code != exitOK {
			return errors.New(strings.TrimSpace(said))
		}
		return nil
	})
}

// readLogs reads the controllers' event logs whole.
func (c *chaos) readLogs() {
	c.t.Helper()
	for i := range 2 {
		f, err := os.Open(c.eventLog(i))
		if err != nil {
			c.t.Error(err)
			continue
		}
		kinds, lost := map[string]int{}, 0
		cut, err := eventlog.Records(io.Reader(f), func(_ int, r eventlog.Record) error {
			kinds[r.Kind]++
			if r.Kind == "lost" {
				lost += r.Count
			}
			return nil
		})
		f.Close()
		if err != nil {
			c.t.Errorf("the event log of controller %d: %v", i, err)
		}
		c.t.Logf("controller %d: %d starts, %d lines cut off, %d records said to be lost", i, kinds["start"], len(cut), lost)
	}
}
