package interp

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Config sets up one switch. The zero value is usable.
type Config struct {
	Seed          uint64             // seed of the program's random numbers
	QueuesPerPort int                // priorities per port; default 1
	DropPort      uint32             // value of egress_spec that drops the packet; default 511
	MaxPasses     int                // limit of resubmits plus recirculations of one packet; 0: no limit
	MaxLoops      int                // limit of backward jumps of actions in one pipeline; default DefaultMaxLoops
	Digest        func(DigestRecord) // nil: digests are discarded
	Log           func(LogRecord)    // nil: log_msg is discarded
	Traces        *Traces            // compiled paths of the same program, shared by switches; nil: none
	Tracer        *Tracer            // records every packet; nil: none
}

// Switch is one P4 switch: a program with its tables, registers and other state. It is not safe for concurrent use.
type Switch struct {
	p        *program.Program
	cfg      Config
	dropSpec uint64 // DropPort as egress_spec holds it

	tables       []tableState
	profiles     []profileState
	counters     []counterArray
	registers    []registerArray
	meters       []meterArray
	clones       map[uint32]*CloneSession
	groups       map[uint32]*[]Replica
	valueSets    [][][]program.FieldMatch
	valueSetKeys [][]uint64 // by use: value, mask, value, mask ... of key words each

	now        int64 // ns, of the packet in hand
	rng        uint64
	roundRobin []uint64
	drops      DropCounts
	// portDrops counts, by port, the packets of drops whose priority has no queue.
	portDrops map[uint32]uint64

	bits       bitWriter
	out        bitWriter
	key        []uint64
	wide       []uint64
	pool       []*Packet
	bufs       []*buffer
	lastOutput *buffer // holds the last output until the next call
	batch      Batch

	traces *Traces

	external Counting                                       // nil: nobody
	watch    func(id program.TableID, place int, gone bool) // see WatchTables; nil: nobody

	watchProfile func(id program.ProfileID, group bool, place int) // see WatchProfiles; nil: nobody

	inTx bool
	undo []func()
	done []func() // what a commit makes final
}

const cloneFlag = 1 << 15

// NewSwitch returns a switch that runs p. Its tables have the program's constant entries and default actions.
func NewSwitch(p *program.Program, cfg Config) *Switch {
	if cfg.QueuesPerPort <= 0 {
		cfg.QueuesPerPort = 1
	}
	if cfg.DropPort == 0 {
		cfg.DropPort = 511
	}
	if cfg.MaxLoops <= 0 {
		cfg.MaxLoops = DefaultMaxLoops
	}
	s := &Switch{p: p, cfg: cfg, rng: cfg.Seed}
	s.dropSpec = uint64(cfg.DropPort) & p.Standard.EgressSpec.Mask
	s.tables = make([]tableState, len(p.Tables))
	shared := constantTables(p)
	for i := range s.tables {
		s.tables[i].init(&p.Tables[i], shared[i])
	}
	s.profiles = make([]profileState, len(p.Profiles))
	s.counters = make([]counterArray, len(p.Counters))
	for i, c := range p.Counters {
		s.counters[i].pagedArray = pagedArray{size: uint64(c.Size), words: 2}
	}
	s.registers = make([]registerArray, len(p.Registers))
	for i, r := range p.Registers {
		s.registers[i] = registerArray{pagedArray: pagedArray{size: uint64(r.Size), words: program.WordsFor(r.Width)}, width: r.Width}
	}
	s.meters = make([]meterArray, len(p.Meters))
	for i, m := range p.Meters {
		s.meters[i] = meterArray{size: uint64(m.Size), packets: m.Packets}
	}
	s.valueSets = make([][][]program.FieldMatch, len(p.ValueSets))
	s.valueSetKeys = make([][]uint64, len(p.ValueSetUses))
	s.roundRobin = make([]uint64, p.RoundRobins)
	s.bindTraces(cfg.Traces)
	return s
}

// Program returns the program that the switch runs.
func (s *Switch) Program() *program.Program { return s.p }

// Drops returns the number of packets and requested copies that were dropped, by reason.
func (s *Switch) Drops() DropCounts { return s.drops }

// PortDrops returns the number of packets for a port that were dropped because their priority has no queue.
func (s *Switch) PortDrops(port uint32) uint64 { return s.portDrops[port] }

func (s *Switch) log(kind LogKind, text string) {
	if s.cfg.Log != nil {
		s.cfg.Log(LogRecord{Kind: kind, Text: text, Now: s.now})
	}
}

// logMessage formats a log_msg: {} stands for the next value.
func (s *Switch) logMessage(v []uint64, k *program.Call) {
	if s.cfg.Log == nil {
		return
	}
	var b strings.Builder
	text := k.Text
	for _, a := range k.List {
		before, after, ok := strings.Cut(text, "{}")
		if !ok {
			break
		}
		b.WriteString(before)
		text = after
		if a.Words == 1 && !a.Signed {
			fmt.Fprintf(&b, "%d", v[a.Slot])
		} else {
			b.WriteString(bigOf(v[a.Slot:a.Slot+uint32(a.Words)], a.Signed).String())
		}
	}
	b.WriteString(text)
	s.log(LogMessage, b.String())
}

// bigOf converts words to a number.
func bigOf(w []uint64, signed bool) *big.Int {
	b := make([]byte, 8*len(w))
	for i, x := range w {
		binary.BigEndian.PutUint64(b[8*(len(w)-1-i):], x)
	}
	n := new(big.Int).SetBytes(b)
	if signed && isNeg(w) {
		n.Sub(n, program.Pow2(64*len(w)))
	}
	return n
}

// Trim cuts a packet between the pipelines to the bytes that it had at ingress.
func (p *Packet) Trim() {
	n := p.end - p.start
	p.virtualBytes, p.pktLen, p.ingressLen, p.Length = 0, n, n, n
}

// packetState is the hidden part of a Packet.
type packetState struct {
	v             []uint64
	buf           *buffer
	start         int // of the packet as it entered this pass, in buf.b
	pos           int // the parser's position, then where the payload starts
	end           int
	virtualBytes  int // payload bytes that are not there
	pktLen        int // BMv2's packet length register
	ingressLen    int // what counters and meters count
	truncate      int // the program's; most bytes of all
	cloneTruncate int // the clone session's; 0: none
	passes        int

	clone, cloneList      uint16
	learn                 uint16
	resubmit, recirculate uint16
	dropReason            DropReason
	exit                  bool
	queued                bool // between the pipelines: the caller's

	trace *PacketTrace // nil: not followed
}

// buffer holds a packet's bytes; clones share it.
type buffer struct {
	b    []byte
	refs int
}

// headroom is the number of bytes by which deparsing can grow a packet without copying it.
const headroom = 128

func (s *Switch) newBuffer(n int) *buffer {
	var b *buffer
	if k := len(s.bufs) - 1; k >= 0 {
		b = s.bufs[k]
		s.bufs = s.bufs[:k]
	} else {
		b = &buffer{}
	}
	if need := headroom + n + program.Slack; cap(b.b) < need {
		b.b = make([]byte, need, max(need, 256))
	} else {
		b.b = b.b[:need]
	}
	b.refs = 1
	return b
}

func (s *Switch) releaseBuffer(b *buffer) {
	if b == nil {
		return
	}
	if b.refs--; b.refs == 0 {
		if cap(b.b) > 1<<16 { // do not hoard a giant
			b.b = nil
		}
		s.bufs = append(s.bufs, b)
	}
}

func (s *Switch) newPacket() *Packet {
	if k := len(s.pool) - 1; k >= 0 {
		p := s.pool[k]
		s.pool = s.pool[:k]
		v := p.v
		*p = Packet{}
		p.v = v
		p.truncate = math.MaxInt
		return p
	}
	p := &Packet{}
	p.v = make([]uint64, s.p.Slots)
	for _, c := range s.p.Constants {
		p.v[c.Slot] = c.Value
	}
	p.truncate = math.MaxInt
	return p
}

// Free returns the memory of a packet that the caller's traffic manager dropped.
func (s *Switch) Free(p *Packet) {
	if p == nil || !p.queued {
		return
	}
	s.dropPacket(p, DropTrafficManager)
}

func (s *Switch) recycle(p *Packet) {
	p.queued = false
	s.releaseBuffer(p.buf)
	p.buf = nil
	s.pool = append(s.pool, p)
}

// payload returns what follows the parsed headers, and how many virtual bytes
// follow that.
func (p *packetState) payload() ([]byte, int) {
	real := p.end - p.pos
	return p.buf.b[p.pos : p.pos+min(real, p.truncate)], max(0, min(real+p.virtualBytes, p.truncate)-real)
}
