package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestValidateKeys: validate --keys prints a scenario's keys by path or by last part, and refuses unknown ones.
func TestValidateKeys(t *testing.T) {
	for _, c := range []struct {
		names, want, without string
	}{
		{"", "host.rto: time; default 1ms\n    Retransmission timer of a queue pair.\n", "nothing of this"},
		{"", "steps[]....\n    As failures[].events[]....\n", "nothing of this"},
		{"host", "host.receiver: scheme, go-back-n, selective-repeat, ideal, falcon; default scheme\n", "switch.ecn"},
		{"failures", "failures[].events[].at: ", "\nhost"},
		{"ack_every", "host.ack_every: number; default 1\n", "host.rto"},
		{"name", "name: text; required\n", "failures[].name"},
		{"schemes", "schemes[].flowcut.drain\n    percent of the base round trip", "host.rto"},
		{"congestion_params", "host.congestion_params.swift.target_delay\n", "host.rto"},
		{"expect", "expect[].that.slowdown\n    completion time over the lower bound\n", "host.rto"},
	} {
		var out, wrong bytes.Buffer
		a := &app{stdout: &out, stderr: &wrong}
		if code := a.execute(t.Context(), append([]string{"validate", "--keys"}, strings.Fields(c.names)...)); code != 0 {
			t.Fatalf("--keys %s: exit code %d: %s", c.names, code, &wrong)
		}
		if s := out.String(); !strings.Contains(s, c.want) || strings.Contains(s, c.without) {
			t.Errorf("--keys %s lacks %q or has %q:\n%s", c.names, c.want, c.without, s)
		}
	}
	var out, wrong bytes.Buffer
	a := &app{stdout: &out, stderr: &wrong}
	if code := a.execute(t.Context(), []string{"validate", "--keys", "hots"}); code != 2 || !strings.Contains(wrong.String(), "did you mean host?") {
		t.Errorf("--keys hots: exit code %d: %s", code, &wrong)
	}
}
