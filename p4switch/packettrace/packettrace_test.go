package packettrace_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/packettrace"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// traces returns what is written of packets through a program: for people, and as JSON.
func traces(t *testing.T, file string, set func(*program.Program, *interp.Switch), packets ...string) (text, lines []string) {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(file)))
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Load(src)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s := interp.NewSwitch(p, interp.Config{MaxPasses: 2000, Tracer: &interp.Tracer{Done: func(x *interp.PacketTrace) {
		text = append(text, packettrace.Text(x))
		if err := packettrace.WriteJSON(&out, x); err != nil {
			t.Error(err)
		}
	}}})
	set(p, s)
	for i, packet := range packets {
		data, err := hex.DecodeString(packet)
		if err != nil {
			t.Fatal(err)
		}
		s.Process(interp.Input{Port: 3, Data: data, Now: int64(i+1) * 1000}, func(interp.Output) {})
	}
	return text, strings.Split(strings.TrimSpace(out.String()), "\n")
}

// TestRoute: a packet that is sent, one that no route has, and one that the parser refuses.
func TestRoute(t *testing.T) {
	const ip = "020000000001020000000002080045000020000700004011ad17c0a800010a02030403e800507061796c6f616421"
	text, lines := traces(t, "stf/testdata/route.json", func(p *program.Program, s *interp.Switch) {
		routes, _ := p.TableByName("In.routes")
		hop, _ := p.ActionByName(routes, "In.set_hop")
		_, err := s.Insert(routes, interp.Entry{
			Match:  []program.FieldMatch{{Value: []byte{10, 0, 0, 0}, PrefixLen: 8}},
			Target: interp.Target{Call: interp.ActionCall{Action: hop, Args: [][]byte{{1}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}, ip, ip[:30])
	want := []string{
		"port 3: parser start ip l4; ingress In.routes hit In.set_hop, In.hops miss In.drop, In.classes miss NoAction; dropped: ingress",
		"port 3: parser start ip error 1; ingress; dropped: ingress",
	}
	for i, w := range want {
		if i >= len(text) || text[i] != w {
			t.Errorf("packet %d: %q, want %q", i, text, w)
		}
	}
	const line = `{"input":{"packet_id":2,"ingress_port":3},"time_ns":2000,"root":{"events":[` +
		`{"pipeline_stage":{"stage_name":"parser","stage_kind":"PARSER","direction":"ENTER"}},` +
		`{"parser_state":{"name":"start"}},{"parser_state":{"name":"ip"}},{"parser_error":{"code":1}},` +
		`{"pipeline_stage":{"stage_name":"parser","stage_kind":"PARSER","direction":"EXIT"}},` +
		`{"pipeline_stage":{"stage_name":"ingress","stage_kind":"CONTROL","direction":"ENTER"}},` +
		`{"pipeline_stage":{"stage_name":"ingress","stage_kind":"CONTROL","direction":"EXIT"}}],"drop":{"reason":"ingress"}}}`
	if len(lines) != 2 || lines[1] != line {
		t.Errorf("%q, want %s", lines, line)
	}
}

// TestCopies: clones and replicas have traces of their own, and an endless resubmit ends in one.
func TestCopies(t *testing.T) {
	text, lines := traces(t, "interp/testdata/replicate.json", func(_ *program.Program, s *interp.Switch) {
		to := []interp.Replica{{Port: 7}, {Port: 8}}
		if err := s.SetCloneSession(5, interp.CloneSession{Replicas: to}); err != nil {
			t.Fatal(err)
		}
		if err := s.SetMulticastGroup(3, to); err != nil {
			t.Fatal(err)
		}
	}, "01040002ee", "02030000ee", "04000002ee", "02040000", "08000002")
	for i, want := range []string{
		"port 3: parser start first; egress; out of port 7, 13 bytes",
		"port 3: parser start first; egress; out of port 8, 13 bytes",
		"port 3: parser start first; ingress; egress; out of port 2, 13 bytes",
		"port 3: parser start first; ingress; multicast",
		"port 3: egress; out of port 7, 13 bytes",
		"port 3: egress; out of port 8, 13 bytes",
		"port 3: parser start first; ingress; egress; recirculate; parser start again first; ingress; egress; out of port 9, 13 bytes",
		"port 3: parser start first; ingress; dropped: no multicast group",
	} {
		if i >= len(text) || text[i] != want {
			t.Errorf("%d: want %q of\n%s", i, want, strings.Join(text, "\n"))
		}
	}
	for i, of := range map[int]string{0: `"packet_id":2,"ingress_port":3},"copy_of":1,`, 4: `"packet_id":5,"ingress_port":3},"copy_of":4,`} {
		if !strings.Contains(lines[i], of) {
			t.Errorf("%s: want %s", lines[i], of)
		}
	}
	// A resubmit without end: as many events as a trace has, and one that says so.
	last := lines[len(lines)-1]
	if n := strings.Count(last, "_state") + strings.Count(last, "_stage\"") + strings.Count(last, `"again"`); n != 4096 ||
		!strings.HasSuffix(last, `{"truncated":{}}],"drop":{"reason":"too many passes"}}}`) {
		t.Errorf("%d events: ...%s", n, last[len(last)-100:])
	}
}
