package export

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/systemtest"
)

// TestSONiC: SONiC's own YANG models take what each tier's switches get. SONIC_YANG_MODELS is a folder with them, as
// the build of sonic-yang-models makes it of its models and templates.
func TestSONiC(t *testing.T) {
	models := systemtest.Program(t, "yanglint", "", "apt-get install yang-tools")
	if os.Getenv("SONIC_YANG_MODELS") == "" {
		t.Skip("SONIC_YANG_MODELS does not name the folder of SONiC's YANG models")
	}
	lint := func(doc map[string]any) (string, error) {
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "config.json")
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		dir := os.Getenv("SONIC_YANG_MODELS")
		args := []string{"-p", "/usr/share/yang/modules/libyang", "-p", dir, "-t", "config"}
		for _, name := range []string{"device_metadata", "port", "interface", "srv6", "static-route"} {
			args = append(args, filepath.Join(dir, "sonic-"+name+".yang"))
		}
		out, err := exec.Command(models, append(args, file)...).CombinedOutput()
		return string(out), err
	}
	for _, spec := range []fabric.Spec{
		{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 2}, {Kind: fabric.KindFatTree, K: 4},
	} {
		f, err := fabric.New(spec)
		if err != nil {
			t.Fatal(err)
		}
		p, err := New(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []fabric.NodeID{f.ToROf(0), f.CoreID(0), f.CoreID(0) - 1} {
			doc := modelled(t, p, id)
			if out, err := lint(doc); err != nil {
				t.Errorf("%s: %v\n%s", f.Name(id), err, out)
			}
			sids := doc["sonic-srv6:sonic-srv6"].(map[string]any)["SRV6_MY_SIDS"].(map[string]any)
			list := sids["SRV6_MY_SIDS_LIST"].([]map[string]any)
			list[0]["locator"] = "ANOTHER" // the models are not to take anything
			if _, err := lint(doc); err == nil {
				t.Errorf("%s: a SID of a locator that is not there was taken", f.Name(id))
			}
		}
	}
}

// modelled returns a switch's tables as the models have them: a list for a table, the parts of its keys as leaves. The
// ports, which are the platform's, are put in.
func modelled(t *testing.T, p *Plan, id fabric.NodeID) map[string]any {
	t.Helper()
	var b bytes.Buffer
	if err := p.SONiC(&b, id, 4); err != nil {
		t.Fatal(err)
	}
	var db map[string]map[string]map[string]any
	if err := json.Unmarshal(b.Bytes(), &db); err != nil {
		t.Fatal(err)
	}
	list := func(name string, keys ...string) (out []map[string]any) {
		for key, fields := range db[name] {
			parts := strings.Split(key, "|")
			if len(parts) != len(keys) {
				continue
			}
			for i, k := range keys {
				fields[k] = parts[i]
			}
			for k, v := range fields {
				if strings.HasSuffix(k, "_len") {
					fields[k] = json.RawMessage(v.(string))
				}
			}
			out = append(out, fields)
		}
		return out
	}
	var ports []map[string]any
	for i := range p.Fabric.Node(id).Ports() {
		ports = append(ports, map[string]any{
			"name": fmt.Sprintf("Ethernet%d", 4*i), "lanes": fmt.Sprint(4*i + 1), "speed": 100000,
		})
	}
	return map[string]any{
		"sonic-port:sonic-port": map[string]any{"PORT": map[string]any{"PORT_LIST": ports}},
		"sonic-interface:sonic-interface": map[string]any{"INTERFACE": map[string]any{
			"INTERFACE_LIST":          list("INTERFACE", "name"),
			"INTERFACE_IPPREFIX_LIST": list("INTERFACE", "name", "ip-prefix"),
		}},
		"sonic-srv6:sonic-srv6": map[string]any{
			"SRV6_MY_LOCATORS": map[string]any{"SRV6_MY_LOCATORS_LIST": list("SRV6_MY_LOCATORS", "locator_name")},
			"SRV6_MY_SIDS":     map[string]any{"SRV6_MY_SIDS_LIST": list("SRV6_MY_SIDS", "locator", "ip_prefix")},
		},
		"sonic-static-route:sonic-static-route": map[string]any{"STATIC_ROUTE": map[string]any{
			"STATIC_ROUTE_LIST": list("STATIC_ROUTE", "vrf_name", "prefix"),
		}},
	}
}

// TestSONiCACL: a ToR redirects every label to the uplink that its paths take, a switch of the top tier none.
func TestSONiCACL(t *testing.T) {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(f)
	if err != nil {
		t.Fatal(err)
	}
	rules := func(id fabric.NodeID) map[string]map[string]string {
		var b bytes.Buffer
		if err := p.SONiCACL(&b, id, 4); err != nil {
			t.Fatal(err)
		}
		var db struct {
			Rules map[string]map[string]string `json:"ACL_RULE"`
		}
		if err := json.Unmarshal(b.Bytes(), &db); err != nil {
			t.Fatal(err)
		}
		return db.Rules
	}
	if got := rules(f.CoreID(0)); len(got) != 0 {
		t.Errorf("a core redirects %v", got)
	}
	for _, src := range []fabric.NodeID{0, fabric.NodeID(f.Hosts() - 1)} {
		dst := fabric.NodeID(f.Hosts() - 1 - int(src))
		for _, path := range p.Paths(src, dst) {
			for i, id := range path.Nodes[:2] { // the ToR and the aggregation switch
				link, _ := f.LinkBetween(id, path.Nodes[i+1])
				there := f.Link(link).Peer(id)
				at := f.Link(link).Peer(there.Node)
				want := fmt.Sprintf("%v@Ethernet%d", LinkLocal(there), 4*(int(at.Port)-1))
				got := rules(id)[fmt.Sprintf("ETHEREAL|LABEL_%d", path.Label)]
				if got["REDIRECT_ACTION"] != want || got["L4_SRC_PORT"] != fmt.Sprint(path.Port) {
					t.Errorf("%s, label %d: %v, want to %s", f.Name(id), path.Label, got, want)
				}
			}
		}
	}
}
