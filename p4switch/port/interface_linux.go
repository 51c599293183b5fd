package port

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Interface is a port on a Linux network interface.
//
// It receives through a ring of slots that the kernel fills (TPACKET_V2, which wakes the reader per frame; later
// versions do so per block or millisecond), and sends with sendmmsg. It uses no transmit ring: a veth would return a
// slot while the frame is still in use, so that the next frame overwrites it.
type Interface struct {
	name    string
	index   int
	mtu     int    // when it was opened
	large   []byte // a super-frame
	rx, tx  int
	held    []int        // sockets of the UDP ports that the kernel leaves alone
	owner   net.Listener // holds InterfaceOptions.Owner; may be nil
	ring    []byte
	slots   []unsafe.Pointer // headers of the slots
	next    int
	stamp   int64
	sent    bool // the frame in hand leaves by the interface
	poller  *Poller
	txToken int32

	hdrs [maxSend]mmsghdr
	iovs [maxSend]unix.Iovec

	inPkts, inOctets, outPkts, outOctets      atomic.Uint64
	inCasts, outCasts                         castCounters
	inTooLong, inCut, inChecksums             atomic.Uint64
	outDown, outTooLong, outLost, inLostTotal atomic.Uint64

	closing sync.Mutex
	closed  bool
}

// maxSend is how many frames go to the kernel in one call.
const maxSend = 64

// mmsghdr is struct mmsghdr.
type mmsghdr struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

const (
	tpacket2HeaderLen = 32 + 20 // struct tpacket2_hdr, aligned, and struct sockaddr_ll
	packetType        = 32 + 10 // offset of sll_pkttype in the address behind the frame header
	frameOffset       = 80 - 14 // of a frame in its slot, as the kernel lays it out
	ringBlock         = 64 << 10
	statusUser        = 0x1     // ring slot status TP_STATUS_USER: the slot belongs to this process
	copyMemory        = 4 << 20 // bytes of super-frames that wait besides the ring
)

// OpenInterface opens a network interface of the calling thread's network namespace, in promiscuous mode. It requires
// CAP_NET_RAW.
func OpenInterface(name string, opt InterfaceOptions) (*Interface, error) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil, fmt.Errorf("port: interface %s: %w", name, err)
	}
	opt = opt.withDefaults(ifi.MTU)
	p := &Interface{name: name, index: ifi.Index, mtu: ifi.MTU, rx: -1, tx: -1}
	if err := p.open(opt); err != nil {
		p.Close() //nolint:errcheck // the first error is reported
		return nil, fmt.Errorf("port: interface %s: %w", name, err)
	}
	return p, nil
}

func (p *Interface) open(opt InterfaceOptions) (err error) {
	if opt.Owner != "" {
		if p.owner, err = holdOwner(p.name, opt.Owner); err != nil {
			return err
		}
	}
	// Protocol 0: nothing is received before the ring is there.
	if p.rx, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return fmt.Errorf("packet socket: %w (it takes CAP_NET_RAW)", err)
	}
	if err := unix.SetsockoptInt(p.rx, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return fmt.Errorf("TPACKET_V2: %w", err)
	}
	if !opt.Sent {
		if err := unix.SetsockoptInt(p.rx, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1); err != nil {
			return fmt.Errorf("PACKET_IGNORE_OUTGOING: %w (it takes Linux 4.20)", err)
		}
	}
	if err := unix.SetsockoptInt(p.rx, unix.SOL_PACKET, unix.PACKET_COPY_THRESH, 1); err != nil {
		return fmt.Errorf("PACKET_COPY_THRESH: %w", err)
	}
	if unix.SetsockoptInt(p.rx, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, copyMemory) != nil { // it takes CAP_NET_ADMIN
		if err := unix.SetsockoptInt(p.rx, unix.SOL_SOCKET, unix.SO_RCVBUF, copyMemory); err != nil {
			return fmt.Errorf("receive buffer: %w", err)
		}
	}
	slot := (frameOffset + opt.MaxFrame + 63) &^ 63
	block := ringBlock
	for block < slot {
		block *= 2
	}
	perBlock := block / slot
	blocks := (opt.Slots + perBlock - 1) / perBlock
	req := unix.TpacketReq{Block_size: uint32(block), Block_nr: uint32(blocks), Frame_size: uint32(slot), Frame_nr: uint32(blocks * perBlock)}
	if err := unix.SetsockoptTpacketReq(p.rx, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return fmt.Errorf("receive ring of %d slots of %d bytes: %w", req.Frame_nr, slot, err)
	}
	if p.ring, err = unix.Mmap(p.rx, 0, block*blocks, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map the receive ring: %w", err)
	}
	for b := range blocks {
		for i := range perBlock {
			p.slots = append(p.slots, unsafe.Pointer(&p.ring[b*block+i*slot]))
		}
	}
	mreq := unix.PacketMreq{Ifindex: int32(p.index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(p.rx, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &mreq); err != nil {
		return fmt.Errorf("promiscuous mode: %w", err)
	}
	if err := unix.Bind(p.rx, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: p.index}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if p.tx, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return fmt.Errorf("packet socket: %w", err)
	}
	// The kernel doubles the value for its own overhead.
	if err := unix.SetsockoptInt(p.tx, unix.SOL_SOCKET, unix.SO_SNDBUF, opt.SendBuffer/2); err != nil {
		return fmt.Errorf("send buffer: %w", err)
	}
	if err := unix.Bind(p.tx, &unix.SockaddrLinklayer{Ifindex: p.index}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	if p.held, err = holdUDP(p.name, opt.HoldUDP); err != nil {
		return err
	}
	for i := range p.hdrs {
		p.hdrs[i].hdr.Iov = &p.iovs[i]
		p.hdrs[i].hdr.SetIovlen(1)
	}
	return nil
}

func bigEndian(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

// Name returns the interface's name.
func (p *Interface) Name() string { return p.name }

// Index returns the interface's index.
func (p *Interface) Index() int { return p.index }

// Move makes the port continue on another interface, one with the same name that was created after the first was
// removed. Slots keep their size: longer frames are copied. Do not call it during Receive or Send.
func (p *Interface) Move(to Link) error {
	p.index, p.mtu = to.Index, to.MTU
	mreq := unix.PacketMreq{Ifindex: int32(to.Index), Type: unix.PACKET_MR_PROMISC}
	err := unix.SetsockoptPacketMreq(p.rx, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &mreq)
	if err == nil {
		err = unix.Bind(p.rx, &unix.SockaddrLinklayer{Protocol: bigEndian(unix.ETH_P_ALL), Ifindex: to.Index})
	}
	if err == nil {
		err = unix.Bind(p.tx, &unix.SockaddrLinklayer{Ifindex: to.Index})
	}
	for _, fd := range p.held {
		if err == nil {
			err = unix.BindToDevice(fd, p.name)
		}
	}
	if err != nil {
		return fmt.Errorf("port: interface %s: its successor: %w", p.name, err)
	}
	for _, fd := range []int{p.rx, p.tx} { // the error that the old one is gone
		unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR) //nolint:errcheck // nothing to do with it
	}
	return nil
}

// Attach adds the port to a poller, for [Port].
func (p *Interface) Attach(poller *Poller, id int) error {
	clearError := func(events uint32) {
		if events&unix.EPOLLERR != 0 { // the interface went down; reading the error clears it
			unix.GetsockoptInt(p.rx, unix.SOL_SOCKET, unix.SO_ERROR) //nolint:errcheck // nothing to do with it
		}
	}
	if _, err := poller.watch(p.rx, id, unix.EPOLLIN|unix.EPOLLET, false, clearError); err != nil {
		return err
	}
	token, err := poller.watch(p.tx, id, 0, true, nil)
	if err != nil {
		return err
	}
	p.poller, p.txToken = poller, token
	return nil
}

// Receive calls f with the frames that have arrived, up to a limit, for [Port].
func (p *Interface) Receive(limit int, f func([]byte)) int {
	n := 0
	var octets, delivered uint64
	for n < limit {
		at := p.slots[p.next]
		h := (*unix.Tpacket2Hdr)(at)
		status := atomic.LoadUint32(&h.Status)
		if status&statusUser == 0 {
			break
		}
		n++
		if h.Len > h.Snaplen {
			p.stamp = int64(h.Sec)*1e9 + int64(h.Nsec)
			p.sent = *(*uint8)(unsafe.Add(at, packetType)) == unix.PACKET_OUTGOING
			cut := segmentTCP(p.oversizeFrame(h, status), p.mtu, func(frame []byte) {
				octets += uint64(len(frame))
				delivered++
				p.inCasts.count(frame)
				f(frame)
			})
			if cut > 0 {
				p.inCut.Add(1)
			} else {
				p.inTooLong.Add(1)
			}
		} else {
			mac, length := int(h.Mac), int(h.Snaplen)
			if status&unix.TP_STATUS_VLAN_VALID != 0 && length >= 12 && mac >= tpacket2HeaderLen+4 {
				mac, length = mac-4, length+4
				restoreTag(unsafe.Slice((*byte)(unsafe.Add(at, mac)), length), h, status)
			}
			frame := unsafe.Slice((*byte)(unsafe.Add(at, mac)), length)
			if status&unix.TP_STATUS_CSUMNOTREADY != 0 && completeChecksum(frame) {
				p.inChecksums.Add(1)
			}
			octets += uint64(length)
			delivered++
			p.inCasts.count(frame)
			p.stamp = int64(h.Sec)*1e9 + int64(h.Nsec)
			p.sent = *(*uint8)(unsafe.Add(at, packetType)) == unix.PACKET_OUTGOING
			f(frame)
		}
		atomic.StoreUint32(&h.Status, 0)
		if p.next++; p.next == len(p.slots) {
			p.next = 0
		}
	}
	if n > 0 {
		p.inPkts.Add(delivered)
		p.inOctets.Add(octets)
	}
	return n
}

// maxSuperFrame is a super-frame with its VLAN tags.
const maxSuperFrame = 1<<16 + 14 + 2*4

// oversizeFrame returns the frame that did not fit into a slot, of which the kernel keeps a copy besides the ring; nil:
// it had no room for that.
func (p *Interface) oversizeFrame(h *unix.Tpacket2Hdr, status uint32) []byte {
	if status&unix.TP_STATUS_COPY == 0 {
		return nil
	}
	if p.large == nil {
		p.large = make([]byte, 4+maxSuperFrame)
	}
	n, err := unix.Read(p.rx, p.large[4:])
	if err != nil {
		return nil
	}
	if status&unix.TP_STATUS_VLAN_VALID == 0 || n < 12 {
		return p.large[4 : 4+n]
	}
	restoreTag(p.large[:4+n], h, status)
	return p.large[:4+n]
}

// OnlyMarked makes the port receive only frames with that packet mark (skb->mark); 0: all frames.
func (p *Interface) OnlyMarked(mark uint32) error {
	if mark != 0 {
		return p.byMark(mark, 0, 1)
	}
	err := unix.SetsockoptInt(p.rx, unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) { // that there was none
		return fmt.Errorf("port: interface %s: filter by mark: %w", p.name, err)
	}
	return nil
}

// Unmarked makes the port receive only frames without that packet mark (skb->mark).
func (p *Interface) Unmarked(mark uint32) error { return p.byMark(mark, 1, 0) }

// byMark filters: 0 takes frames with the mark or without it, 1 drops them.
func (p *Interface) byMark(mark uint32, with, without uint8) error {
	const markOffset = 0xffff_f000 + 20 // SKF_AD_OFF + SKF_AD_MARK
	return p.setFilter(
		unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: markOffset},
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: with, Jf: without, K: mark},
	)
}

// setFilter looks at frames: what comes to its end is taken, what goes one further is dropped.
func (p *Interface) setFilter(look ...unix.SockFilter) error {
	filter := append(look,
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 1<<31 - 1},
		unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K},
	)
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.SetsockoptSockFprog(p.rx, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &prog); err != nil {
		return fmt.Errorf("port: interface %s: filter: %w", p.name, err)
	}
	return nil
}

// Outgoing reports whether the frame being received is one that leaves by the interface. Call it in the function passed
// to Receive.
func (p *Interface) Outgoing() bool { return p.sent }

// Stamp returns when the kernel got the frame being received, in ns since the Unix epoch. Call it in the function
// passed to Receive.
func (p *Interface) Stamp() int64 { return p.stamp }

// restoreTag moves the addresses four bytes to the front, where frame starts,
// and puts the VLAN tag behind them.
func restoreTag(frame []byte, h *unix.Tpacket2Hdr, status uint32) {
	copy(frame[:12], frame[4:16])
	tpid := uint16(unix.ETH_P_8021Q)
	if status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		tpid = h.Vlan_tpid
	}
	binary.BigEndian.PutUint16(frame[12:], tpid)
	binary.BigEndian.PutUint16(frame[14:], h.Vlan_tci)
}

// Send sends frames while there is room, and returns the number accepted, for [Port].
func (p *Interface) Send(frames [][]byte) int {
	done := 0
	for done < len(frames) {
		k := min(len(frames)-done, maxSend)
		for i, f := range frames[done : done+k] {
			p.iovs[i].Base = unsafe.SliceData(f)
			p.iovs[i].SetLen(len(f))
		}
		n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(p.tx), uintptr(unsafe.Pointer(&p.hdrs[0])),
			uintptr(k), unix.MSG_DONTWAIT, 0, 0)
		if errno == 0 {
			var octets uint64
			for _, f := range frames[done : done+int(n)] {
				octets += uint64(len(f))
				p.outCasts.count(f)
			}
			p.outPkts.Add(uint64(n))
			p.outOctets.Add(octets)
			done += int(n)
			continue
		}
		switch errno {
		case unix.EINTR:
		case unix.EAGAIN:
			if p.poller != nil && p.poller.rearm(p.tx, p.txToken, unix.EPOLLOUT) == nil {
				return done
			}
			p.outLost.Add(1) // no event would report free room
			done++
		case unix.ENETDOWN, unix.ENXIO, unix.ENODEV, unix.EBADF:
			p.outDown.Add(uint64(len(frames) - done))
			done = len(frames)
		case unix.EMSGSIZE:
			p.outTooLong.Add(1)
			done++
		default: // ENOBUFS: the interface's queue dropped it
			p.outLost.Add(1)
			done++
		}
	}
	return done
}

// castCounters counts frames that are not for one station.
type castCounters struct{ multi, broad atomic.Uint64 }

func (c *castCounters) count(frame []byte) {
	switch {
	case len(frame) < 6 || frame[0]&1 == 0:
	case string(frame[:6]) == "\xff\xff\xff\xff\xff\xff":
		c.broad.Add(1)
	default:
		c.multi.Add(1)
	}
}

// Counters returns the numbers of frames and bytes so far, for [Port].
func (p *Interface) Counters() Counters {
	p.closing.Lock()
	if !p.closed {
		if st, err := unix.GetsockoptTpacketStats(p.rx, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
			p.inLostTotal.Add(uint64(st.Drops)) // reading resets it
		}
	}
	p.closing.Unlock()
	return Counters{
		InMulticast: p.inCasts.multi.Load(), InBroadcast: p.inCasts.broad.Load(),
		OutMulticast: p.outCasts.multi.Load(), OutBroadcast: p.outCasts.broad.Load(),
		InPkts: p.inPkts.Load(), InOctets: p.inOctets.Load(), OutPkts: p.outPkts.Load(), OutOctets: p.outOctets.Load(),
		InLost: p.inLostTotal.Load(), InTooLong: p.inTooLong.Load(), InCut: p.inCut.Load(), InChecksums: p.inChecksums.Load(),
		OutDown: p.outDown.Load(), OutTooLong: p.outTooLong.Load(), OutLost: p.outLost.Load(),
	}
}

// Close frees the port's resources, for [Port].
func (p *Interface) Close() error {
	p.closing.Lock()
	defer p.closing.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	var errs []error
	if p.ring != nil {
		errs = append(errs, unix.Munmap(p.ring))
		p.slots = nil
	}
	for _, fd := range append(p.held, p.rx, p.tx) {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	if p.owner != nil {
		errs = append(errs, p.owner.Close())
	}
	return errors.Join(errs...)
}
