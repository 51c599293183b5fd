package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/p4src"
)

func TestPlan(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		plan := func() (string, int, int) {
			t.Helper()
			var b strings.Builder
			updates, unread, err := Plan(context.Background(), l.config(), &b)
			if err != nil {
				t.Fatal(err)
			}
			return b.String(), updates, unread
		}
		text, updates, _ := plan()
		if updates < 400 || !strings.Contains(text, "tor0: push pipeline") {
			t.Errorf("%d updates for an empty fabric:\n%.500s", updates, text)
		}
		if n, pushes := l.wrote(); n != 0 || pushes != 0 {
			t.Errorf("the plan wrote %d updates, %d pipelines", n, pushes)
		}
		r := l.run(nil)
		waitIdle(r)
		r.stop()
		if text, updates, unread := plan(); updates != 0 || unread != 0 {
			t.Errorf("%d updates, %d unread after a controller ran:\n%s", updates, unread, text)
		}
		l.link("tor0-agg0", false)
		l.switches["core3"].down()
		text, updates, unread := plan()
		if updates == 0 || unread != 1 || !strings.Contains(text, "link tor0-agg0 is down\n") ||
			!strings.Contains(text, "tor0: delete source_route 0x0000/0x3ffe\n") {
			t.Errorf("%d updates, %d unread:\n%s", updates, unread, text)
		}
	})
}

func TestHandler(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		r := l.run(func(c *Config) { c.Token = "secret" })
		waitIdle(r)
		h := r.Handler()
		do := func(method, path, token string) (int, string) {
			req := httptest.NewRequest(method, path, nil)
			if token != "" {
				req.Header.Set("Authorization", "Bearer "+token)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, req)
			return w.Code, w.Body.String()
		}
		for _, path := range []string{"/healthz", "/readyz", "/status", "/metrics"} {
			if code, body := do("GET", path, ""); code != http.StatusOK {
				t.Errorf("%s: %d %s", path, code, body)
			}
		}
		var s struct {
			Ready    bool
			Switches []struct{ Name, Phase, Verdict string }
		}
		_, body := do("GET", "/status", "")
		if err := json.Unmarshal([]byte(body), &s); err != nil || !s.Ready || len(s.Switches) != len(l.switches) ||
			s.Switches[0].Phase != "serving" || s.Switches[0].Verdict != "alive" {
			t.Errorf("status: %v, %+v", err, s)
		}
		drain := "/drain?name=" + url.QueryEscape("tor0-agg0")
		for _, tt := range []struct {
			path, token string
			want        int
		}{
			{drain, "", http.StatusForbidden}, {drain, "secre", http.StatusForbidden},
			{"/drain?name=tor0", "secret", http.StatusBadRequest},
			{drain, "secret", http.StatusOK},
			{"/drain?name=tor0-agg1", "secret", http.StatusConflict},
			{drain + "&undo=true", "secret", http.StatusOK},
			{"/cabling?wait=1s", "", http.StatusForbidden}, {"/cabling?wait=1h", "secret", http.StatusBadRequest},
			{"/cabling?wait=1s&frame=-1", "secret", http.StatusBadRequest}, {"/cabling?wait=1s", "secret", http.StatusOK},
		} {
			if code, body := do("POST", tt.path, tt.token); code != tt.want {
				t.Errorf("POST %s: %d %s, want %d", tt.path, code, body, tt.want)
			}
		}
		if code, _ := do("GET", "/cabling?wait=1s", "secret"); code != http.StatusMethodNotAllowed {
			t.Errorf("GET /cabling: %d", code)
		}
		r.cables.checking.Lock()
		if code, body := do("POST", "/cabling?wait=1s", "secret"); code != http.StatusConflict || !strings.Contains(body, "being checked already") {
			t.Errorf("a second check: %d %s", code, body)
		}
		r.cables.checking.Unlock()
		r.cfg.Token = ""
		for _, token := range []string{"", "secret"} {
			if code, _ := do("POST", drain, token); code != http.StatusForbidden {
				t.Errorf("drained without any token: %d", code)
			}
		}
		_, body = do("GET", "/metrics", "")
		for _, want := range []string{"ethereal_ready 1\n", `ethereal_switch_primary{switch="tor0"} 1` + "\n", "ethereal_link_changes_total 2\n", "ethereal_wrong_tokens_total 5\n"} {
			if !strings.Contains(body, want) {
				t.Errorf("metrics lack %q:\n%s", want, body)
			}
		}
		r.stop()
		if code, _ := do("GET", "/healthz", ""); code != http.StatusServiceUnavailable {
			t.Errorf("healthz of a stopped controller: %d", code)
		}
		synctest.Wait()
	})
}

// bare is a target without its kind.
func bare(t Target) Target {
	t.Profile, t.Ports = nil, nil
	return t
}

func TestFile(t *testing.T) {
	f := fatTree(t, 4)
	var all strings.Builder
	all.WriteString("tables: {carrier_v6: ipv6-flowlabel, quench_interval: 20us, ecn: {kmin: 1KB, kmax: 2KB, pmax: 0.5, unit: 256B}}\nswitches:\n")
	for i := range f.Switches() {
		fmt.Fprintf(&all, "  %s: {p4runtime: 'sw:%d'}\n", f.Name(fabric.NodeID(f.Hosts()+i)), i)
	}
	parse := func(text string) (Config, error) {
		c := Config{Core: controller.Config{Fabric: f}}
		file, err := ParseFile("targets.yaml", []byte(text))
		if err == nil {
			err = file.Apply(&c)
		}
		return c, err
	}
	c, err := parse(all.String())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Targets[f.ToRID(1)], (Target{P4Runtime: "sw:1", GNMI: "sw:1", DeviceID: 18}); got.Profile.Name != targets.Default || got.Ports.Len() != 0 || bare(got) != want {
		t.Errorf("tor1: %+v, want %+v", got, want)
	}
	if c.Core.QuenchIntervalUs != 20 || c.Core.CarrierV6 != controller.FlowLabel || c.Core.ECN.Kmax != 2000 || c.Core.ControlPriority != 7 {
		t.Errorf("tables: %+v", c.Core)
	}
	c, err = parse(strings.Replace(all.String(), "'sw:0'}", "'sw:0', gnmi: none, device_id: 0}", 1))
	if got := c.Targets[f.ToRID(0)]; err != nil || bare(got) != (Target{P4Runtime: "sw:0"}) {
		t.Errorf("tor0: %+v, %v", got, err)
	}
	c, err = parse(all.String() + "suspicion: {probe_timeout: 50ms, agents: 3}\n")
	if err != nil || c.Suspicion.ProbeTimeout != 50*fabric.Millisecond || c.Suspicion.Agents != 3 {
		t.Errorf("suspicion: %+v, %v", c.Suspicion, err)
	}
	own := strings.Replace(all.String(), "'sw:0'}", "'sw:0', profile: ours}", 1)
	c, err = parse(own + "profiles: {ours: {like: bmv2, no_gnmi: false, batch_size: 10, lacks: [notice]}}\n")
	if p := c.Targets[f.ToRID(0)].Profile; err != nil || p.Name != "ours" || p.NoGNMI || p.BatchSize != 10 || p.Program().Name != "v1model" ||
		!slices.Equal(p.Lacks, []controller.Table{controller.Notice}) || c.batchSize(f.ToRID(0)) != 10 {
		t.Errorf("a profile of one's own: %+v, %v", p, err)
	}
	pins := strings.Replace(all.String(), "'sw:0'}", "'sw:0', profile: pins, ports: [{name: a, id: 1}, {name: b, id: 2}, {name: c, id: 3}, {name: d, id: 4}]}", 1)
	for _, tt := range []struct{ text, want string }{
		{own, `switches.tor0.profile: "ours" is unknown; `},
		{own + "profiles: {ours: {like: bmv}}\n", `profiles.ours.like: "bmv" is unknown; did you mean bmv2?`},
		{own + "profiles: {ours: {like: bmv2, no_gnmi: false, source_ports_only: true}}\n",
			"tables: tor0 is a ours, which finds labels in the UDP source port alone; set carrier_v4 and carrier_v6 to udp-sport"},
		{own + "profiles: {ours: {batch_size: 1}}\n", "profiles.ours.like: is missing; add it; name the kind"},
		{own + "profiles: {ours: {like: bmv2, batch_size: -1}}\n", "profiles.ours.batch_size: -1 is below 0"},
		{own + "profiles: {ours: {like: bmv2, lacks: [notices]}}\n", `"notices" is no table`},
		{own + "profiles: {ours: {like: bmv2, program: tna}}\n", "profiles.ours.program"},
		{all.String() + "profiles: {bmv2: {like: bmv2}}\n", "profiles.bmv2: is a kind that there is already"},
		{"{}", "tor0 is missing"},
		{all.String() + "suspicion: {agents: -1}\n", "targets.yaml:23:13: suspicion.agents: -1 is below 0"},
		{strings.Replace(all.String(), "'sw:0'}", "'sw:0', profile: tofino}", 1), `switches.tor0.profile: "tofino" is unknown; `},
		{strings.Replace(all.String(), "'sw:0'}", "'sw:0', profile: stratum-tofino}", 1), "switches.tor0.ports: 0 listed; a stratum-tofino lists all its 4"},
		{strings.Replace(all.String(), "'sw:0'}", "'sw:0', ports: [{name: a, id: 1}, {name: b, id: 2}, {name: c, id: 1}, {name: d, id: 4}]}", 1), "switches.tor0.ports: port 3: id: 1 is port 1's"},
		{strings.Replace(all.String(), "'sw:0'}", "'sw:0', profile: tofino-sde, gnmi: none, ports: [{name: a, id: 1}, {name: b, id: 2}, {name: c, id: 3}, {name: d, id: 4}]}", 1), "programs.tna: missing; tor0 is a tofino-sde"},
		{strings.Replace(all.String(), "'sw:0'}", "'sw:0', profile: bmv2}", 1), "switches.tor0.gnmi: missing; a bmv2 has no own one"},
		{strings.Replace(all.String(), ", unit: 256B", "", 1), "tables.ecn.unit: missing"},
		{all.String() + "programs: {v1model: {p4info: no/where}}\n", "programs.v1model.p4info: open no/where"},
		{all.String() + "programs: {sia: {}}\n", "programs.sia: is the program of no kind of switch; did you mean sai?"},
		{pins, "programs.sai: missing; tor0 is a pins; name the p4info of the switch's sai_p4"},
		{pins + "programs: {sai: {p4info: ../../p4src/build/ethereal.p4info.txtpb}}\n",
			"programs.sai.p4info: pins: unsuitable sai_p4: there is no table router_interface_table; give the P4Info of tor,"},
		{"switch: {}", "switch: unknown key; did you mean switches?"},
		{"switches: {tor99: {}}", `no node "tor99"`},
		{"switches: {h0: {}}", "h0 is a host"},
		{strings.Replace(all.String(), "p4runtime: 'sw:3'", "", 1), "switches.tor3.p4runtime: missing"},
		{strings.Replace(all.String(), "20us", "1500ns", 1), "whole number of microseconds"},
		{strings.Replace(all.String(), "ipv6-flowlabel", "flow", 1), `carrier "flow" is unknown`},
		{strings.Replace(all.String(), "kmin: 1KB", "kmin: 3KB", 1), "below Kmin"},
	} {
		if _, err := parse(tt.text); !errors.Is(err, ErrConfig) && !errors.Is(err, strictyaml.ErrContent) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.40q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// TestProfilesCount takes the unit of queue depth and the size of groups from what the
// switches are.
func TestProfilesCount(t *testing.T) {
	chip, err := kinds.All().ByName("stratum-tofino")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := kinds.All().ByName("")
	if err != nil {
		t.Fatal(err)
	}
	a, b := Target{Profile: chip}, Target{Profile: ours}
	for i, tt := range []struct {
		of   map[fabric.NodeID]Target
		want fabric.Bytes
	}{
		{map[fabric.NodeID]Target{1: a, 2: a}, 80}, {map[fabric.NodeID]Target{1: a, 2: b}, 0},
		{map[fabric.NodeID]Target{1: b}, 0}, {map[fabric.NodeID]Target{1: a, 2: {}}, 0}, {nil, 0},
	} {
		if got := queueUnit(tt.of); got != tt.want {
			t.Errorf("case %d: unit %v, want %v", i, got, tt.want)
		}
	}

	p, err := loadPipeline()
	if err != nil {
		t.Fatal(err)
	}
	info := proto.CloneOf(p4src.V1ModelP4Info())
	limit := p.Schema().MaxGroupSize()
	for _, ap := range info.GetActionProfiles() {
		ap.MaxGroupSize = int32(limit / 2)
	}
	small, err := p4rt.NewPipeline(info, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Pipeline: p, Targets: map[fabric.NodeID]Target{1: a, 2: b}}
	if got := c.withDefaults().Core.MaxGroupSize; got != limit {
		t.Errorf("groups of %d, the program allows %d", got, limit)
	}
	b.Pipeline = small
	c.Targets[2] = b
	if got := c.withDefaults().Core.MaxGroupSize; got != limit/2 {
		t.Errorf("groups of %d, one of the programs allows %d", got, limit/2)
	}
}
