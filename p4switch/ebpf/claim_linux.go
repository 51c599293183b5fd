package ebpf

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// ErrTaken is wrapped by the error of [Attach] if another switch process already forwards the packets of the interface.
var ErrTaken = errors.New("another switch has a data path in the kernel on it; end that switch, or name another interface")

// claim is a name in the interface's network namespace, which the kernel frees with the process that holds it: two
// programs on one interface would each take the other's packets, without a word.
type claim int

func claimInterface(index int) (claim, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("kernel: interface %d: %w", index, err)
	}
	if err = unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@ethereal/data-path/%d", index)}); err != nil {
		unix.Close(fd) //nolint:errcheck // nothing was written
		if errors.Is(err, unix.EADDRINUSE) {
			err = ErrTaken
		}
		return -1, fmt.Errorf("kernel: interface %d: %w", index, err)
	}
	return claim(fd), nil
}

func (c claim) releaseName() { unix.Close(int(c)) } //nolint:errcheck // nothing was written
