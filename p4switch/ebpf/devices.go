package ebpf

import (
	"encoding/binary"
	"fmt"

	bpf "github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// Devices lets the eBPF program see, before a packet leaves by an interface, whether the interface has lost its
// carrier. The kernel's own notification (netlink) comes later: it requires a lock of all the machine's interfaces, and
// the kernel sends at most one at once and the others a second later.
type Devices struct {
	cast       int64 // BTF ids: of bpf_rdonly_cast
	device     int64 // and of struct net_device
	inPacket   int16 // offsets: of a packet's interface
	index      int16 // and of an interface's index
	state      int16 // and state
	kernelsCtx int64 // BTF id of bpf_cast_to_kern_ctx
	at         map[uint32]uint64
}

// Bits of an interface's state (enum netdev_state_t).
const (
	deviceStarted   = 1 << 0
	deviceNoCarrier = 1 << 2
)

// OpenDevices finds the interfaces with these indices in the calling thread's network namespace. It requires
// CAP_PERFMON and Linux 6.2 with BTF (type information).
func OpenDevices(indices []uint32) (*Devices, error) {
	d := &Devices{at: map[uint32]uint64{}}
	if err := d.readTypeLayout(); err != nil {
		return nil, fmt.Errorf("kernel: interfaces: %w", err)
	}
	for _, i := range indices {
		var err error
		if d.at[i], err = d.find(i); err != nil {
			return nil, fmt.Errorf("kernel: interface %d: %w", i, err)
		}
	}
	return d, nil
}

// readTypeLayout reads the layout of kernel types from BTF.
func (d *Devices) readTypeLayout() error {
	types, err := btf.LoadKernelSpec()
	if err != nil {
		return err
	}
	for name, id := range map[string]*int64{"bpf_rdonly_cast": &d.cast, "bpf_cast_to_kern_ctx": &d.kernelsCtx} {
		var f *btf.Func
		if err := types.TypeByName(name, &f); err != nil {
			return err
		}
		n, err := types.TypeID(f)
		if err != nil {
			return err
		}
		*id = int64(n)
	}
	var packet, device *btf.Struct
	if err := types.TypeByName("sk_buff", &packet); err != nil {
		return err
	}
	if err := types.TypeByName("net_device", &device); err != nil {
		return err
	}
	id, err := types.TypeID(device)
	if err != nil {
		return err
	}
	d.device = int64(id)
	for _, x := range []struct {
		of     *btf.Struct
		member string
		to     *int16
	}{{packet, "dev", &d.inPacket}, {device, "ifindex", &d.index}, {device, "state", &d.state}} {
		at, ok := offsetOf(x.of.Members, x.member)
		if *x.to = int16(at); !ok || at != uint32(*x.to) {
			return fmt.Errorf("the kernel's %s has no %s within reach", x.of.Name, x.member)
		}
	}
	return nil
}

// offsetOf is where a member of a structure is, in bytes.
func offsetOf(members []btf.Member, name string) (at uint32, ok bool) {
	for _, m := range members {
		if m.Name == name {
			return m.Offset.Bytes(), true
		}
		var in []btf.Member
		switch t := m.Type.(type) {
		case *btf.Struct:
			in = t.Members
		case *btf.Union:
			in = t.Members
		}
		if m.Name != "" {
			continue
		}
		if at, ok := offsetOf(in, name); ok {
			return m.Offset.Bytes() + at, true
		}
	}
	return 0, false
}

func kernelCall(id int64) asm.Instruction {
	return asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoKfuncCall, Constant: id}
}

// emitReadState returns code that, with an interface's address in R1, puts its index into R1 and its state into R2. It
// changes R0 to R5.
func (d *Devices) emitReadState() asm.Instructions {
	return asm.Instructions{
		asm.LoadImm(asm.R2, d.device, asm.DWord),
		kernelCall(d.cast),
		asm.LoadMem(asm.R1, asm.R0, d.index, asm.Word),
		asm.LoadMem(asm.R2, asm.R0, d.state, asm.DWord),
	}
}

// find returns an interface's address, and checks that it can be read there: the kernel reads as zeros what is not
// memory.
func (d *Devices) find(index uint32) (uint64, error) {
	found, err := bpf.NewMap(&bpf.MapSpec{Name: "device", Type: bpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1})
	if err != nil {
		return 0, err
	}
	defer found.Close() //nolint:errcheck // it has been read
	code := asm.Instructions{
		kernelCall(d.kernelsCtx),
		asm.LoadMem(asm.R6, asm.R0, d.inPacket, asm.DWord),
		asm.StoreImm(asm.R10, -4, 0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, found.FD()),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "out"),
		asm.StoreMem(asm.R0, 0, asm.R6, asm.DWord),
		asm.Mov.Reg(asm.R6, asm.R0),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
	}
	code = append(code, d.emitReadState()...)
	code = append(code, asm.StoreMem(asm.R6, 8, asm.R1, asm.DWord), asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), asm.Return())
	p, err := bpf.NewProgram(&bpf.ProgramSpec{Name: "device", Type: bpf.SchedCLS, License: "GPL", Instructions: code})
	if err != nil {
		return 0, err
	}
	defer p.Close()  //nolint:errcheck // it has run
	var of [192]byte // struct __sk_buff
	binary.NativeEndian.PutUint32(of[skbIfindex:], index)
	if _, err := p.Run(&bpf.RunOptions{Data: make([]byte, 64), Context: of}); err != nil {
		return 0, err
	}
	var v [2]uint64
	if err := found.Lookup(uint32(0), &v); err != nil {
		return 0, err
	}
	if v[1] != uint64(index) {
		return 0, fmt.Errorf("the kernel's interface has index %d", v[1])
	}
	return v[0], nil
}

// emitCarrierCheck emits code that passes a packet up to the interpreter if its port has lost its carrier, and records
// the port.
func (l *lowering) emitCarrierCheck() {
	d := l.cfg.Devices
	if d == nil {
		return
	}
	fine := l.newLabel()
	l.loadScratch(asm.R0, l.outPort)
	l.emit(asm.StoreMem(asm.R10, -4, asm.R0, asm.Word))
	l.portOf(fine)
	l.emit(
		asm.LoadMem(regTmp, asm.R0, portIndex, asm.Word),
		asm.LoadMem(asm.R1, asm.R0, portDevice, asm.DWord),
		asm.JEq.Imm(asm.R1, 0, fine),
	)
	l.emit(d.emitReadState()...)
	l.emit(
		asm.JNE.Reg(asm.R1, regTmp, fine), // another interface has the memory now
		asm.And.Imm(asm.R2, deviceStarted|deviceNoCarrier),
		asm.JEq.Imm(asm.R2, deviceStarted, fine),
	)
	l.mapValue("lost")
	l.loadScratch(asm.R1, l.outPort)
	l.emit(
		asm.StoreMem(asm.R0, 8, asm.R1, asm.DWord),
		asm.Mov.Imm(asm.R1, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R1, asm.DWord, 0),
	)
	l.passToInterpreter("a port that has lost its carrier")
	l.placeLabel(fine)
	l.loadScratch(asm.R0, l.outPort)
}

// Lost reports whether, since its last call, a packet was about to leave by a port that has lost its carrier, and the
// last such port. The kernel passes such packets to the interpreter.
func (s *Switch) Lost() (port uint32, lost bool) {
	if s.lost == nil {
		return 0, false
	}
	var b [16]byte
	if _, err := s.lost.ReadAt(b[:], 0); err != nil {
		return 0, false
	}
	n := binary.NativeEndian.Uint64(b[:])
	lost, s.lostSeen = n != s.lostSeen, n
	return uint32(binary.NativeEndian.Uint64(b[8:])), lost
}
