package hostcheck

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

// host is a check in progress.
type host struct {
	Config
	list checklist.List
	name string
}

func (h *host) add(l checklist.Light, check, seen, remedy string) {
	h.list.Add(l, h.name, check, seen, remedy)
}

// Run checks whether this machine is ready to be a host of the fabric, and returns one line per item checked.
func Run(cfg Config) ([]checklist.Line, error) {
	if cfg.Fabric == nil || int(cfg.Host) >= cfg.Fabric.Hosts() {
		return nil, fmt.Errorf("%w: Host: none of the fabric's", ErrConfig)
	}
	if cfg.Sys == "" {
		cfg.Sys = "/sys"
	}
	h := &host{Config: cfg, name: cfg.Fabric.Name(cfg.Host)}
	h.kernel()
	h.privileges()
	h.clock()
	link, err := netlink.LinkByName(cfg.Interface)
	if err != nil {
		h.add(checklist.Red, "interface", fmt.Sprintf("%s: %v", cfg.Interface, err),
			"name the interface to the ToR with --interface; ip link lists them")
	} else {
		h.link(link.Attrs())
		h.addresses(link)
	}
	h.rdma()
	h.qos()
	h.sockets()
	return h.list.Lines([]string{h.name}), nil
}

// The oldest kernels for which the eBPF program was written: TCX attaches from 6.6 on, older kernels use the
// classifier of tc.
const (
	needMajor, needMinor = 5, 10
)

func (h *host) kernel() {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		h.add(checklist.Unseen, "kernel", err.Error(), "see uname -r")
		return
	}
	release := unix.ByteSliceToString(u.Release[:])
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		h.add(checklist.Unseen, "kernel", release, "the agent needs Linux 5.10 or later")
		return
	}
	if major < needMajor || major == needMajor && minor < needMinor {
		h.add(checklist.Red, "kernel", release, "boot Linux 5.10 or later: ethereal host tag's program needs it")
		return
	}
	h.add(checklist.Green, "kernel", release, "")
}

// privileges checks the capabilities of the caller, which should be the user that the agent will have.
func (h *host) privileges() {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		h.add(checklist.Unseen, "privileges", err.Error(), "the agent needs CAP_NET_RAW")
		return
	}
	var set uint64
	for line := range strings.Lines(string(text)) {
		if digits, ok := strings.CutPrefix(line, "CapEff:"); ok {
			set, _ = strconv.ParseUint(strings.TrimSpace(digits), 16, 64)
		}
	}
	has := func(c int) bool { return set>>c&1 == 1 }
	switch {
	case !has(unix.CAP_NET_RAW):
		h.add(checklist.Red, "privileges", "no CAP_NET_RAW",
			"run as root, or under the systemd unit, whose AmbientCapabilities name it")
	case !has(unix.CAP_BPF) || !has(unix.CAP_NET_ADMIN):
		h.add(checklist.Yellow, "privileges",
			"CAP_NET_RAW, but not CAP_BPF and CAP_NET_ADMIN: ethereal host agent works, ethereal host tag does not",
			"run as root, or add them to the systemd unit")
	default:
		h.add(checklist.Green, "privileges", "CAP_NET_RAW, CAP_BPF, CAP_NET_ADMIN", "")
	}
}

// sockets checks whether the sockets answer that this host's programs need.
func (h *host) sockets() {
	for _, s := range []struct {
		check, path string
		kind        int
		remedy      string
	}{
		{"verbs", h.Verbs, unix.SOCK_SEQPACKET,
			"start ethereal host nic (or host agent) with --listen-verbs unix:%s, as the programs' user"},
		{"owners", h.Owners, unix.SOCK_STREAM,
			"start ethereal host agent with --labeller verbs --listen-owners unix:%s, as the programs' user"},
	} {
		if s.path == "" {
			continue
		}
		if err := answers(s.path, s.kind); err != nil {
			h.add(checklist.Red, s.check, fmt.Sprintf("no answer at %s: %v", s.path, err),
				fmt.Sprintf(s.remedy, s.path))
			continue
		}
		h.add(checklist.Green, s.check, s.path+" answers", "")
	}
	if h.Verbs != "" {
		// The library gives the process that owns the interface access to the program's memory.
		if f, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0); err != nil {
			h.add(checklist.Red, "memory", err.Error(),
				"programs cannot share their memory with the device: mount /proc, and let them open /proc/self/mem")
		} else {
			f.Close() //nolint:errcheck // it was only opened
			h.add(checklist.Green, "memory", "programs can share it", "")
		}
	}
}

// answers connects to a UNIX socket.
func answers(path string, kind int) error {
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was sent
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
}

func (h *host) clock() {
	state, err := unix.Adjtimex(&unix.Timex{})
	switch {
	case err != nil:
		h.add(checklist.Unseen, "clock", err.Error(), "see timedatectl")
	case state == unix.TIME_ERROR:
		h.add(checklist.Yellow, "clock", "the kernel's clock is not synchronised",
			"start chrony, systemd-timesyncd or ptp4l: certificates and logs need it")
	default:
		h.add(checklist.Green, "clock", "synchronised", "")
	}
}

func (h *host) link(a *netlink.LinkAttrs) {
	up := a.Flags&net.FlagUp != 0
	switch {
	case !up:
		h.add(checklist.Red, "interface", a.Name+" is down", "ip link set "+a.Name+" up")
	case a.OperState == netlink.OperDown || a.OperState == netlink.OperLowerLayerDown:
		h.add(checklist.Red, "interface", a.Name+" has no carrier",
			"plug the cable in; compare speed and FEC with the ToR's port")
	default:
		h.add(checklist.Green, "interface", a.Name+" is up", "")
	}
	if h.MTU > 0 {
		if a.MTU < h.MTU {
			h.add(checklist.Red, "mtu", fmt.Sprintf("%s has %d, RoCEv2 packets here need %d", a.Name, a.MTU, h.MTU),
				fmt.Sprintf("ip link set %s mtu %d, and as much on every switch's ports", a.Name, h.MTU))
		} else {
			h.add(checklist.Green, "mtu", strconv.Itoa(a.MTU), "")
		}
	}
	mac := h.Fabric.MAC(h.Host)
	if want := net.HardwareAddr(mac[:]); a.HardwareAddr.String() != want.String() {
		h.add(checklist.Red, "mac", fmt.Sprintf("%s has %v; ToRs write %v into what they deliver", a.Name,
			a.HardwareAddr, want), fmt.Sprintf("ip link set %s address %v", a.Name, want))
	} else {
		h.add(checklist.Green, "mac", want.String(), "")
	}
	h.speed(a.Name)
}

func (h *host) speed(name string) {
	rate := h.Fabric.Link(h.Fabric.Node(h.Host).Link(1)).Rate
	text, err := os.ReadFile(filepath.Join(h.Sys, "class/net", name, "speed"))
	mbit, convErr := strconv.Atoi(strings.TrimSpace(string(text)))
	driver, _ := os.Readlink(filepath.Join(h.Sys, "class/net", name, "device/driver"))
	switch {
	case err != nil || convErr != nil || mbit <= 0:
		h.add(checklist.Unseen, "speed", name+" does not report it", "see ethtool "+name)
	case driver == "": // virtual: it reports 10 Gb/s whatever its peer has
		h.add(checklist.Unseen, "speed", name+" is a virtual interface", "its rate is the qdisc's")
	case int64(mbit)*1e6 != int64(rate):
		h.add(checklist.Red, "speed", fmt.Sprintf("%s has %d Mb/s, fabric.yaml says %v", name, mbit, rate),
			"set speed, lanes and FEC on both ends, or correct the rate in fabric.yaml")
	default:
		h.add(checklist.Green, "speed", rate.String(), "")
	}
}

func (h *host) addresses(link netlink.Link) {
	addrs, err := netlink.AddrList(link, unix.AF_UNSPEC)
	if err != nil {
		h.add(checklist.Unseen, "addresses", err.Error(), "see ip address")
		return
	}
	var has4, has6 bool
	for _, a := range addrs {
		has4 = has4 || a.IP.Equal(net.IP(h.Fabric.HostAddr4(h.Host).AsSlice()))
		has6 = has6 || a.IP.Equal(net.IP(h.Fabric.HostAddr6(h.Host).AsSlice()))
	}
	name, v4, v6 := link.Attrs().Name, h.Fabric.HostAddr4(h.Host), h.Fabric.HostAddr6(h.Host)
	switch {
	case has4 && has6:
		h.add(checklist.Green, "addresses", fmt.Sprintf("%v, %v", v4, v6), "")
	case has4 || has6:
		h.add(checklist.Green, "addresses", fmt.Sprintf("one of %v, %v", v4, v6), "")
	default:
		h.add(checklist.Yellow, "addresses", fmt.Sprintf(
			"%s has neither %v nor %v: the soft endpoint needs no address, but an RNIC and other programs do", name, v4,
			v6),
			fmt.Sprintf("ip address add %v/32 dev %s; and a route through the ToR, docs/lab.md", v4, name))
	}
}
