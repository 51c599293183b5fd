package live

import (
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/ethereal-fabric/ethereal/controller/view/viewhttp"
)

// passed is the first descriptor that a process is given beside standard input, output and error.
const passed = 3

// Page is where the controllers of live fabrics, one after the other, serve the web page of the fabric: a socket in the
// machine's own network namespace, and a secret for the address.
type Page struct {
	URL    string
	lis    *net.TCPListener
	secret string // file
}

// ListenPage opens the socket of the web page, to be passed to [Enter]. addr is a loopback address, such as
// 127.0.0.1:0.
func ListenPage(addr string) (*os.File, error) {
	lis, err := viewhttp.Listen(addr, false)
	if err != nil {
		return nil, err
	}
	defer lis.Close() //nolint:errcheck // the file is another descriptor
	tcp, ok := lis.(*net.TCPListener)
	if !ok {
		return nil, fmt.Errorf("live: %s: no TCP socket", addr)
	}
	return tcp.File()
}

// PassedPage returns the web page whose socket was passed to [Enter]. dir is the folder for sockets and logs.
func PassedPage(dir string) (*Page, error) {
	lis, err := viewhttp.Listen(fmt.Sprintf("fd:%d", passed), false)
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	p := &Page{lis: lis.(*net.TCPListener), secret: filepath.Join(dir, "view.secret")} //nolint:forcetypeassert // Listen has looked
	secret, err := viewhttp.Secret(p.secret)
	if err != nil {
		return nil, fmt.Errorf("live: %w", err)
	}
	p.URL = viewhttp.URL(lis.Addr(), secret, false)
	return p, nil
}

// controllerArgs has a controller that is to be started serve the page, if there is one: what its command line takes,
// and the socket. The caller closes the files.
func (p *Page) controllerArgs() (args []string, files []*os.File, err error) {
	if p == nil {
		return nil, nil, nil
	}
	file, err := p.lis.File()
	if err != nil {
		return nil, nil, fmt.Errorf("live: %w", err)
	}
	return []string{"--listen-view", fmt.Sprintf("fd:%d", passed), "--view-secret-file", p.secret}, []*os.File{file}, nil
}

// startController starts a controller in the machine's network namespace, with the page if there is one. onExit, if not
// nil, is called when it has ended.
func (t *thread) startController(dir string, args []string, page *Page, onExit func(*Process)) (*Process, error) {
	more, files, err := page.controllerArgs()
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		defer f.Close() //nolint:errcheck // the controller has its own
	}
	return t.start(t.home, "controller", dir, append(args, more...), onExit, files...)
}
