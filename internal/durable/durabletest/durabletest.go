// Package durabletest is a disk in memory that fails and loses power where a test requests it.
package durabletest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"github.com/ethereal-fabric/ethereal/internal/durable"
)

// ErrPower is returned by all operations after a power loss.
var ErrPower = errors.New("durabletest: the power is gone")

// Fault is a way in which a file operation fails.
type Fault uint8

// The faults. A power loss comes after the operation, the others replace it.
const (
	None Fault = iota
	NoSpace
	InputOutput
	ReadOnly
	ShortWrite // a write writes half of its bytes and reports that the disk is full
	PowerLoss
)

// Faults returns every [Fault] except None.
func Faults() []Fault { return []Fault{NoSpace, InputOutput, ReadOnly, ShortWrite, PowerLoss} }

func (f Fault) String() string {
	return [...]string{"none", "ENOSPC", "EIO", "EROFS", "short write", "power loss"}[f]
}

func (f Fault) err() error {
	return [...]error{nil, syscall.ENOSPC, syscall.EIO, syscall.EROFS, syscall.ENOSPC, ErrPower}[f]
}

// Disk is a file system of one folder, in memory, whose operations can be made to fail. It implements [durable.FS], and
// is not safe for concurrent use.
type Disk struct {
	At    int   // number of the failing operation, from 0
	Fault Fault // kind of fault to inject; None: no operation fails
	Every bool  // all operations after the faulty one fail, too

	Ops  []string // operations so far, in order
	dead bool

	names, lasting map[string]*inode // by path: now, and after a power loss
	made           int
}

type inode struct {
	now, lasting []byte
}

// New returns an empty disk.
func New() *Disk { return &Disk{names: map[string]*inode{}, lasting: map[string]*inode{}} }

// startOp counts an operation and returns its fault.
func (d *Disk) startOp(name string) (Fault, error) {
	if d.dead {
		return PowerLoss, ErrPower
	}
	n := len(d.Ops)
	d.Ops = append(d.Ops, name)
	if d.Fault == None || n < d.At || n > d.At && !d.Every {
		return None, nil
	}
	if d.Fault == PowerLoss {
		return PowerLoss, nil // after the operation
	}
	return d.Fault, d.Fault.err()
}

// finishOp completes an operation, whose fault is f.
func (d *Disk) finishOp(f Fault) error {
	if f == PowerLoss {
		d.dead = true
		return ErrPower
	}
	return nil
}

// CreateTemp implements durable.FS.
func (d *Disk) CreateTemp(dir, pattern string) (durable.File, error) {
	f, err := d.startOp("create")
	if err != nil {
		return nil, err
	}
	d.made++
	name := fmt.Sprintf("%s/%s%d", dir, pattern, d.made)
	d.names[name] = &inode{}
	return &file{d, name, d.names[name]}, d.finishOp(f)
}

// Rename implements durable.FS.
func (d *Disk) Rename(from, to string) error {
	f, err := d.startOp("rename")
	if err != nil {
		return err
	}
	d.names[to] = d.names[from]
	delete(d.names, from)
	return d.finishOp(f)
}

// Remove implements durable.FS.
func (d *Disk) Remove(name string) error {
	f, err := d.startOp("remove")
	if err != nil {
		return err
	}
	delete(d.names, name)
	return d.finishOp(f)
}

// SyncDir implements durable.FS.
func (d *Disk) SyncDir(string) error {
	f, err := d.startOp("sync folder")
	if err != nil {
		return err
	}
	d.lasting = maps.Clone(d.names)
	return d.finishOp(f)
}

// Now returns a file's content as a process sees it; nil if there is no such file.
func (d *Disk) Now(name string) []byte {
	if i := d.names[name]; i != nil {
		return i.now
	}
	return nil
}

// Names returns the names of the existing files.
func (d *Disk) Names() []string { return slices.Sorted(maps.Keys(d.names)) }

// Restarts returns the possible contents of a file after a power loss now: content that was not synced may be lost
// or not.
func (d *Disk) Restarts(name string) [][]byte {
	var out [][]byte
	for _, names := range []map[string]*inode{d.names, d.lasting} {
		i := names[name]
		if i == nil {
			out = append(out, nil)
			continue
		}
		out = append(out, i.now, i.lasting)
	}
	return out
}

type file struct {
	d    *Disk
	name string
	*inode
}

func (f *file) Name() string { return f.name }

func (f *file) Write(b []byte) (int, error) {
	fault, err := f.d.startOp("write")
	if fault == ShortWrite {
		f.now = append(f.now, b[:len(b)/2]...)
		return len(b) / 2, err
	}
	if err != nil {
		return 0, err
	}
	f.now = append(f.now, b...)
	return len(b), f.d.finishOp(fault)
}

func (f *file) Sync() error {
	fault, err := f.d.startOp("sync")
	if err != nil {
		return err
	}
	f.lasting = slices.Clone(f.now)
	return f.d.finishOp(fault)
}

func (f *file) Close() error {
	fault, err := f.d.startOp("close")
	if err != nil {
		return err
	}
	return f.d.finishOp(fault)
}
