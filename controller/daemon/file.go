package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/controller/targets/kinds"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// NoGNMI as the gnmi address of a switch means that the switch has no gNMI server.
const NoGNMI = "none"

// File is the YAML file that describes how to reach the switches, and the parts of their tables that do not follow
// from the fabric.
type File struct {
	Switches map[string]FileTarget `yaml:"switches"` // by name: tor0, agg1, core2, spine0
	Tables   FileTables            `yaml:"tables"`
	// Programs are the switches' programs, by the names of their kinds: v1model, tna, t2na, sai. The program of
	// v1model need not be named.
	Programs map[string]FileProgram `yaml:"programs"`
	// Profiles are additional kinds of switches, by name.
	Profiles  map[string]targets.CustomProfile `yaml:"profiles"`
	Suspicion FileSuspicion                    `yaml:"suspicion"`
	// Hosts has the agents' addresses for preflight checks, by host.
	Hosts map[string]FileHost `yaml:"hosts"`

	Kinds targets.Kinds `yaml:"-"` // known kinds; nil: all of package kinds

	dir string                           // the file's folder
	at  func(path string) strictyaml.Pos // returns the place of a key; nil: not from a file
}

// FileHost is the configuration of a host.
type FileHost struct {
	Admin string `yaml:"admin"` // of its agent: host:port or unix:PATH
}

// Agents returns the admin addresses of the hosts' agents. Call it after [File.Apply], which checks them.
func (f File) Agents(fab *fabric.Fabric) (map[fabric.NodeID]string, error) {
	out := map[fabric.NodeID]string{}
	for name, h := range f.Hosts {
		id, err := fab.NodeByName(name)
		if err != nil {
			return nil, fmt.Errorf("%w: hosts: %s: %w", ErrConfig, name, err)
		}
		out[id] = h.Admin
	}
	return out, nil
}

// FileTarget is a [Target] in YAML.
type FileTarget struct {
	P4Runtime  string  `yaml:"p4runtime"`   // address of the P4Runtime server, host:port
	GNMI       string  `yaml:"gnmi"`        // host:port; empty: as p4runtime, if the profile has gNMI; none: no gNMI
	GNMITarget string  `yaml:"gnmi_target"` // names the switch to a gNMI server that serves several
	DeviceID   *uint64 `yaml:"device_id"`   // default: the switch's number in the fabric + 1
	Admin      string  `yaml:"admin"`       // where the switch reports why it drops packets: host:port or unix:PATH; default: nowhere
	Profile    string  `yaml:"profile"`     // the kind of switch, of Profiles or of Kinds; default: ethereal
	// Ports maps the fabric's ports 1, 2, ... to the switch's; default: the same
	// numbers, and interfaces Ethernet1, Ethernet2, ...
	Ports []targets.Port `yaml:"ports"`
}

// FileTables is the part of a controller.Config that a file can set.
type FileTables struct {
	CarrierV4 controller.Carrier `yaml:"carrier_v4"` // label carrier in IPv4 packets: none or udp-sport
	CarrierV6 controller.Carrier `yaml:"carrier_v6"` // none, udp-sport, ipv6-flowlabel, srv6-usid (and carrier_v4: none)
	ECN       FileECN            `yaml:"ecn"`
	// QuenchInterval is the minimum time between two quenches to one source for one port, in whole microseconds; 0
	// turns quenches off.
	QuenchInterval  fabric.Time `yaml:"quench_interval"`
	ControlPriority int         `yaml:"control_priority"` // queue of control packets, 0 to 7
	HashSeed        uint32      `yaml:"hash_seed"`
	EqualHashes     bool        `yaml:"equal_hashes"`   // all tiers choose by the same bits of the hash: they polarise
	MaxGroupSize    int         `yaml:"max_group_size"` // as in [controller.Config]; 0: the program's
}

// FileECN is a controller.ECN in YAML.
type FileECN struct {
	KMin fabric.Bytes `yaml:"kmin"`
	KMax fabric.Bytes `yaml:"kmax"` // queue length from which every packet is marked; 0: no marking
	PMax float64      `yaml:"pmax"`
	// Unit is the size of one step of the target's queue depth: the bytes of a packet on BMv2, of a cell on
	// hardware. 0: the switches' profiles decide.
	Unit fabric.Bytes `yaml:"unit"`
}

// FileSuspicion is the part of a suspicion.Config that a file can set. Zeros mean the defaults, which suit an
// RNIC's microseconds; a fabric of software takes longer to answer a probe.
type FileSuspicion struct {
	Gather       fabric.Time `yaml:"gather"`
	Memory       fabric.Time `yaml:"memory"`
	Hold         fabric.Time `yaml:"hold"`
	Forget       fabric.Time `yaml:"forget"`
	Agents       int         `yaml:"agents"`
	Packets      int         `yaml:"packets"`
	ProbeTimeout fabric.Time `yaml:"probe_timeout"`
	ProbeEvery   fabric.Time `yaml:"probe_every"`
	ProbeMost    fabric.Time `yaml:"probe_most"`
	NoProbes     bool        `yaml:"no_probes"`
	Trials       int         `yaml:"trials"`
}

func defaultTables() FileTables {
	return FileTables{
		CarrierV4: controller.UDPSourcePort, CarrierV6: controller.UDPSourcePort,
		QuenchInterval: 10 * fabric.Microsecond, ControlPriority: 7, HashSeed: 1,
	}
}

// Limits of a file, which lists every switch, and sometimes every port.
const (
	maxFileBytes  = 64 << 20
	maxFileValues = 1 << 22
)

// ReadFile reads a [File]. Errors in its content are strictyaml.Errors.
func ReadFile(path string) (File, error) {
	text, err := strictyaml.ReadLarge(path, maxFileBytes)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; name the file that says how switches are reached", err)
	}
	if err != nil {
		return File{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return ParseFile(path, text)
}

// ParseFile reads the YAML form of a [File] from memory. name appears in errors; files are relative to its folder.
func ParseFile(name string, text []byte) (File, error) {
	f := File{Tables: defaultTables(), dir: filepath.Dir(name)}
	d := strictyaml.New(name, nil)
	d.Values = maxFileValues
	if root := d.Document(text, "switches: {tor0: {p4runtime: HOST:PORT}, ...}"); root != nil {
		d.Value(root, &f, "")
	}
	f.at = d.At
	return f, d.Err()
}

// Apply applies the file to a config whose Core.Fabric is set. It returns all errors found, as strictyaml.Errors.
func (f File) Apply(c *Config) error {
	var bad strictyaml.Errors
	say := func(path, problem, remedy string) {
		e := &strictyaml.Error{Pos: strictyaml.Pos{File: "targets"}, Key: path, Problem: problem, Remedy: remedy}
		if f.at != nil {
			e.Pos = f.at(path)
		}
		bad = append(bad, e)
	}
	own := f.profiles(say)
	c.Targets = map[fabric.NodeID]Target{}
	for _, name := range slices.Sorted(maps.Keys(f.Switches)) {
		f.applySwitch(c, name, own, say)
	}
	checkTargets(c.Core.Fabric, c.Targets, func(id fabric.NodeID, problem string) {
		name := c.Core.Fabric.Name(id)
		switch _, there := f.Switches[name]; {
		case !there:
			say("switches."+name, problem, fmt.Sprintf("write %s: {p4runtime: HOST:PORT}; every switch of the fabric has one",
				name))
		case c.Targets[id].P4Runtime == "":
			say("switches."+name+".p4runtime", "missing", "write HOST:PORT")
		}
	})
	f.checkHosts(c.Core.Fabric, say)
	f.pipelines(c, say)
	f.Tables.apply(c, len(bad) == 0, say)
	if err := c.checkCarriers(); err != nil && len(bad) == 0 {
		problem, remedy, _ := strings.Cut(err.Error(), "; ")
		say("tables", problem, remedy)
	}
	f.Suspicion.apply(c, say)
	return bad.Err()
}

// kinds returns the known kinds of switches.
func (f File) kinds() targets.Kinds {
	if f.Kinds == nil {
		return kinds.All()
	}
	return f.Kinds
}

// profiles returns the file's additional kinds of switches.
func (f File) profiles(say complain) map[string]*targets.Profile {
	own, known := map[string]*targets.Profile{}, f.kinds()
	for _, name := range slices.Sorted(maps.Keys(f.Profiles)) {
		if slices.Contains(known.Names(), name) {
			say("profiles."+name, "is a kind that there is already", "give yours another name, and say like: "+name)
		}
		like := f.Profiles[name].Like
		p, err := f.Profiles[name].Profile(name, known)
		if err != nil {
			say("profiles."+name+".like", fmt.Sprintf("%q is unknown", like), strictyaml.Choose(like, known.Names()))
		}
		own[name] = p
	}
	return own
}

// complain records an error: its place, the problem, and the remedy.
type complain func(path, problem, remedy string)

// applySwitch sets one switch's target. own are the file's additional kinds.
func (f File) applySwitch(c *Config, name string, own map[string]*targets.Profile, say complain) {
	t, path, fab := f.Switches[name], "switches."+name, c.Core.Fabric
	id, err := fab.NodeByName(name)
	if err == nil && fab.Node(id).Tier == fabric.Host {
		err = fmt.Errorf("%s is a host", name)
	}
	if err != nil {
		first, last := fabric.NodeID(fab.Hosts()), fabric.NodeID(fab.Nodes()-1)
		say(path, strings.TrimPrefix(err.Error(), "fabric: "),
			fmt.Sprintf("name a switch of the fabric, as in %s or %s", fab.Name(first), fab.Name(last)))
		return
	}
	x := Target{P4Runtime: t.P4Runtime, GNMI: t.GNMI, GNMITarget: t.GNMITarget, Admin: t.Admin, DeviceID: uint64(id) + 1}
	if t.DeviceID != nil {
		x.DeviceID = *t.DeviceID
	}
	checkAddress(path+".p4runtime", t.P4Runtime, say)
	checkAddress(path+".admin", t.Admin, say)
	if t.GNMI != NoGNMI {
		checkAddress(path+".gnmi", t.GNMI, say)
	}
	c.Targets[id] = x
	if p, ok := own[t.Profile]; ok {
		x.Profile = p
	} else if x.Profile, err = f.kinds().ByName(t.Profile); err != nil {
		known := slices.Sorted(maps.Keys(f.Profiles))
		say(path+".profile", fmt.Sprintf("%q is unknown", t.Profile),
			strictyaml.Choose(t.Profile, append(known, f.kinds().Names()...)))
	}
	if x.Profile == nil {
		return // reported already
	}
	switch {
	case t.GNMI == NoGNMI:
		x.GNMI = ""
	case t.GNMI == "" && x.Profile.NoGNMI:
		say(path+".gnmi", fmt.Sprintf("missing; a %s has no own one", x.Profile.Name),
			fmt.Sprintf("name the address of `ethereal gnmi` beside it, or write %s", NoGNMI))
	case t.GNMI == "":
		x.GNMI = t.P4Runtime
	}
	if ports := fab.Node(id).Ports(); len(t.Ports) > 0 && len(t.Ports) != ports || len(t.Ports) == 0 &&
		x.Profile.NeedsPorts {
		say(path+".ports", fmt.Sprintf("%d listed", len(t.Ports)),
			fmt.Sprintf("a %s lists all its %d fabric ports, down to up, with name and id", x.Profile.Name, ports))
	} else if x.Ports, err = targets.NewPortMap(t.Ports); err != nil {
		problem, remedy, _ := strings.Cut(strings.TrimPrefix(err.Error(), "targets: "), "; ")
		say(path+".ports", problem, cmp.Or(remedy, "give each port its own name and id"))
	}
	c.Targets[id] = x
}

// checkAddress reports a nonempty address that is not HOST:PORT.
func checkAddress(path, addr string, say complain) {
	if addr == "" || strings.HasPrefix(addr, "unix:") {
		return
	}
	if _, port, err := net.SplitHostPort(addr); err != nil || port == "" {
		say(path, fmt.Sprintf("%q is no HOST:PORT", addr), "write for example 192.0.2.11:9559")
	}
}

// checkHosts reports agents of hosts that the fabric does not have.
func (f File) checkHosts(fab *fabric.Fabric, say complain) {
	for _, name := range slices.Sorted(maps.Keys(f.Hosts)) {
		id, err := fab.NodeByName(name)
		if err == nil && fab.Node(id).Tier != fabric.Host {
			err = fmt.Errorf("%s is a switch", name)
		}
		if err != nil {
			say("hosts."+name, strings.TrimPrefix(err.Error(), "fabric: "),
				fmt.Sprintf("name a host, from h0 to h%d", fab.Hosts()-1))
			continue
		}
		checkAddress("hosts."+name+".admin", f.Hosts[name].Admin, say)
	}
}

// apply sets the tables' settings. targets says whether the targets are right; one setting depends on them.
func (t FileTables) apply(c *Config, targets bool, say complain) {
	us := t.QuenchInterval / fabric.Microsecond
	if us*fabric.Microsecond != t.QuenchInterval || us >= controller.NeverQuench {
		say("tables.quench_interval", fmt.Sprintf("%v is not a whole number of microseconds below 71 minutes",
			t.QuenchInterval), "write for example 10us")
	}
	c.Core.CarrierV4, c.Core.CarrierV6 = t.CarrierV4, t.CarrierV6
	if c.Core.QuenchIntervalUs = uint32(us); us == 0 {
		c.Core.QuenchIntervalUs = controller.NeverQuench
	}
	c.Core.ControlPriority, c.Core.HashSeed, c.Core.MaxGroupSize = t.ControlPriority, t.HashSeed, t.MaxGroupSize
	c.Core.EqualHashes = t.EqualHashes
	c.Core.ECN = controller.ECN{Kmin: t.ECN.KMin, Kmax: t.ECN.KMax, Pmax: t.ECN.PMax, Unit: t.ECN.Unit}
	if ecn := &c.Core.ECN; *ecn != (controller.ECN{}) && ecn.Unit == 0 {
		if ecn.Unit = queueUnit(c.Targets); ecn.Unit == 0 {
			if targets {
				say("tables.ecn.unit", "missing; the switches' profiles name none, or different ones",
					"give the bytes that one step of queue depth stands for")
			}
			ecn.Unit = 1 // so that the rest can be checked
		}
	}
	bad, wrong := errors.AsType[*controller.FieldError](c.Core.Validate())
	if !wrong {
		return
	}
	key, ours := map[string]string{
		"CarrierV4": "carrier_v4", "CarrierV6": "carrier_v6", "ControlPriority": "control_priority",
		"MaxGroupSize": "max_group_size",
		"ECN.Kmax":     "ecn.kmax", "ECN.Pmax": "ecn.pmax", "ECN.Unit": "ecn.unit",
	}[bad.Field]
	if !ours { // of a setting that is not in the file
		key = bad.Field
	}
	problem, remedy, _ := strings.Cut(bad.Problem, "; ")
	say("tables."+key, problem, cmp.Or(remedy, "see docs/ethereal-controller.md for what it may be"))
}

func (s FileSuspicion) apply(c *Config, say complain) {
	c.Suspicion = suspicion.Config{
		Fabric: c.Core.Fabric, Gather: s.Gather, Memory: s.Memory, Hold: s.Hold, Forget: s.Forget, Agents: s.Agents,
		Packets: s.Packets, Trials: s.Trials,
		ProbeTimeout: s.ProbeTimeout, ProbeEvery: s.ProbeEvery, ProbeMost: s.ProbeMost, NoProbes: s.NoProbes,
	}
	for _, n := range []struct {
		key string
		v   int
	}{{"agents", s.Agents}, {"packets", s.Packets}, {"trials", s.Trials}} {
		if n.v < 0 {
			say("suspicion."+n.key, fmt.Sprintf("%d is below 0", n.v), "write 1 or more, or leave it out for the default")
		}
	}
}

// queueUnit returns the unit of queue depth that all targets share; 0 if they differ.
func queueUnit(of map[fabric.NodeID]Target) fabric.Bytes {
	unit := -1
	for _, t := range of {
		switch {
		case unit >= 0 && unit != t.Kind().QueueUnit:
			return 0
		default:
			unit = t.Kind().QueueUnit
		}
	}
	return fabric.Bytes(max(unit, 0))
}
