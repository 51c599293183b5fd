package scenario

import (
	"strings"
	"testing"
)

// A timer that is too short for the links is named, with one that will do; what a world stretches is said.
func TestHint(t *testing.T) {
	parse := func(text string) *Scenario {
		t.Helper()
		s, err := Parse("s.yaml", []byte("name: s\nfabric: {kind: leaf-spine, tors: 2, spines: 2, hosts_per_tor: 2, "+
			"host_link: {rate: 100Mb/s}, tor_uplink: {rate: 100Mb/s}}\ncollectives: [{kind: all-to-all, bytes: 1MB}]\nschemes: [ethereal]\n"+text), nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct{ text, want string }{
		{"", "write host: {rto: 200ms}, or less for switch.ecn.kmin"},
		{"host: {rto: 200ms}\n", ""},
		{"switch: {ecn: {kmin: 0B, kmax: 0B}}\n", "write host: {rto: 6ms}, or less for host.payload"},
		{"switch: {ecn: {kmin: 0B, kmax: 0B}}\nhost: {payload: 1KB}\n", ""},
	} {
		if got := parse(c.text).Hint(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%q: hint %q, want %q", c.text, got, c.want)
		}
	}
	s := parse("expect: [{that: finished, is: true}]\n")
	live := s.ForWorld(WorldLive)
	if want := "links carry 5 Mb/s instead of 100 Mb/s; all-to-all has 800 KB instead of 1 MB"; !strings.HasPrefix(live.Stretched, want) || live.Hint() != "" {
		t.Errorf("in the live world: %q, hint %q", live.Stretched, live.Hint())
	}
	if virtual := s.ForWorld(WorldVirtual); virtual.Stretched != "" {
		t.Errorf("in virtual time: %q", virtual.Stretched)
	}
}
