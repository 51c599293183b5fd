package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// frrAt is an FRR that is installed here.
type frrAt struct {
	vtysh, daemons string   // a program, and the folder of the others
	needed         []string // daemons that static routes need, in the order of their start
	user           string   // its daemons are
	sockets        string   // where they have to be, below; "": anywhere
}

// findFRR finds Debian's FRR, or the one that FRR_PREFIX names.
func findFRR(t *testing.T) frrAt {
	t.Helper()
	systemtest.Only(t)
	x := frrAt{vtysh: "/usr/bin/vtysh", daemons: "/usr/lib/frr", user: "frr"}
	if prefix := os.Getenv("FRR_PREFIX"); prefix != "" {
		x = frrAt{vtysh: filepath.Join(prefix, "bin/vtysh"), daemons: filepath.Join(prefix, "sbin"), user: "root",
			sockets: filepath.Join(prefix, "var/run/frr")}
	}
	for _, name := range []string{"mgmtd", "zebra", "staticd"} {
		if _, err := os.Stat(filepath.Join(x.daemons, name)); err == nil {
			x.needed = append(x.needed, name)
		} else if name != "mgmtd" { // FRR 8 has none
			t.Skipf("%v: install frr, or name one in FRR_PREFIX", err)
		}
	}
	return x
}

// start starts FRR's daemons in a switch's namespace, and has them read its frr.conf.
func (x frrAt) start(l *exported, id fabric.NodeID) {
	p := l.p
	dir, err := os.MkdirTemp(x.sockets, "frr")
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // a few sockets
	if out, err := exec.Command("chown", x.user, dir).CombinedOutput(); err != nil {
		l.t.Skipf("FRR's folder cannot be its own: %v: %s", err, out)
	}
	own := "--vty_socket " + dir
	if x.sockets != "" { // of mgmtd, which takes no other word for them
		own = "-N " + filepath.Base(dir)
	}
	for _, name := range x.needed {
		args := []string{
			fmt.Sprintf("--net=/proc/%d/ns/net", l.pids[id]), filepath.Join(x.daemons, name), "-u", x.user, "-g", x.user, "-P", "0", "-i", filepath.Join(dir, name+".pid"), "--log", "stdout",
		}
		if x.sockets == "" {
			args = append(args, "-z", filepath.Join(dir, "zserv.api"))
		}
		p.start(p.f.Name(id)+" "+name, "nsenter", append(args, strings.Fields(own)...)...)
		p.until(time.Minute, name+" listens", func() error {
			_, err := os.Stat(filepath.Join(dir, name+".vty"))
			return err
		})
	}
	shell(l.t, 0, fmt.Sprintf("%s %s -f %s", x.vtysh, own, filepath.Join(p.dir, p.f.Name(id)+".conf")))
}

// await waits until the kernel has all routes of a switch.
func (x frrAt) await(l *exported, id fabric.NodeID) {
	l.p.until(time.Minute, l.p.f.Name(id)+" has its routes", func() error {
		in := fmt.Sprintf("--net=/proc/%d/ns/net", l.pids[id])
		out, err := exec.Command("nsenter", in, "ip", "-6", "-j", "route").Output()
		if err != nil {
			return err
		}
		var routes []struct {
			Dst      string
			NextHops []json.RawMessage
			Gateway  string
		}
		if err := json.Unmarshal(out, &routes); err != nil {
			return err
		}
		ways := map[netip.Prefix]int{}
		for _, r := range routes {
			to, err := netip.ParsePrefix(r.Dst)
			if a, failed := netip.ParseAddr(r.Dst); failed == nil {
				to, err = netip.PrefixFrom(a, 128), nil
			}
			if err == nil && (r.Gateway != "" || len(r.NextHops) > 0) {
				ways[to] += max(1, len(r.NextHops))
			}
		}
		for _, r := range l.plan.Routes(id) {
			if ways[r.To] != len(r.Hops) {
				return fmt.Errorf("%v: %d next hops, want %d:\n%s", r.To, ways[r.To], len(r.Hops), out)
			}
		}
		if own := fabric.Locator(id).String(); !strings.Contains(string(out), own) {
			return errors.New(own + ", its own uSID, is missing")
		}
		return nil
	})
}
