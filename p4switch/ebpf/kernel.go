package ebpf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	bpf "github.com/cilium/ebpf"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// ErrVerifier is what a program that the kernel does not take fails with.
var ErrVerifier = errors.New("the kernel's verifier refuses the program")

// Switch is a program in the kernel with its maps. It is not safe for
// concurrent use, but for the packets.
type Switch struct {
	sw      *interp.Switch
	lowered *lowered
	coll    *bpf.Collection
	clock   uint64
	epoch   uint64
	queues  map[uint32]Queue
	failed  error                         // of copying a register
	copies  map[program.TableID]tableCopy // what the tables' maps hold
	round   uint64                        // of Sync
	changed map[program.TableID]struct{}  // tables that are not as the interpreter's
}

// tableCopy is what a table's map holds, by key.
type tableCopy map[string]*copied

type copied struct {
	value []byte
	round uint64 // of Sync that saw it last
}

// Mark is what packets that go up are marked with.
const Mark = 0xe7e4_0001

// Config sets up a switch in the kernel.
type Config struct {
	QueuesPerPort int               // as interp.Config
	DropPort      uint32            // as interp.Config
	CPUPort       uint32            // as lowerConfig
	Mark          uint32            // as lowerConfig
	Ports         map[uint32]uint32 // interface index by port
	Queues        map[uint32]Queue  // below interfaces, by index
	Epoch         uint64            // reading of the kernel's clock (ns) that is the switch's zero
	Stopped       bool              // the clock stands still at zero: what goes out depends on packets and tables only
}

// Load puts the switch's program and its tables as they are into the kernel.
func Load(sw *interp.Switch, cfg Config) (*Switch, error) {
	low, err := lower(sw.Program(), lowerConfig{
		QueuesPerPort: cfg.QueuesPerPort, DropPort: cfg.DropPort, CPUPort: cfg.CPUPort, Mark: cfg.Mark,
		Random: !cfg.Stopped,
	})
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	return load(sw, low, cfg)
}

func load(sw *interp.Switch, low *lowered, cfg Config) (*Switch, error) {
	s := &Switch{sw: sw, lowered: low, clock: ^uint64(0), epoch: cfg.Epoch, queues: cfg.Queues,
		copies: map[program.TableID]tableCopy{}, changed: map[program.TableID]struct{}{}}
	if cfg.Stopped {
		s.clock, s.epoch = 0, 0
	}
	spec := &bpf.CollectionSpec{
		Maps: s.maps(),
		Programs: map[string]*bpf.ProgramSpec{"p4switch": {
			Name: "p4switch", Type: bpf.SchedCLS, License: "GPL", Instructions: low.Instructions,
		}},
	}
	var err error
	if s.coll, err = bpf.NewCollection(spec); err != nil {
		if v, ok := errors.AsType[*bpf.VerifierError](err); ok {
			return nil, fmt.Errorf("kernel: %w of %d instructions: %s", ErrVerifier, len(low.Instructions), last(v.Log, 3))
		}
		return nil, fmt.Errorf("kernel: load the program of %d instructions: %w (root, or CAP_BPF and CAP_NET_ADMIN, is needed)",
			len(low.Instructions), err)
	}
	if err := s.fill(cfg); err != nil {
		s.Close()
		return nil, err
	}
	sw.AddCounting(s)
	sw.WatchTables(func(id program.TableID) { s.changed[id] = struct{}{} })
	return s, nil
}

func last(l []string, n int) string { return fmt.Sprint(l[max(0, len(l)-n):]) }

// maps describes the program's maps.
func (s *Switch) maps() map[string]*bpf.MapSpec {
	o := s.lowered
	m := map[string]*bpf.MapSpec{
		"scratch":  {Type: bpf.PerCPUArray, KeySize: 4, ValueSize: uint32(o.ScratchSize), MaxEntries: 1},
		"control":  {Type: bpf.Array, KeySize: 4, ValueSize: uint32(o.ControlSize), MaxEntries: 1},
		"fates":    {Type: bpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: uint32(FateUp + len(o.Up))},
		"port_in":  {Type: bpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 1024},
		"port_out": {Type: bpf.Hash, KeySize: 4, ValueSize: uint32(binary.Size(loweredPort{})), MaxEntries: 1024},
		"crc":      {Type: bpf.Array, KeySize: 4, ValueSize: uint32(2048 * max(1, len(o.CRCs))), MaxEntries: 1},
	}
	counters := s.sw.Program().Counters
	for _, c := range o.Counted {
		m[fmt.Sprintf("c%d", c)] = &bpf.MapSpec{Type: bpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: uint32(max(1, counters[c].Size))}
	}
	registers := s.sw.Program().Registers
	for _, r := range o.Read {
		m[fmt.Sprintf("r%d", r)] = &bpf.MapSpec{Type: bpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: uint32(registers[r].Size)}
	}
	for i := range o.Tables {
		t := &o.Tables[i]
		if !t.Keyed {
			continue
		}
		ms := &bpf.MapSpec{
			Type: bpf.Hash, KeySize: uint32(t.KeySize), ValueSize: uint32(t.ValueSize), Flags: noPrealloc,
			MaxEntries: 2 * uint32(t.MaxEntries), // Sync has the new ones beside the old for a while
		}
		if t.Trie {
			ms.Type = bpf.LPMTrie
		}
		m[fmt.Sprintf("t%d", t.ID)] = ms
		if t.Counted {
			m[fmt.Sprintf("d%d", t.ID)] = &bpf.MapSpec{Type: bpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: uint32(t.MaxEntries) + 1} // the last is the default entry's
		}
	}
	for name, ms := range m {
		ms.Name = name
	}
	return m
}

const noPrealloc = 1 // BPF_F_NO_PREALLOC

func (s *Switch) fill(cfg Config) error {
	cpus, err := bpf.PossibleCPU()
	if err != nil {
		return fmt.Errorf("kernel: %w", err)
	}
	scratch := make([]byte, 0, s.lowered.ScratchSize)
	for _, w := range s.lowered.Scratch {
		scratch = binary.NativeEndian.AppendUint64(scratch, w)
	}
	if err := s.coll.Maps["scratch"].Put(uint32(0), slices.Repeat([][]byte{scratch}, cpus)); err != nil {
		return fmt.Errorf("kernel: scratch: %w", err)
	}
	if m := s.coll.Maps["crc"]; len(s.lowered.CRCs) > 0 && m != nil {
		var b []byte
		for i := range s.lowered.CRCs {
			for _, w := range s.lowered.CRCs[i] {
				b = binary.NativeEndian.AppendUint64(b, w)
			}
		}
		if err := m.Put(uint32(0), b); err != nil {
			return fmt.Errorf("kernel: tables of CRCs: %w", err)
		}
	}
	for port, index := range cfg.Ports {
		if err := s.SetPort(port, index); err != nil {
			return err
		}
	}
	for _, id := range s.lowered.Read {
		m := s.coll.Maps[fmt.Sprintf("r%d", id)]
		if m == nil {
			continue // no path that is left reads it
		}
		err := s.sw.WatchRegister(id, func(index, value uint64) {
			if err := m.Put(uint32(index), value); err != nil && s.failed == nil { // one does: packets write without end
				s.failed = fmt.Errorf("kernel: register %d: cell %d: %w", id, index, err)
			}
		})
		if err := errors.Join(err, s.failed); err != nil {
			return err
		}
	}
	for i := range s.lowered.Tables {
		if err := s.Sync(s.lowered.Tables[i].ID); err != nil {
			return err
		}
	}
	return s.control()
}

// ClosePort has the kernel drop what is to leave by a port, until SetPort.
func (s *Switch) ClosePort(port uint32) error {
	if err := s.coll.Maps["port_out"].Put(port, loweredPort{}); err != nil {
		return fmt.Errorf("kernel: port %d: %w", port, err)
	}
	return nil
}

// SetPort says which interface a port is. Its queue is empty then.
func (s *Switch) SetPort(port, index uint32) error {
	if err := s.coll.Maps["port_in"].Put(index, port); err != nil {
		return fmt.Errorf("kernel: port %d: %w", port, err)
	}
	p := loweredPort{Index: index}
	if q := s.queues[index]; q.Rate > 0 && s.lowered.Queues {
		p.Rate, p.Longest = max(1, 1024*1e9/q.Rate), q.Limit*1e9/q.Rate
	}
	if err := s.coll.Maps["port_out"].Put(port, p); err != nil {
		return fmt.Errorf("kernel: port %d: %w", port, err)
	}
	return nil
}

// Waits is how long a packet that leaves by a port now, by the switch's clock in ns, waits in the queue below, and
// behind how many. It is 0 where the queue's rate is not known, or the program does not ask.
func (s *Switch) Waits(port uint32, now int64) (ns int64, packets uint32) {
	if p, ok := s.queue(port); ok {
		n, k := p.Waits(uint64(now))
		return int64(n), uint32(k)
	}
	return 0, 0
}

// Sent has a packet that the interpreter sends wait there. One that the kernel sends at the same moment may be forgotten.
func (s *Switch) Sent(port uint32, now int64, bytes int) {
	if p, ok := s.queue(port); ok {
		p.Send(uint64(now), bytes)
		s.coll.Maps["port_out"].Put(port, p) //nolint:errcheck // it was there: the queue is as it was
	}
}

// queue reads a port's queue, if it has a rate.
func (s *Switch) queue(port uint32) (p loweredPort, ok bool) {
	if !s.lowered.Queues || len(s.queues) == 0 {
		return p, false
	}
	err := s.coll.Maps["port_out"].Lookup(port, &p)
	return p, err == nil && p.Index != 0 && p.Rate > 0
}

// SetQueues says what queues are below interfaces, by index. SetPort has it hold for a port.
func (s *Switch) SetQueues(q map[uint32]Queue) { s.queues = q }

// Queue is what the kernel holds back packets with that leave by an interface.
type Queue struct {
	Rate  uint64 // bytes per second; 0: not known, or none
	Limit uint64 // bytes that wait
}

func (s *Switch) control() error {
	if err := s.coll.Maps["control"].Put(uint32(0), s.lowered.controlValue(s.sw, s.clock, s.epoch)); err != nil {
		return fmt.Errorf("kernel: control: %w", err)
	}
	return nil
}

// SyncChanged makes the kernel's copies of the tables that have changed since as
// the interpreter's are.
func (s *Switch) SyncChanged() error {
	for id := range s.changed {
		if err := s.Sync(id); err != nil {
			return err
		}
	}
	return nil
}

// Sync makes the kernel's copy of a table as the interpreter's is: what is new
// or changed first, then the default and the masks, then what is gone goes. An
// error leaves some of it undone, which the next Sync does.
func (s *Switch) Sync(id program.TableID) error {
	i := slices.IndexFunc(s.lowered.Tables, func(t loweredTable) bool { return t.ID == id })
	if i < 0 {
		delete(s.changed, id)
		return nil // a table whose packets go up, or that has one action only
	}
	t := &s.lowered.Tables[i]
	m, entries := s.coll.Maps[fmt.Sprintf("t%d", id)], s.copies[id]
	if entries == nil {
		entries = tableCopy{}
		s.copies[id] = entries
	}
	s.round++
	if m != nil {
		n := 0
		for e := range t.entries(s.sw, s.sw.Program()) {
			if n++; n > t.MaxEntries {
				break // the control value says that the table is too large
			}
			c := entries[string(e.Key)]
			if c != nil && bytes.Equal(c.value, e.Value) {
				c.round = s.round
				continue
			}
			if err := m.Put(e.Key, e.Value); err != nil {
				return fmt.Errorf("kernel: table %d: entry %x: %w", id, e.Key, err)
			}
			entries[string(e.Key)] = &copied{e.Value, s.round}
		}
	}
	if err := s.control(); err != nil {
		return err
	}
	for k, c := range entries {
		if c.round == s.round {
			continue
		}
		if err := m.Delete([]byte(k)); err != nil && !errors.Is(err, bpf.ErrKeyNotExist) {
			return fmt.Errorf("kernel: table %d: entry %x: %w", id, k, err)
		}
		delete(entries, k)
	}
	delete(s.changed, id)
	return nil
}

// Program is the loaded program, to attach.
func (s *Switch) Program() *bpf.Program { return s.coll.Programs["p4switch"] }

// Instructions is how many instructions the program has.
func (s *Switch) Instructions() int { return len(s.lowered.Instructions) }

// Err says whether a write of the interpreter's to a register did not reach the kernel.
func (s *Switch) Err() error { return s.failed }

// Close gives the program and its maps up. What the kernel counted is gone with them.
func (s *Switch) Close() {
	for _, id := range s.lowered.Read {
		_ = s.sw.WatchRegister(id, nil)
	}
	s.sw.AddCounting(nil)
	s.sw.WatchTables(nil)
	s.coll.Close()
}

// Counted implements [interp.Counting].
func (s *Switch) Counted(id program.CounterID, index int) (packets, bytes uint64, err error) {
	return s.cell(fmt.Sprintf("c%d", id), index)
}

// CountedAt implements [interp.Counting].
func (s *Switch) CountedAt(id program.TableID, place int) (packets, bytes uint64, err error) {
	name := fmt.Sprintf("d%d", id)
	if m := s.coll.Maps[name]; m != nil && place < 0 {
		place = int(m.MaxEntries()) - 1
	}
	return s.cell(name, place)
}

func (s *Switch) cell(name string, i int) (packets, bytes uint64, err error) {
	m := s.coll.Maps[name]
	if m == nil {
		return 0, 0, nil // nothing in the kernel counts there
	}
	var c [2]uint64
	if err := m.Lookup(uint32(i), &c); err != nil {
		return 0, 0, fmt.Errorf("kernel: counter %s: cell %d: %w", name, i, err)
	}
	return c[0], c[1], nil
}

// Fates counts packets by what became of them.
func (s *Switch) Fates() ([]uint64, error) {
	out := make([]uint64, FateUp+len(s.lowered.Up))
	for i := range out {
		var per []uint64
		if err := s.coll.Maps["fates"].Lookup(uint32(i), &per); err != nil {
			return nil, fmt.Errorf("kernel: fates: %w", err)
		}
		for _, n := range per {
			out[i] += n
		}
	}
	return out, nil
}

// Constructs names what packets go up for, in the order of the fates from
// [FateUp] on.
func (s *Switch) Constructs() []string { return s.lowered.Up }

// Result is what the kernel made of one packet.
type Result struct {
	Fate int
	Port uint32 // of a packet that is forwarded
	Data []byte
}

// Run pushes one packet, as it comes from the interface of a port, through the
// program, by BPF_PROG_TEST_RUN. It has to have 14 bytes at least.
func (s *Switch) Run(data []byte) (Result, error) {
	var ctx [192]byte // struct __sk_buff
	o := &bpf.RunOptions{Data: data, DataOut: make([]byte, len(data)+512), ContextOut: ctx[:], Repeat: 1}
	if _, err := s.Program().Run(o); err != nil {
		return Result{}, fmt.Errorf("kernel: run: %w", err)
	}
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(ctx[at:]) }
	r := Result{Fate: int(word(52)) - 1, Port: word(48), Data: o.DataOut}
	if r.Fate < 0 {
		return r, errors.New("kernel: run: the program left before it had decided")
	}
	return r, nil
}
