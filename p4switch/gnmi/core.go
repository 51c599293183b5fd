package gnmi

import (
	"fmt"
	"slices"

	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/gnmi/proto/gnmi_ext"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// Config sets up a [Core].
type Config struct {
	// Ports are the ports to serve. Required.
	Ports *portstate.Ports
	// Now is the time in ns since the Unix epoch. Required.
	Now func() int64
	// MinInterval is the shortest interval of samples and heartbeats, in ns. A requested sample interval of 0 means
	// this. 0: 10 ms.
	MinInterval int64
	// DefaultInterval is the sample interval, in ns, of counters under
	// TARGET_DEFINED. 0: 10 s.
	DefaultInterval int64
	// Budget limits clients' requests.
	Budget rpc.Budget
}

// Core answers gNMI requests about one switch: the OpenConfig model openconfig-interfaces of its ports. It has no
// goroutine, socket or clock, and is not safe for concurrent use.
type Core struct {
	cfg    Config
	budget rpc.Budget
	values [][]value // base of the ON_CHANGE comparison: by port, by leaf
	subs   []*Subscription
}

// servedModels are the schema modules served.
var servedModels = []struct{ name, version string }{
	{"openconfig-interfaces", "3.7.2"},
	{"openconfig-p4rt", "1.0.0"},
	{ethernetModule, "2.14.0"},
	{sdnModule, "0.1.0"},
	{herculesModule, ""},
}

// New returns the gNMI core of a switch.
func New(cfg Config) (*Core, error) {
	if cfg.Ports == nil || cfg.Now == nil {
		return nil, fmt.Errorf("switch: gnmi config: Ports and Now are required")
	}
	if cfg.MinInterval <= 0 {
		cfg.MinInterval = 10e6
	}
	if cfg.DefaultInterval <= 0 {
		cfg.DefaultInterval = 10e9
	}
	g := &Core{cfg: cfg, budget: cfg.Budget.WithDefaults()}
	g.budget.ElemsPerPath = min(g.budget.ElemsPerPath, 63) // see matchLeaf
	for _, s := range cfg.Ports.States() {
		g.values = append(g.values, snapshot(s, nil))
	}
	cfg.Ports.Watch(g.portChanged)
	return g, nil
}

// Capabilities answers the Capabilities RPC.
func (g *Core) Capabilities(req *gnmipb.CapabilityRequest) (*gnmipb.CapabilityResponse, error) {
	if err := checkExtensions(req.GetExtension()); err != nil {
		return nil, rpc.Status(err)
	}
	resp := &gnmipb.CapabilityResponse{
		SupportedEncodings: []gnmipb.Encoding{gnmipb.Encoding_JSON, gnmipb.Encoding_JSON_IETF, gnmipb.Encoding_PROTO},
	}
	if v, ok := proto.GetExtension(gnmipb.File_github_com_openconfig_gnmi_proto_gnmi_gnmi_proto.Options(), gnmipb.E_GnmiService).(string); ok {
		resp.GNMIVersion = v
	}
	for _, m := range servedModels {
		resp.SupportedModels = append(resp.SupportedModels, &gnmipb.ModelData{Name: m.name, Organization: "OpenConfig working group", Version: m.version})
	}
	return resp, nil
}

func checkEncoding(e gnmipb.Encoding) error {
	switch e {
	case gnmipb.Encoding_JSON, gnmipb.Encoding_JSON_IETF, gnmipb.Encoding_PROTO:
		return nil
	}
	return rpc.Errorf(codes.Unimplemented, "encoding %v; use JSON, JSON_IETF or PROTO", e)
}

func checkModels(use []*gnmipb.ModelData) error {
	for _, u := range use {
		known := false
		for _, m := range servedModels {
			known = known || m.name == u.GetName()
		}
		if !known {
			return rpc.Errorf(codes.Unimplemented, "model %q is not served; see Capabilities", rpc.Shorten(u.GetName()))
		}
	}
	return nil
}

// checkExtensions refuses extensions that the switch does not carry out. Their senders rely on them: an unconfirmed
// commit must be reverted, a request for history must not return today's values.
func checkExtensions(exts []*gnmi_ext.Extension) error {
	for _, e := range exts {
		var name string
		switch x := e.GetExt().(type) {
		case nil:
			name = "without content"
		case *gnmi_ext.Extension_Depth:
			if x.Depth.GetLevel() == 0 {
				continue // no limit, as without it
			}
			name = "depth"
		case *gnmi_ext.Extension_Commit:
			name = "commit (confirmed)"
		case *gnmi_ext.Extension_History:
			name = "history"
		case *gnmi_ext.Extension_ConfigSubscription:
			name = "config_subscription"
		case *gnmi_ext.Extension_MasterArbitration:
			name = "master_arbitration"
		case *gnmi_ext.Extension_RegisteredExt:
			name = fmt.Sprintf("registered_ext %d", x.RegisteredExt.GetId())
		default:
			name = fmt.Sprintf("%T", x)
		}
		return rpc.Errorf(codes.Unimplemented, "extension %s is not supported; send the request without it", name)
	}
	return nil
}

// Get answers the Get RPC: one notification per path, and per interface that a path names.
func (g *Core) Get(req *gnmipb.GetRequest) (*gnmipb.GetResponse, error) {
	resp, err := g.serveGet(req)
	return resp, rpc.Status(err)
}

func (g *Core) serveGet(req *gnmipb.GetRequest) (*gnmipb.GetResponse, error) {
	if err := checkEncoding(req.GetEncoding()); err != nil {
		return nil, err
	}
	if err := checkModels(req.GetUseModels()); err != nil {
		return nil, err
	}
	if err := checkExtensions(req.GetExtension()); err != nil {
		return nil, err
	}
	keep, err := classFilter(req.GetType())
	if err != nil {
		return nil, err
	}
	if n, most := len(req.GetPath()), g.budget.PathsPerRequest; n > most {
		return nil, rpc.LimitError("paths", n, most, "split the request")
	}
	resp, sent := &gnmipb.GetResponse{}, 0
	for _, path := range req.GetPath() {
		pat, err := g.compilePath(req.GetPrefix(), path)
		if err != nil {
			return nil, err
		}
		refs, err := g.leavesOf(pat)
		if err != nil {
			return nil, err
		}
		if len(refs) == 0 {
			return nil, rpc.NotFoundf("%s: nothing is there", pat)
		}
		kept := refs[:0]
		for _, r := range refs {
			if keep(leaves[r.leaf].class) {
				kept = append(kept, r)
			}
		}
		if sent += len(kept); sent > g.budget.LeavesPerGet {
			return nil, rpc.LimitError("leaves", sent, g.budget.LeavesPerGet, "split the request")
		}
		for first := true; first || len(kept) > 0; first = false {
			k := len(kept)
			if pat.depthIn(2) == 2 { // below the list: each interface of a wildcard is a path
				k = slices.IndexFunc(kept, func(r leafRef) bool { return r.port != kept[0].port })
				if k < 0 {
					k = len(kept)
				}
			}
			n := &gnmipb.Notification{Timestamp: g.cfg.Now(), Prefix: answerPrefix(req.GetPrefix(), path)}
			if n.Update, err = g.encodeUpdates(pat, kept[:k], req.GetEncoding()); err != nil {
				return nil, err
			}
			resp.Notification = append(resp.Notification, n)
			kept = kept[k:]
		}
	}
	return resp, nil
}

// classFilter returns a test for the leaves that a Get of a data type returns.
func classFilter(t gnmipb.GetRequest_DataType) (func(class) bool, error) {
	switch t {
	case gnmipb.GetRequest_ALL:
		return func(class) bool { return true }, nil
	case gnmipb.GetRequest_CONFIG:
		return func(c class) bool { return c == configLeaf || c == keyLeaf }, nil
	case gnmipb.GetRequest_STATE:
		return func(c class) bool { return c != configLeaf && c != keyLeaf }, nil
	case gnmipb.GetRequest_OPERATIONAL:
		return func(c class) bool { return c == operationalLeaf }, nil
	}
	return nil, rpc.Invalidf("data type %v", t)
}

// answerPrefix returns a prefix with the target and origin of a request.
func answerPrefix(prefix, path *gnmipb.Path) *gnmipb.Path {
	origin := prefix.GetOrigin()
	if origin == "" {
		origin = path.GetOrigin()
	}
	if prefix.GetTarget() == "" && origin == "" {
		return nil
	}
	return &gnmipb.Path{Target: prefix.GetTarget(), Origin: origin}
}

// NextDeadline returns when to call Advance next (ns since the Unix epoch), and false if nothing is pending.
func (g *Core) NextDeadline() (int64, bool) {
	var next int64
	ok := false
	for _, s := range g.subs {
		if t, has := s.nextDue(); has && (!ok || t < next) {
			next, ok = t, true
		}
	}
	return next, ok
}

// Advance sends the samples and heartbeats that are due at now (ns since the Unix epoch).
func (g *Core) Advance(now int64) {
	for _, s := range g.subs {
		s.advance(now)
	}
}

// portChanged sends ON_CHANGE subscribers the leaves that a port's change has changed.
func (g *Core) portChanged(ev portstate.Event) {
	for i, s := range g.cfg.Ports.States() {
		if s.Number != ev.State.Number {
			continue
		}
		now := snapshot(s, nil)
		var changed []leafRef
		for l := range leaves {
			if now[l] != g.values[i][l] {
				changed = append(changed, leafRef{port: i, leaf: l})
			}
		}
		g.values[i] = now
		for _, sub := range g.subs {
			sub.queueChanged(changed, ev.Now)
		}
	}
}
