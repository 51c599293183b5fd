package hostcheck

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

// TestRNIC: what is seen of an RNIC follows from sysfs.
func TestRNIC(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	const host = 1
	sys := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(sys, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	light := func(check string) checklist.Light {
		t.Helper()
		lines, err := Run(Config{Fabric: f, Host: host, Interface: "lo", MTU: 1 << 20, Sys: sys})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range lines {
			if l.Light != checklist.Green && l.Remedy == "" {
				t.Errorf("%+v has no remedy", l)
			}
			if l.Check == check {
				return l.Light
			}
		}
		t.Errorf("no line %s", check)
		return 255
	}
	expect := func(check string, want checklist.Light) {
		t.Helper()
		if got := light(check); got != want {
			t.Errorf("%s: %v, want %v", check, got, want)
		}
	}
	expect("rnic", checklist.Unseen)
	expect("speed", checklist.Unseen)
	expect("mtu", checklist.Red) // the loopback has 65536
	expect("mac", checklist.Red)
	const port = "class/infiniband/mlx5_0/ports/1/"
	write(port+"gid_attrs/ndevs/3", "lo")
	write(port+"gid_attrs/types/3", "IB/RoCE v1")
	a := f.HostAddr4(host).As4()
	gid := strings.ReplaceAll("0000:0000:0000:0000:0000:ffff:XXYY:ZZWW", "XXYY:ZZWW", hex4(a))
	write(port+"gids/3", gid)
	expect("rnic", checklist.Green)
	expect("gid", checklist.Red)
	write(port+"gid_attrs/types/3", "RoCE v2")
	expect("gid", checklist.Green)
	expect("dcqcn, notifying", checklist.Unseen)
	write("class/net/lo/ecn/roce_np/enable/3", "0")
	expect("dcqcn, notifying", checklist.Yellow)
	write("class/net/lo/ecn/roce_np/enable/3", "1")
	expect("dcqcn, notifying", checklist.Green)
	write("class/net/lo/speed", "400000")
	if err := os.MkdirAll(filepath.Join(sys, "class/net/lo/device"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/drivers/mlx5_core", filepath.Join(sys, "class/net/lo/device/driver")); err != nil {
		t.Fatal(err)
	}
	expect("speed", checklist.Green)
	write("class/net/lo/speed", "100000")
	expect("speed", checklist.Red)
}

func hex4(a [4]byte) string {
	const digits = "0123456789abcdef"
	var b strings.Builder
	for i, x := range a {
		if i == 2 {
			b.WriteByte(':')
		}
		b.WriteByte(digits[x>>4])
		b.WriteByte(digits[x&15])
	}
	return b.String()
}

// TestSockets: what programs of a host are to reach answers, or the line says what to start.
func TestSockets(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "s")
	expect := func(want checklist.Light) {
		t.Helper()
		lines, err := Run(Config{Fabric: f, Interface: "lo", Verbs: path, Owners: path + "2"})
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, l := range lines {
			if l.Check == "verbs" || l.Check == "owners" {
				seen++
				if l.Light != want || l.Light == checklist.Red && !strings.Contains(l.Remedy, "unix:"+path) {
					t.Errorf("%+v, want %v", l, want)
				}
			}
		}
		if seen != 2 {
			t.Errorf("%d lines", seen)
		}
	}
	expect(checklist.Red)
	for network, path := range map[string]string{"unixpacket": path, "unix": path + "2"} {
		lis, err := net.Listen(network, path)
		if err != nil {
			t.Fatal(err)
		}
		defer lis.Close()
	}
	expect(checklist.Green)
}
