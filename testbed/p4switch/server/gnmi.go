package server

import (
	"fmt"

	gnmi "github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

// GNMIConfig sets up a [GNMI].
type GNMIConfig struct {
	// Ports are what is served. Required.
	Ports *Ports
	// Now is the time in ns since the Unix epoch. Required.
	Now func() int64
	// MinInterval is the shortest sample and heartbeat interval, in ns; it
	// is also what a sample interval of 0 means. 0: 10 ms.
	MinInterval int64
	// DefaultInterval is the sample interval, in ns, of counters under
	// TARGET_DEFINED. 0: 10 s.
	DefaultInterval int64
	// Budget bounds what clients may ask for.
	Budget Budget
}

// GNMI is the gNMI side of one switch: openconfig-interfaces over its
// [Ports]. Like [Core] it has no goroutine, socket or clock, and is not safe
// for concurrent use.
type GNMI struct {
	cfg    GNMIConfig
	budget Budget
	values [][]value // what ON_CHANGE compares with: by port, by leaf
	subs   []*Subscription
}

// models are the schema modules served.
var models = []struct{ name, version string }{
	{"openconfig-interfaces", "3.7.2"},
	{"openconfig-p4rt", "1.0.0"},
}

// NewGNMI makes the gNMI side of the ports.
func NewGNMI(cfg GNMIConfig) (*GNMI, error) {
	if cfg.Ports == nil || cfg.Now == nil {
		return nil, fmt.Errorf("switch: gnmi config: Ports and Now are required")
	}
	if cfg.MinInterval <= 0 {
		cfg.MinInterval = 10e6
	}
	if cfg.DefaultInterval <= 0 {
		cfg.DefaultInterval = 10e9
	}
	g := &GNMI{cfg: cfg, budget: cfg.Budget.withDefaults()}
	g.budget.PathElems = min(g.budget.PathElems, 63) // see matchLeaf
	for _, s := range cfg.Ports.ports {
		g.values = append(g.values, snapshot(s, nil))
	}
	cfg.Ports.Watch(g.portChanged)
	return g, nil
}

// Capabilities answers the RPC of that name.
func (g *GNMI) Capabilities(*gnmi.CapabilityRequest) (*gnmi.CapabilityResponse, error) {
	resp := &gnmi.CapabilityResponse{
		SupportedEncodings: []gnmi.Encoding{gnmi.Encoding_JSON, gnmi.Encoding_JSON_IETF, gnmi.Encoding_PROTO},
	}
	if v, ok := proto.GetExtension(gnmi.File_github_com_openconfig_gnmi_proto_gnmi_gnmi_proto.Options(), gnmi.E_GnmiService).(string); ok {
		resp.GNMIVersion = v
	}
	for _, m := range models {
		resp.SupportedModels = append(resp.SupportedModels, &gnmi.ModelData{Name: m.name, Organization: "OpenConfig working group", Version: m.version})
	}
	return resp, nil
}

func checkEncoding(e gnmi.Encoding) error {
	switch e {
	case gnmi.Encoding_JSON, gnmi.Encoding_JSON_IETF, gnmi.Encoding_PROTO:
		return nil
	}
	return errorf(codes.Unimplemented, "encoding %v; use JSON, JSON_IETF or PROTO", e)
}

func checkModels(use []*gnmi.ModelData) error {
	for _, u := range use {
		known := false
		for _, m := range models {
			known = known || m.name == u.GetName()
		}
		if !known {
			return errorf(codes.Unimplemented, "model %q is not served; see Capabilities", cutText(u.GetName()))
		}
	}
	return nil
}

// Get answers the RPC of that name: one notification per path.
func (g *GNMI) Get(req *gnmi.GetRequest) (*gnmi.GetResponse, error) {
	resp, err := g.get(req)
	return resp, rpcError(err)
}

func (g *GNMI) get(req *gnmi.GetRequest) (*gnmi.GetResponse, error) {
	if err := checkEncoding(req.GetEncoding()); err != nil {
		return nil, err
	}
	if err := checkModels(req.GetUseModels()); err != nil {
		return nil, err
	}
	keep, err := classes(req.GetType())
	if err != nil {
		return nil, err
	}
	if n, most := len(req.GetPath()), g.budget.Paths; n > most {
		return nil, over("paths", n, most, "split the request")
	}
	resp := &gnmi.GetResponse{}
	for _, path := range req.GetPath() {
		pat, err := g.budget.compile(req.GetPrefix(), path)
		if err != nil {
			return nil, err
		}
		refs, err := g.resolve(pat)
		if err != nil {
			return nil, err
		}
		if len(refs) == 0 {
			return nil, notFoundf("%s: nothing is there", pat)
		}
		n := &gnmi.Notification{Timestamp: g.cfg.Now(), Prefix: answerPrefix(req.GetPrefix(), path)}
		kept := refs[:0]
		for _, r := range refs {
			if keep(leaves[r.leaf].class) {
				kept = append(kept, r)
			}
		}
		if n.Update, err = g.updates(pat, kept, req.GetEncoding()); err != nil {
			return nil, err
		}
		resp.Notification = append(resp.Notification, n)
	}
	return resp, nil
}

// classes says which leaves a Get of a data type returns.
func classes(t gnmi.GetRequest_DataType) (func(class) bool, error) {
	switch t {
	case gnmi.GetRequest_ALL:
		return func(class) bool { return true }, nil
	case gnmi.GetRequest_CONFIG:
		return func(c class) bool { return c == configLeaf || c == keyLeaf }, nil
	case gnmi.GetRequest_STATE:
		return func(c class) bool { return c != configLeaf && c != keyLeaf }, nil
	case gnmi.GetRequest_OPERATIONAL:
		return func(c class) bool { return c == operationalLeaf }, nil
	}
	return nil, invalidf("data type %v", t)
}

// answerPrefix echoes the target and origin of a request.
func answerPrefix(prefix, path *gnmi.Path) *gnmi.Path {
	origin := prefix.GetOrigin()
	if origin == "" {
		origin = path.GetOrigin()
	}
	if prefix.GetTarget() == "" && origin == "" {
		return nil
	}
	return &gnmi.Path{Target: prefix.GetTarget(), Origin: origin}
}

// NextDeadline returns when Advance has something to do next (ns since the
// Unix epoch), and false if nothing is pending.
func (g *GNMI) NextDeadline() (int64, bool) {
	var next int64
	ok := false
	for _, s := range g.subs {
		if t, has := s.next(); has && (!ok || t < next) {
			next, ok = t, true
		}
	}
	return next, ok
}

// Advance sends the samples and heartbeats that are due at now (ns since the
// Unix epoch).
func (g *GNMI) Advance(now int64) {
	for _, s := range g.subs {
		s.advance(now)
	}
}

// portChanged tells ON_CHANGE subscribers what a port's change did to its
// leaves.
func (g *GNMI) portChanged(ev PortEvent) {
	for i, s := range g.cfg.Ports.ports {
		if s.Number != ev.State.Number {
			continue
		}
		now := snapshot(s, nil)
		var changed []ref
		for l := range leaves {
			if now[l] != g.values[i][l] {
				changed = append(changed, ref{port: i, leaf: l})
			}
		}
		g.values[i] = now
		for _, sub := range g.subs {
			sub.changed(changed, ev.Now)
		}
	}
}
