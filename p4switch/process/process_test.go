//go:build linux

package process_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/ethereal-fabric/ethereal/p4switch/port/porttest"
)

// running is a switch process in a namespace: ours or BMv2's, they take the
// same arguments.
type running struct {
	ns   *porttest.Namespace
	cmd  *exec.Cmd
	out  *bytes.Buffer
	conn *grpc.ClientConn
	p4   p4.P4RuntimeClient
	ctl  p4.P4Runtime_StreamChannelClient
	info *p4config.P4Info
	stop context.CancelFunc
}

// startSwitch runs command with the options that give it the interfaces, and
// waits until it answers as a primary controller's switch.
func startSwitch(t testing.TB, ns *porttest.Namespace, command []string, interfaces ...string) *running {
	t.Helper()
	return startSwitchAt(t, ns, "127.0.0.1:9559", command, interfaces...)
}

// startSwitchAt is startSwitch for a switch with another address for P4Runtime.
func startSwitchAt(t testing.TB, ns *porttest.Namespace, addr string, command []string, interfaces ...string) *running {
	t.Helper()
	args := append([]string{}, command[1:]...)
	for i, name := range interfaces {
		args = append(args, "-i", fmt.Sprintf("%d@%s", i+1, name))
	}
	args = append(args, "--device-id", "1", "--no-p4", "--", "--grpc-server-addr", addr, "--cpu-port", "255")
	p := &running{ns: ns, cmd: exec.Command(command[0], args...), out: &bytes.Buffer{}}
	var mu sync.Mutex
	p.cmd.Stdout = &lockedWriter{mu: &mu, w: p.out}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end(t) })
	var err error
	p.conn, err = grpc.NewClient("passthrough:///"+addr, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return ns.Dial(ctx, addr) }))
	if err != nil {
		t.Fatal(err)
	}
	p.p4 = p4.NewP4RuntimeClient(p.conn)
	ctx, cancel := context.WithCancel(context.Background())
	late := time.AfterFunc(time.Minute, cancel)
	defer late.Stop()
	p.stop = cancel
	stream, err := p.p4.StreamChannel(ctx, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	m := arbitration()
	m.GetArbitration().DeviceId = 1
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatalf("arbitration: %v\n%s", err, p.out)
	}
	p.ctl = stream
	return p
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// end ends the process as scripts do.
func (p *running) end(t testing.TB) {
	if p.cmd.ProcessState != nil {
		return
	}
	if p.stop != nil {
		p.stop()
	}
	if p.conn != nil {
		p.conn.Close() //nolint:errcheck // the test is over
	}
	p.cmd.Process.Signal(unix.SIGTERM) //nolint:errcheck // it may be gone
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		p.cmd.Process.Kill() //nolint:errcheck // it may be gone
		<-done
		t.Error("the switch did not end when asked to")
	}
	if t.Failed() {
		t.Logf("the switch said:\n%s", p.out)
	}
}

// push sends a program.
func (p *running) push(t testing.TB, json []byte, info *p4config.P4Info) {
	t.Helper()
	p.info = info
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := p.p4.SetForwardingPipelineConfig(ctx, &p4.SetForwardingPipelineConfigRequest{
		DeviceId: 1, ElectionId: &p4.Uint128{Low: 1}, Action: p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
		Config: &p4.ForwardingPipelineConfig{P4Info: info, P4DeviceConfig: json},
	})
	if err != nil {
		t.Fatalf("pipeline: %v\n%s", err, p.out)
	}
}

func (p *running) write(t testing.TB, updates ...*p4.Update) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if _, err := p.p4.Write(ctx, &p4.WriteRequest{DeviceId: 1, ElectionId: &p4.Uint128{Low: 1}, Updates: updates}); err != nil {
		t.Fatalf("write: %v\n%s", err, p.out)
	}
}

// table returns the ids of a table and of an action of the program.
func (p *running) table(t testing.TB, table, action string) (tid, aid uint32) {
	t.Helper()
	for _, x := range p.info.GetTables() {
		if x.GetPreamble().GetName() == table {
			tid = x.GetPreamble().GetId()
		}
	}
	for _, x := range p.info.GetActions() {
		if n := x.GetPreamble().GetName(); n == action || strings.HasSuffix(n, "."+action) {
			aid = x.GetPreamble().GetId()
		}
	}
	if tid == 0 || aid == 0 {
		t.Fatalf("the program has no table %s with action %s", table, action)
	}
	return tid, aid
}

// entry makes an update of a table; params are the action's, in order.
func (p *running) entry(t testing.TB, typ p4.Update_Type, table string, match []*p4.FieldMatch, action string, params ...[]byte) *p4.Update {
	t.Helper()
	tid, aid := p.table(t, table, action)
	a := &p4.Action{ActionId: aid}
	for i, v := range params {
		if v = bytes.TrimLeft(v, "\x00"); len(v) == 0 {
			v = []byte{0}
		}
		a.Params = append(a.Params, &p4.Action_Param{ParamId: uint32(i + 1), Value: v})
	}
	e := &p4.TableEntry{TableId: tid, Match: match, Action: &p4.TableAction{Type: &p4.TableAction_Action{Action: a}}}
	if len(match) == 0 {
		e.IsDefaultAction = true
	}
	return &p4.Update{Type: typ, Entity: &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: e}}}
}

func exact(v ...byte) []*p4.FieldMatch {
	return []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Exact_{Exact: &p4.FieldMatch_Exact{Value: v}}}}
}

func lpm(bits int32, v ...byte) []*p4.FieldMatch {
	return []*p4.FieldMatch{{FieldId: 1, FieldMatchType: &p4.FieldMatch_Lpm{Lpm: &p4.FieldMatch_LPM{Value: v, PrefixLen: bits}}}}
}

// cpu is what the process has used, user and system, all threads.
func (p *running) cpu(t testing.TB) time.Duration {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/task", p.cmd.Process.Pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var sum time.Duration
	for _, task := range tasks {
		b, err := os.ReadFile(filepath.Join(dir, task.Name(), "schedstat"))
		if err != nil {
			continue // the thread ended
		}
		ns, err := strconv.ParseInt(strings.Fields(string(b))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// rocePacket is a RoCEv2 data packet of n bytes from 10.0.0.1 to 10.0.0.2.
func rocePacket(n int, udpSource uint16) []byte {
	f := make([]byte, n)
	copy(f, []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 2})
	binary.BigEndian.PutUint16(f[16:], uint16(n-14))
	f[22], f[23] = 64, 17
	copy(f[26:], []byte{10, 0, 0, 1, 10, 0, 0, 2})
	var sum uint32
	for i := 14; i < 34; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(f[i:]))
	}
	sum = sum>>16 + sum&0xffff
	binary.BigEndian.PutUint16(f[24:], ^uint16(sum>>16+sum))
	binary.BigEndian.PutUint16(f[34:], udpSource)
	binary.BigEndian.PutUint16(f[36:], 4791)
	binary.BigEndian.PutUint16(f[38:], uint16(n-34))
	f[42] = 0x0a
	return f
}
