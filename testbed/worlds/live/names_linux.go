package live

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Where programs look names up.
const (
	hostsFile    = "/etc/hosts"
	resolverFile = "/etc/resolv.conf"
)

// nameHosts lets programs of the sandbox find the hosts by their names. It has no way to a DNS server: without one
// in resolv.conf a look-up fails at once, else after 20 s.
func (x *Fabric) nameHosts() error {
	text, err := os.ReadFile(hostsFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("live: %w", err)
	}
	var all strings.Builder
	for h := range x.f.Hosts() {
		fmt.Fprintf(&all, "%s %s\n", x.f.HostAddr4(fabric.NodeID(h)), x.f.Name(fabric.NodeID(h)))
	}
	all.Write(text)
	// The sandbox has its own mounts, which the system may have set to be propagated.
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); errors.Is(err, unix.EINVAL) {
		return errors.New("live: the root folder is no mount point, as in a chroot: before chroot DIR, run mount --bind DIR DIR")
	} else if err != nil {
		return fmt.Errorf("live: keep mounts private: %w", err)
	}
	return errors.Join(x.replaceFile(hostsFile, all.String()), x.replaceFile(resolverFile, ""))
}

// replaceFile has programs of the sandbox read a text in place of a file, if there is one.
func (x *Fabric) replaceFile(file, text string) error {
	own := x.path(filepath.Base(file))
	if err := os.WriteFile(own, []byte(text), 0o600); err != nil {
		return fmt.Errorf("live: %w", err)
	}
	if err := os.Chmod(own, 0o644); err != nil { //nolint:gosec // as the file that it covers
		return fmt.Errorf("live: %w", err)
	}
	if err := unix.Mount(own, file, "", unix.MS_BIND, ""); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("live: mount %s: %w", file, err)
	}
	return nil
}

// segmentsHere has the kernel of the thread's namespace make whole packets of what programs
// send by TCP: switches pass none above the MTU, and no NIC cuts them.
func segmentsHere(name string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("live: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	var request struct {
		name [unix.IFNAMSIZ]byte
		data *[2]uint32
		_    [16]byte // struct ifreq has a union of 24 bytes
	}
	copy(request.name[:unix.IFNAMSIZ-1], name)
	for _, command := range []uint32{unix.ETHTOOL_STSO, unix.ETHTOOL_SGSO, unix.ETHTOOL_STXCSUM} {
		request.data = &[2]uint32{command, 0}
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
			return fmt.Errorf("live: ethtool %s: %w", name, errno)
		}
	}
	return nil
}
