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
	LivePrefix = "ethereal-live-"        // of ethereal live up, among the system's temporary files
	MininetDir = "/run/ethereal-mininet" // folder of the fabric of `ethereal mininet`
)

// LiveFolders returns the folders of this user's live fabrics, of killed ones too, and the number of folders under
// such names that are not this user's.
func LiveFolders() (own []string, others int) {
	found, _ := filepath.Glob(filepath.Join(os.TempDir(), LivePrefix+"*")) // the pattern is valid
	for _, dir := range found {
		if CheckOwner(dir) == nil {
			own = append(own, dir)
		} else {
			others++
		}
	}
	return own, others
}

// Running returns the fabrics of this machine whose controllers accept connections. It skips the remains of killed
// fabrics, folders of other users, and files that this user may not read.
func Running() (up []*File) {
	folders, _ := LiveFolders()
	for _, dir := range append(folders, MininetDir) {
		if CheckOwner(dir) != nil {
			continue
		}
		if d, err := Load(filepath.Join(dir, FileName)); err == nil && isListening(d.Admin) {
			up = append(up, d)
		}
	}
	return up
}

// acceptLimit is the time allowed for a controller on this machine to accept a connection.
const acceptLimit = time.Second

// isListening reports whether a process listens at HOST:PORT or unix:PATH.
func isListening(addr string) bool {
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
