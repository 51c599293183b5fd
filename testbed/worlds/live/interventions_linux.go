package live

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// EventLog returns the file that the controllers write what happens to.
func (x *Fabric) EventLog() string { return x.path("controller.jsonl") }

// KillController kills the controller, as a crash would. The switches go on as
// they are.
func (x *Fabric) KillController() error {
	x.mu.Lock()
	p := x.controller
	x.controller = nil
	x.mu.Unlock()
	if p == nil {
		return fmt.Errorf("live: there is no controller")
	}
	p.kill()
	return nil
}

// StallHost stops the process of a host, endpoint and agent alike, or lets it go
// on: what it has not read by then is still there.
func (x *Fabric) StallHost(id fabric.NodeID, stalled bool) error {
	n := x.host(id)
	if n == nil || n.proc == nil {
		return fmt.Errorf("live: node %d is no host that runs", id)
	}
	sig := syscall.SIGCONT
	if stalled {
		sig = syscall.SIGSTOP
	}
	if err := n.proc.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("live: %s: %w", x.f.Name(id), err)
	}
	return nil
}

// adminToken is what drains need. Whoever can read the fabric's folder may drain.
const adminToken = "live-fabric-of-one-user"

// writeToken writes the token for the controller and returns the file.
func (x *Fabric) writeToken() (string, error) {
	path := x.path("token")
	if err := os.WriteFile(path, []byte(adminToken+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("live: %w", err)
	}
	return path, nil
}

// Drain asks the controller to take a link or a switch, by name, out of use, or
// back into it. It returns when that is done.
func (x *Fabric) Drain(ctx context.Context, name string, drained bool) error {
	query := url.Values{"name": {name}}
	if !drained {
		query.Set("undo", "true")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://controller/drain?"+query.Encode(), nil)
	if err != nil {
		return fmt.Errorf("live: drain: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+adminToken)
	resp, err := x.admin(30 * time.Second).Do(req)
	if err != nil {
		return fmt.Errorf("live: drain: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("live: drain: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("live: drain %s: %s", name, strings.TrimSpace(string(body)))
	}
	return nil
}
