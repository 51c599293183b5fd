package viewhttp

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/internal/listen"
)

// Listen opens a port for the server. addr is a loopback address, as in "127.0.0.1:0", or "fd:3", a listening
// socket from the parent process, which may be in another network namespace. With certificates, which browsers then
// have to show, addr may be any address.
func Listen(addr string, certificates bool) (net.Listener, error) {
	if number, ok := strings.CutPrefix(addr, "fd:"); ok {
		return inheritedListener(addr, number)
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("%w; write an address and a port, as in 127.0.0.1:0", err)
	}
	if !listen.LoopbackName(host) && !certificates {
		return nil, fmt.Errorf("%s is not a loopback address; the page is for a browser on this machine, by ssh -L for another, or with certificates", addr)
	}
	return net.Listen("tcp", addr)
}

func inheritedListener(addr, number string) (net.Listener, error) {
	n, err := strconv.ParseUint(number, 10, 16)
	if err != nil || n < 3 {
		return nil, fmt.Errorf("%s names no descriptor that can be passed on; write fd:3", addr)
	}
	file := os.NewFile(uintptr(n), addr)
	defer file.Close() //nolint:errcheck // the listener has one of its own
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("%s is no socket that listens: %w", addr, err)
	}
	if tcp, ok := l.Addr().(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return nil, errors.Join(fmt.Errorf("%s listens at %s, which is no loopback address", addr, l.Addr()), l.Close())
	}
	return l, nil
}

// tokenPattern matches the content of a file of [Secret].
var tokenPattern = regexp.MustCompile(`^[A-Za-z0-9]{20,128}$`)

// Secret returns the secret of a page's path from a file, so that the page's address outlives its server. It makes
// a missing file, readable by its owner alone.
func Secret(path string) (string, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		fresh := rand.Text()
		return fresh, writeSecret(path, fresh)
	}
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	kept := strings.TrimSpace(string(text))
	switch {
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("%s: others may read the page's secret; chmod 600 it", path)
	case !tokenPattern.MatchString(kept):
		return "", fmt.Errorf("%s: a page's secret is 20 to 128 letters and digits; remove the file to have one made", path)
	}
	return kept, nil
}

// writeSecret makes the complete file or none, and does not replace a file made meanwhile.
func writeSecret(path, text string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".view-*") // readable by its owner alone
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}

// URL returns the address of a page at a listener.
func URL(l net.Addr, secret string, tls bool) string {
	scheme := "http"
	if tls {
		scheme = "https"
	}
	return scheme + "://" + l.String() + "/" + secret + "/"
}
