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
	Seed          uint64             // of the program's random numbers
	QueuesPerPort int                // priorities per port; default 1
	DropPort      uint32             // egress_spec that means drop; default 511
	MaxPasses     int                // resubmits plus recirculations of one packet; 0: no limit
	MaxLoops      int                // jumps back that actions make in one pipeline; default DefaultMaxLoops
	Digest        func(DigestRecord) // nil: digests are discarded
	Log           func(LogRecord)    // nil: log_msg is discarded
	Traces        *Traces            // recorded paths of the same program; nil: none
	Tracer        *Tracer            // follows every packet; nil: none
}

// Switch is the state of one switch. It is not safe for concurrent use.
type Switch struct {
	p        *program.Program
	cfg      Config
	dropSpec uint64 // DropPort as egress_spec holds it

	tables    []tableState
	profiles  []profileState
	counters  []counterArray
	registers []registerArray
	meters    []meterArray
	clones    map[uint32]*CloneSession
	groups    map[uint32]*[]Replica
	vsets     [][][]program.FieldMatch
	vsetVals  [][]uint64 // by use: value, mask, value, mask ... of key words each

	now   int64 // ns, of the packet in hand
	rng   uint64
	rr    []uint64
	drops DropCounts
	// tooHigh counts, by port, the packets of drops whose priority has no queue.
	tooHigh map[uint32]uint64

	bits  bitWriter
	out   bitWriter
	key   []uint64
	wide  []uint64
	pool  []*Packet
	bufs  []*buffer
	keep  *buffer // holds the last output until the next call
	batch Batch

	traces *Traces

	external Counting              // nil: nobody
	watch    func(program.TableID) // of tables that change; nil: nobody

	inTx bool
	undo []func()
	done []func() // what a commit makes final
}

const cloneFlag = 1 << 15

// NewSwitch makes a switch that runs p: empty tables but for the program's
// constant entries, default actions as the program says.
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
	shared := templates(p)
	for i := range s.tables {
		s.tables[i].init(&p.Tables[i], shared[i])
	}
	s.profiles = make([]profileState, len(p.Profiles))
	s.counters = make([]counterArray, len(p.Counters))
	for i, c := range p.Counters {
		s.counters[i].paged = paged{size: uint64(c.Size), words: 2}
	}
	s.registers = make([]registerArray, len(p.Registers))
	for i, r := range p.Registers {
		s.registers[i] = registerArray{paged: paged{size: uint64(r.Size), words: program.WordsFor(r.Width)}, width: r.Width}
	}
	s.meters = make([]meterArray, len(p.Meters))
	for i, m := range p.Meters {
		s.meters[i] = meterArray{size: uint64(m.Size), packets: m.Packets}
	}
	s.vsets = make([][][]program.FieldMatch, len(p.ValueSets))
	s.vsetVals = make([][]uint64, len(p.ValueSetUses))
	s.rr = make([]uint64, p.RoundRobins)
	s.bind(cfg.Traces)
	return s
}

// Program returns the program that the switch runs.
func (s *Switch) Program() *program.Program { return s.p }

// Drops counts the packets, and the copies asked for, that went nowhere.
func (s *Switch) Drops() DropCounts { return s.drops }

// PortDrops counts the packets that were on their way out of a port and had no queue there, for their priority.
func (s *Switch) PortDrops(port uint32) uint64 { return s.tooHigh[port] }

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

// pkt is the hidden part of a Packet.
type pkt struct {
	v          []uint64
	buf        *buffer
	start      int // of the packet as it entered this pass, in buf.b
	pos        int // the parser's position, then where the payload starts
	end        int
	virtual    int // payload bytes that are not there
	pktLen     int // BMv2's packet length register
	ingressLen int // what counters and meters count
	truncate   int // the program's; most bytes of all
	cut        int // the clone session's; 0: none
	passes     int

	clone, cloneList      uint16
	learn                 uint16
	resubmit, recirculate uint16
	fault                 DropReason
	exit                  bool
	queued                bool // between the pipelines: the caller's

	trace *PacketTrace // nil: not followed
}

// buffer holds a packet's bytes; clones share it.
type buffer struct {
	b    []byte
	refs int
}

// headroom is what deparsing may grow a packet by without moving it.
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

func (s *Switch) release(b *buffer) {
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

// Free gives back a packet that the caller's traffic manager dropped.
func (s *Switch) Free(p *Packet) {
	if p == nil || !p.queued {
		return
	}
	s.drop(p, DropTrafficManager)
}

func (s *Switch) recycle(p *Packet) {
	p.queued = false
	s.release(p.buf)
	p.buf = nil
	s.pool = append(s.pool, p)
}

// payload returns what follows the parsed headers, and how many virtual bytes
// follow that.
func (p *pkt) payload() ([]byte, int) {
	real := p.end - p.pos
	return p.buf.b[p.pos : p.pos+min(real, p.truncate)], max(0, min(real+p.virtual, p.truncate)-real)
}
