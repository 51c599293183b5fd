package tagger

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/rlimit"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// Tagger sets path labels in packets that other programs send, by an eBPF program at the network interfaces. It is safe
// for concurrent use.
type Tagger struct {
	o      *objects
	at     []attachment
	pinDir string
	hook   Hook

	mu sync.Mutex // serialises writes of labels
}

var _ labeller.Discoverer = (*Tagger)(nil)

// attachment is the program at one interface.
type attachment interface {
	// release ends this process's hold. A pinned program stays.
	release() error
	// detach removes the program from the interface.
	detach() error
	// fresh reports whether this process attached the program, not an earlier one.
	fresh() bool
}

// Attach loads the eBPF program and attaches it to the interfaces. The error wraps [labeller.ErrNotPermitted] if the
// process lacks a privilege, [labeller.ErrUnsupported] if the kernel or an interface lacks a function, and
// [labeller.ErrInvalid] for an invalid configuration. After an error nothing stays attached.
func Attach(c Config) (*Tagger, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	// Before Linux 5.11 maps count as locked memory. If this fails, the next calls fail too, with a better error.
	_ = rlimit.RemoveMemlock()
	if c.PinDir != "" {
		var err error
		if c.PinDir, err = pinDirectory(c.PinDir); err != nil {
			return nil, err
		}
	}
	o, err := load(&c)
	if err != nil {
		return nil, err
	}
	t := &Tagger{o: o, pinDir: c.PinDir, hook: c.Hook}
	for _, name := range c.Interfaces {
		if err := t.attach(name); err != nil {
			return nil, errors.Join(err, t.undo())
		}
	}
	return t, nil
}

// undo removes the program from the interfaces where this process attached it. An earlier process's stays.
func (t *Tagger) undo() error {
	var errs []error
	var taken []attachment
	for _, a := range t.at {
		if a.fresh() {
			errs = append(errs, a.detach())
		} else {
			taken = append(taken, a)
		}
	}
	t.at = taken
	return errors.Join(append(errs, t.Close())...)
}

// attach attaches to one interface. The first interface decides whether TCX is used: all get the same hook.
func (t *Tagger) attach(name string) error {
	dev, err := device(name)
	if err != nil {
		return err
	}
	var a attachment
	if t.hook != Clsact {
		if a, err = attachTCX(t.o.Program, dev, t.pinDir); err == nil {
			t.hook = TCX
		} else if t.hook == TCX || !errors.Is(err, ebpf.ErrNotSupported) {
			return explain("attach to "+name, err)
		}
	}
	if a == nil {
		if a, err = attachClsact(t.o.Program, dev, t.pinDir != ""); err != nil {
			return explain("attach to "+name, err)
		}
		t.hook = Clsact
	}
	t.at = append(t.at, a)
	return nil
}

// Hook returns the hook in use: TCX or Clsact.
func (t *Tagger) Hook() Hook { return t.hook }

// key is struct qp of the program.
type key struct {
	Dst    [16]byte
	Number uint32
}

// labelled is struct label of the program.
type labelled struct{ Label, Used uint32 }

// count is struct count of the program.
type count struct{ Packets, Bytes uint64 }

// seenCount is struct seen_count of the program.
type seenCount struct {
	Count count
	Last  uint64 // ns
}

func keyOf(q labeller.QP) key { return key{q.Dst.As16(), q.Num} }

func (k key) qp() labeller.QP {
	return labeller.QP{Dst: netip.AddrFrom16(k.Dst).Unmap(), Num: k.Number}
}

// Set labels queue pairs from their next packet on, for [labeller.Labeller]. A label is replaced by one system call.
func (t *Tagger) Set(as ...labeller.Assignment) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range as {
		if err := a.Validate(); err != nil {
			return err
		}
		k, v := keyOf(a.QP), labelled{Label: uint32(a.Label)}
		err := t.o.Labels.Update(&k, &v, ebpf.UpdateExist)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			if err = t.o.Labels.Update(&k, &v, ebpf.UpdateAny); err == nil {
				err = ignoreError(t.o.Unlabelled.Delete(&k), ebpf.ErrKeyNotExist)
			}
		}
		if errors.Is(err, syscall.E2BIG) {
			return fmt.Errorf("%w: %v: %d can have a label", labeller.ErrFull, a.QP, t.o.Labels.MaxEntries())
		}
		if err != nil {
			return explain("label "+a.QP.String(), err)
		}
	}
	return nil
}

// Clear removes the labels of queue pairs, for [labeller.Labeller].
func (t *Tagger) Clear(qps ...labeller.QP) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, q := range qps {
		if q.Validate() != nil {
			continue // it has no label
		}
		k := keyOf(q)
		if err := ignoreError(t.o.Labels.Delete(&k), ebpf.ErrKeyNotExist); err != nil {
			return explain("clear "+q.String(), err)
		}
	}
	return nil
}

// Assignments returns the labels in force, for [labeller.Labeller].
func (t *Tagger) Assignments() ([]labeller.Assignment, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var as []labeller.Assignment
	var k key
	var v labelled
	it := t.o.Labels.Iterate()
	for it.Next(&k, &v) {
		as = append(as, labeller.Assignment{QP: k.qp(), Label: fabric.Label(v.Label)})
	}
	if err := it.Err(); err != nil {
		return nil, explain("read the labels", err)
	}
	labeller.Sort(as)
	return as, nil
}

// Unused returns labelled queue pairs without packets since the last call, for [labeller.Discoverer].
func (t *Tagger) Unused() ([]labeller.QP, error) {
	t.mu.Lock() // otherwise the code below could overwrite a label set meanwhile
	defer t.mu.Unlock()
	var idle []labeller.QP
	var used []key
	var values []labelled
	var k key
	var v labelled
	it := t.o.Labels.Iterate()
	for it.Next(&k, &v) {
		if v.Used == 0 {
			idle = append(idle, k.qp())
		} else {
			used, values = append(used, k), append(values, labelled{Label: v.Label})
		}
	}
	if err := it.Err(); err != nil {
		return nil, explain("read the labels", err)
	}
	for i := range used {
		if err := t.o.Labels.Update(&used[i], &values[i], ebpf.UpdateExist); err != nil {
			return nil, explain("mark the labels", err)
		}
	}
	return idle, nil
}

// Unlabelled returns queue pairs whose packets were seen without a label, for [labeller.Discoverer].
func (t *Tagger) Unlabelled() ([]labeller.Seen, error) {
	now, err := monotonic()
	if err != nil {
		return nil, explain("read the clock", err)
	}
	var out []labeller.Seen
	var k key
	var v seenCount
	it := t.o.Unlabelled.Iterate()
	for it.Next(&k, &v) {
		ago := max(0, now-time.Duration(v.Last))
		out = append(out, labeller.Seen{QP: k.qp(), Count: labeller.Count(v.Count), Ago: ago})
	}
	// Packets may move entries during the iteration.
	if err := ignoreError(it.Err(), ebpf.ErrIterationAborted); err != nil {
		return nil, explain("read the unlabelled queue pairs", err)
	}
	labeller.SortSeen(out)
	return out, nil
}

// Counters returns how many packets were labelled, by label and by reason, for [labeller.Labeller]. It reads 16,384
// counters per processor: ask every second, not every millisecond.
func (t *Tagger) Counters() (labeller.Counters, error) {
	c := labeller.Counters{Labels: map[fabric.Label]labeller.Count{}}
	labels, err := sums(t.o.LabelCounts)
	if err != nil {
		return c, explain("read the counters", err)
	}
	for l, n := range labels {
		if n.Packets > 0 {
			c.Labels[fabric.Label(l)] = n
		}
	}
	reasons, err := sums(t.o.ReasonCounts)
	if err != nil {
		return c, explain("read the counters", err)
	}
	copy(c.Reasons[:], reasons)
	return c, nil
}

// sums reads a per-CPU array of counts and adds the processors' counts.
func sums(m *ebpf.Map) ([]labeller.Count, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	n := int(m.MaxEntries())
	keys, values := make([]uint32, n), make([]count, n*cpus)
	var cursor ebpf.MapBatchCursor
	got, err := m.BatchLookup(&cursor, keys, values, nil)
	switch {
	case errors.Is(err, ebpf.ErrNotSupported): // before Linux 5.14
		for i := range n {
			if err := m.Lookup(uint32(i), values[i*cpus:(i+1)*cpus]); err != nil {
				return nil, err
			}
		}
	case err != nil && !errors.Is(err, ebpf.ErrKeyNotExist): // the end of the map
		return nil, err
	case got != n:
		return nil, fmt.Errorf("map %s: %d of %d counters read", m, got, n)
	}
	out := make([]labeller.Count, n)
	for i, v := range values {
		out[i/cpus].Packets += v.Packets
		out[i/cpus].Bytes += v.Bytes
	}
	return out, nil
}

// Close frees the labeller's resources, for [labeller.Labeller]. It removes the program from the interfaces, or with
// [Config.PinDir] leaves it there.
func (t *Tagger) Close() error {
	var errs []error
	for _, a := range t.at {
		errs = append(errs, a.release())
	}
	t.o.close()
	return errors.Join(errs...)
}

// Remove removes the program from the interfaces and everything pinned. Call it instead of Close.
func (t *Tagger) Remove() error {
	var errs []error
	for _, a := range t.at {
		errs = append(errs, a.detach())
	}
	t.o.close()
	if t.pinDir != "" {
		for _, name := range pinned {
			errs = append(errs, ignoreError(os.Remove(filepath.Join(t.pinDir, name)), fs.ErrNotExist))
		}
		// It fails, and the folder stays, if other files are there.
		_ = os.Remove(t.pinDir)
	}
	return errors.Join(errs...)
}

func ignoreError(err, what error) error {
	if errors.Is(err, what) {
		return nil
	}
	return err
}

// explain returns an error that says what failed, why, and what would help.
func explain(what string, err error) error {
	var refused *ebpf.VerifierError
	switch {
	case errors.As(err, &refused) && !errors.Is(err, syscall.EPERM):
		return fmt.Errorf("tagger: %s: the kernel's verifier refuses the program: %w", what, err)
	case errors.Is(err, fs.ErrPermission): // EPERM, EACCES
		return fmt.Errorf("%w: tagger: %s: it needs CAP_BPF and CAP_NET_ADMIN outside user namespaces (root has them); "+
			"without it, only this program's own packets can be labelled: %w", labeller.ErrNotPermitted, what, err)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, syscall.ENOSYS):
		return fmt.Errorf("%w: tagger: %s: the kernel lacks a feature (it needs Linux 5.8 or later with BPF and NET_CLS_BPF); "+
			"without it, only this program's own packets can be labelled: %w", labeller.ErrUnsupported, what, err)
	case errors.Is(err, ebpf.ErrMapIncompatible):
		return fmt.Errorf("%w: tagger: %s: the pin directory holds the maps of another configuration or version; remove it: %w",
			labeller.ErrInvalid, what, err)
	}
	return fmt.Errorf("tagger: %s: %w", what, err)
}
