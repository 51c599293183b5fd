package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
	"github.com/ethereal-fabric/ethereal/roce/frame"
)

// TestTag has `ethereal tag` label what a packet socket sends, over a veth pair
// in a network namespace of its own.
func TestTag(t *testing.T) {
	systemtest.Only(t)
	if os.Geteuid() != 0 {
		t.Skip("makes a network namespace and loads eBPF: needs root")
	}
	runtime.LockOSThread() // for good: the thread stays in the namespace
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Skipf("needs a network namespace: %v", err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	la := netlink.NewLinkAttrs()
	la.Name = "left"
	must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: la, PeerName: "right"}))
	open := func(name string) int {
		l, err := netlink.LinkByName(name)
		must(err)
		must(netlink.LinkSetUp(l))
		all := uint16(unix.ETH_P_ALL)<<8 | uint16(unix.ETH_P_ALL)>>8
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(all))
		must(err)
		t.Cleanup(func() { unix.Close(fd) })
		must(unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: l.Attrs().Index}))
		must(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}))
		return fd
	}
	left, right := open("left"), open("right")
	spec := filepath.Join(t.TempDir(), "fabric.yaml")
	must(os.WriteFile(spec, []byte("kind: fat-tree\nk: 4\n"), 0o600))
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	must(err)
	s := frame.Stack{Src: f.HostAddr4(0), Dst: f.HostAddr4(15), TTL: 64, SourcePort: 0xF00D, PayloadLen: 512,
		BTH: frame.BTHFields{Opcode: frame.WriteMiddle, DestQP: 0x77}}
	raw := make([]byte, s.FrameLen())
	_, err = s.Encode(raw)
	must(err)
	p, err := frame.Parse(raw)
	must(err)
	p.SetICRC()

	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	labelled := make(chan error, 1)
	go func() { // sockets stay of the namespace they were made in
		defer cancel()
		b := make([]byte, 2048)
		for ctx.Err() == nil {
			if _, err := unix.Write(left, raw); err != nil {
				labelled <- err
				return
			}
			n, err := unix.Read(right, b)
			if err != nil {
				continue
			}
			got, err := frame.Parse(b[:n])
			if err != nil {
				continue // of the stack's own
			}
			if l, ok := frame.LabelOfSourcePort(got.SourcePort()); ok && l < f.LabelSpan() {
				labelled <- got.VerifyICRC()
				return
			}
		}
		labelled <- errors.New("no labelled packet in time")
	}()
	flags := labellingFlags{labeller: labellerTagger, agentFlags: agentFlags{fabric: spec, host: "h0", interfaces: []string{"left"}}}
	err = flags.run(ctx, io.Discard)
	if errors.Is(err, labeller.ErrNotPermitted) || errors.Is(err, labeller.ErrUnsupported) {
		t.Skip(err)
	}
	must(err)
	must(<-labelled)
}
