package deployment

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// FileName is the deployment's file in the folder of a running fabric on this machine.
const FileName = "deployment.json"

// Folders of running fabrics on this machine.
const (
	LivePrefix  = "ethereal-live-"        // of ethereal live up, among the system's temporary files
	MachinesDir = "ethereal-live"         // of ethereal live up --on, in the working folder
	MininetDir  = "/run/ethereal-mininet" // of ethereal mininet
)

// Running returns the fabrics of this machine whose controllers accept connections. It skips the remains of killed
// fabrics, and files that this user may not read.
func Running() (up []*File) {
	files, _ := filepath.Glob(filepath.Join(os.TempDir(), LivePrefix+"*", FileName)) // the pattern is valid
	files = append(files, filepath.Join(MachinesDir, FileName), filepath.Join(MininetDir, FileName))
	for _, path := range files {
		if d, err := Load(path); err == nil && accepts(d.Admin) {
			up = append(up, d)
		}
	}
	return up
}

// acceptLimit is the time allowed for a controller on this machine to accept a connection.
const acceptLimit = time.Second

// accepts reports whether a process listens at HOST:PORT or unix:PATH.
func accepts(addr string) bool {
	network := "tcp"
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	c, err := net.DialTimeout(network, addr, acceptLimit)
	if err != nil {
		return false
	}
	return c.Close() == nil
}
