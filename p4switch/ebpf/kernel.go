package ebpf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	bpf "github.com/cilium/ebpf"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// ErrVerifier is wrapped by the error of [Load] if the kernel's verifier refuses the eBPF program.
var ErrVerifier = errors.New("the kernel's verifier refuses the program")

// Switch is a P4 program compiled to eBPF and loaded into the kernel, with its tables as maps. Its methods are not safe
// for concurrent use; packets may pass meanwhile.
type Switch struct {
	sw       *interp.Switch
	lowered  *lowered
	coll     *bpf.Collection
	clock    uint64
	epoch    uint64
	queues   map[uint32]Queue
	failed   error            // of copying a register
	tables   []*tableCopy     // by TableID; nil: not looked up in the kernel
	profiles []*copiedProfile // by ProfileID
	changed  bool             // something that Sync copies
	control  []byte           // what that map holds
	devices  *Devices
	lost     *bpf.Memory // nil: not seen
	lostSeen uint64
}

// Mark is the packet mark (skb->mark) of packets that the kernel passes to the interpreter.
const Mark = 0xe7e4_0001

// Config sets up a [Switch].
type Config struct {
	QueuesPerPort int               // number of priority queues per port, as in [interp.Config]
	DropPort      uint32            // egress port that means drop, as in [interp.Config]
	CPUPort       uint32            // port of packet-in and packet-out; 0: none
	Mark          uint32            // mark of packets that the kernel passes to the interpreter
	Ports         map[uint32]uint32 // interface index of each port
	Queues        map[uint32]Queue  // queueing discipline of each interface, by index
	Epoch         uint64            // reading of the kernel's clock (ns) at which the switch's clock shows 0
	Devices       *Devices          // finds ports without a carrier; nil: the program does not check
	Stopped       bool              // the switch's clock stays 0, so that the output depends on packets and tables only
}

// Load compiles the switch's program, and loads it into the kernel with the present entries of its tables.
func Load(sw *interp.Switch, cfg Config) (*Switch, error) {
	return loadWithFewerMasks(func(masks int) (*Switch, error) {
		low, err := lower(sw.Program(), lowerConfig{
			QueuesPerPort: cfg.QueuesPerPort, DropPort: cfg.DropPort, CPUPort: cfg.CPUPort, Mark: cfg.Mark,
			Random: !cfg.Stopped, Devices: cfg.Devices, Masks: masks,
		})
		if err != nil {
			return nil, fmt.Errorf("kernel: %w", err)
		}
		return load(sw, low, cfg)
	})
}

// loadWithFewerMasks loads with fewer and fewer masks a table while the verifier refuses: it may refuse long loops that
// it could follow. An error is the first.
func loadWithFewerMasks(load func(masks int) (*Switch, error)) (*Switch, error) {
	var first error
	for masks := maxMasks; ; masks /= 4 {
		s, err := load(masks)
		if err == nil {
			return s, nil
		}
		if first == nil {
			first = err
		}
		if !errors.Is(err, ErrVerifier) || masks <= minMasks {
			return nil, first
		}
	}
}

func load(sw *interp.Switch, low *lowered, cfg Config) (*Switch, error) {
	s := &Switch{sw: sw, lowered: low, clock: ^uint64(0), epoch: cfg.Epoch, queues: cfg.Queues, devices: cfg.Devices}
	if cfg.Stopped {
		s.clock, s.epoch = 0, 0
	}
	spec := &bpf.CollectionSpec{
		Maps: s.mapSpecs(),
		Programs: map[string]*bpf.ProgramSpec{"p4switch": {
			Name: "p4switch", Type: bpf.SchedCLS, License: "GPL", Instructions: low.Instructions,
		}},
	}
	var err error
	if s.coll, err = bpf.NewCollection(spec); err != nil {
		if v, ok := errors.AsType[*bpf.VerifierError](err); ok {
			return nil, fmt.Errorf("kernel: %w of %d instructions: %s", ErrVerifier, len(low.Instructions), lastLines(v.Log, 3))
		}
		return nil, fmt.Errorf("kernel: load the program of %d instructions: %w (root, or CAP_BPF and CAP_NET_ADMIN, is needed)",
			len(low.Instructions), err)
	}
	if err := s.fillMaps(cfg); err != nil {
		s.Close()
		return nil, err
	}
	sw.AddCounting(s)
	return s, nil
}

func lastLines(l []string, n int) string { return fmt.Sprint(l[max(0, len(l)-n):]) }

// mapSpecs describes the program's maps.
func (s *Switch) mapSpecs() map[string]*bpf.MapSpec {
	o := s.lowered
	m := map[string]*bpf.MapSpec{
		"scratch":  {Type: bpf.PerCPUArray, KeySize: 4, ValueSize: uint32(o.ScratchSize), MaxEntries: 1},
		"control":  {Type: bpf.Array, KeySize: 4, ValueSize: uint32(o.ControlSize), MaxEntries: 1},
		"fates":    {Type: bpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: uint32(FateUp + len(o.Up))},
		"port_in":  {Type: bpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 1024},
		"port_out": {Type: bpf.Hash, KeySize: 4, ValueSize: uint32(binary.Size(loweredPort{})), MaxEntries: 1024},
		"crc":      {Type: bpf.Array, KeySize: 4, ValueSize: uint32(2048 * max(1, len(o.CRCs))), MaxEntries: 1},
	}
	if s.devices != nil {
		m["lost"] = &bpf.MapSpec{Type: bpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1, Flags: mmapable}
	}
	counters := s.sw.Program().Counters
	for _, c := range o.Counted {
		m[fmt.Sprintf("c%d", c)] = &bpf.MapSpec{Type: bpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: uint32(max(1, counters[c].Size))}
	}
	registers := s.sw.Program().Registers
	for _, r := range o.Read {
		m[fmt.Sprintf("r%d", r)] = &bpf.MapSpec{Type: bpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: uint32(registers[r].Size)}
	}
	for i := range o.Profiles {
		profileMaps(m, &o.Profiles[i])
	}
	for i := range o.Tables {
		t := &o.Tables[i]
		if !t.Keyed {
			continue
		}
		ms := &bpf.MapSpec{
			Type: bpf.Hash, KeySize: uint32(t.KeySize), ValueSize: uint32(t.ValueSize), Flags: noPrealloc,
			MaxEntries: 2 * uint32(t.MaxKeys), // Sync has the new ones beside the old for a while
		}
		if t.Trie {
			ms.Type = bpf.LPMTrie
		}
		if t.MaxMasks > 0 { // the ones in use, and those that Sync is about to put in their place
			m[fmt.Sprintf("m%d", t.ID)] = &bpf.MapSpec{Type: bpf.Array, KeySize: 4, ValueSize: uint32(t.MaskSize), MaxEntries: 2 * uint32(t.MaxMasks)}
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

const (
	noPrealloc = 1       // map flag BPF_F_NO_PREALLOC
	mmapable   = 1 << 10 // map flag BPF_F_MMAPABLE
)

func (s *Switch) fillMaps(cfg Config) error {
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
	if m := s.coll.Maps["lost"]; m != nil {
		if s.lost, err = m.Memory(); err != nil {
			return fmt.Errorf("kernel: lost carriers: %w", err)
		}
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
	s.tables = make([]*tableCopy, len(s.sw.Program().Tables))
	for i := range s.lowered.Tables {
		s.tables[s.lowered.Tables[i].ID] = s.newCopied(&s.lowered.Tables[i])
	}
	for i := range s.lowered.Profiles {
		s.profiles = append(s.profiles, s.newCopiedProfile(&s.lowered.Profiles[i]))
	}
	s.sw.WatchProfiles(s.profileChanged)
	s.sw.WatchTables(s.tableChanged)
	return s.Sync()
}

// ClosePort makes the kernel drop packets that are to leave by a port, until SetPort.
func (s *Switch) ClosePort(port uint32) error {
	if err := s.coll.Maps["port_out"].Put(port, loweredPort{}); err != nil {
		return fmt.Errorf("kernel: port %d: %w", port, err)
	}
	return nil
}

// SetPort sets the interface, by index, of a port. Its queue counts as empty.
func (s *Switch) SetPort(port, index uint32) error {
	if err := s.coll.Maps["port_in"].Put(index, port); err != nil {
		return fmt.Errorf("kernel: port %d: %w", port, err)
	}
	p := loweredPort{Index: index}
	if s.devices != nil {
		p.Device = s.devices.at[index]
	}
	if q := s.queues[index]; q.Rate > 0 && s.lowered.Queues {
		p.Rate, p.Longest = max(1, 1024*1e9/q.Rate), q.Limit*1e9/q.Rate
	}
	if err := s.coll.Maps["port_out"].Put(port, p); err != nil {
		return fmt.Errorf("kernel: port %d: %w", port, err)
	}
	return nil
}

// Forget removes an interface, by index, from its port.
func (s *Switch) Forget(index uint32) error {
	if err := s.coll.Maps["port_in"].Delete(index); err != nil && !errors.Is(err, bpf.ErrKeyNotExist) {
		return fmt.Errorf("kernel: interface %d: %w", index, err)
	}
	return nil
}

// Waits returns how long a packet that leaves by a port at the time now (ns, switch's clock) waits in the interface's
// queueing discipline, and behind how many packets. It is 0 if the queue's rate is unknown, or the program does not use
// it.
func (s *Switch) Waits(port uint32, now int64) (ns int64, packets uint32) {
	if p, ok := s.portQueue(port); ok {
		n, k := p.Waits(uint64(now))
		return int64(n), uint32(k)
	}
	return 0, 0
}

// Sent counts a packet that the interpreter sends by a port in the queue that [Switch.Waits] computes. It may be missed
// if the kernel sends one at the same moment.
func (s *Switch) Sent(port uint32, now int64, bytes int) {
	if p, ok := s.portQueue(port); ok {
		p.Send(uint64(now), bytes)
		s.coll.Maps["port_out"].Put(port, p) //nolint:errcheck // it was there: the queue is as it was
	}
}

// portQueue reads a port's queue, if it has a rate.
func (s *Switch) portQueue(port uint32) (p loweredPort, ok bool) {
	if !s.lowered.Queues || len(s.queues) == 0 {
		return p, false
	}
	err := s.coll.Maps["port_out"].Lookup(port, &p)
	return p, err == nil && p.Index != 0 && p.Rate > 0
}

// SetQueues sets the queueing disciplines of interfaces, by index. They take effect at the next SetPort of the port.
func (s *Switch) SetQueues(q map[uint32]Queue) { s.queues = q }

// Queue is the rate and size of an interface's queueing discipline.
type Queue struct {
	Rate  uint64 // bytes per second; 0: unknown or unlimited
	Limit uint64 // largest number of waiting bytes
}

// Program returns the loaded eBPF program, to be attached.
func (s *Switch) Program() *bpf.Program { return s.coll.Programs["p4switch"] }

// Instructions returns the number of eBPF instructions of the program.
func (s *Switch) Instructions() int { return len(s.lowered.Instructions) }

// Err returns an error if a register that the interpreter wrote could not be written in the kernel.
func (s *Switch) Err() error { return s.failed }

// Close unloads the program and its maps. The kernel's counts are lost.
func (s *Switch) Close() {
	for _, id := range s.lowered.Read {
		_ = s.sw.WatchRegister(id, nil)
	}
	s.sw.AddCounting(nil)
	s.sw.WatchTables(nil)
	s.sw.WatchProfiles(nil)
	s.coll.Close()
}

// Counted returns a cell of an indirect counter, for [interp.Counting].
func (s *Switch) Counted(id program.CounterID, index int) (packets, bytes uint64, err error) {
	return s.counterCell(fmt.Sprintf("c%d", id), index)
}

// CountedAt returns the direct counter of a table entry, for [interp.Counting].
func (s *Switch) CountedAt(id program.TableID, place int) (packets, bytes uint64, err error) {
	name := fmt.Sprintf("d%d", id)
	if m := s.coll.Maps[name]; m != nil && place < 0 {
		place = int(m.MaxEntries()) - 1
	}
	return s.counterCell(name, place)
}

func (s *Switch) counterCell(name string, i int) (packets, bytes uint64, err error) {
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

// Fates returns the number of packets by outcome, such as forwarded, dropped, or passed up to the interpreter.
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

// Constructs returns the names of the P4 constructs for which packets are passed up to the interpreter, in the order of
// the outcomes from [FateUp] on.
func (s *Switch) Constructs() []string { return s.lowered.Up }

// Result is the kernel program's output for one packet.
type Result struct {
	Fate int
	Port uint32 // output port of a forwarded packet
	Data []byte
}

// Run passes one packet through the program in the kernel by BPF_PROG_TEST_RUN, as if it came from a port's interface.
// It must have at least 14 bytes.
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
