package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/suspicion"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/strictyaml"
)

// NoGNMI as the gnmi address of a switch says that it has no gNMI server.
const NoGNMI = "none"

// File is the YAML that says how switches are reached and what their tables are
// to be, beside what follows from the fabric.
type File struct {
	Switches map[string]FileTarget `yaml:"switches"` // by name: tor0, agg1, core2, spine0
	Tables   FileTables            `yaml:"tables"`
	// Programs are what the switches run, by architecture: v1model, tna, t2na. The
	// program of v1model need not be named.
	Programs  map[string]FileProgram `yaml:"programs"`
	Suspicion FileSuspicion          `yaml:"suspicion"`
	// Hosts says where preflight checks find the agents, by host.
	Hosts map[string]FileHost `yaml:"hosts"`

	dir string // of the file
}

// FileHost is what is known of a host.
type FileHost struct {
	Admin string `yaml:"admin"` // of its agent: host:port or unix:PATH
}

// Agents returns the admin addresses of the hosts' agents.
func (f File) Agents(fab *fabric.Fabric) (map[fabric.NodeID]string, error) {
	out := map[fabric.NodeID]string{}
	for name, h := range f.Hosts {
		id, err := fab.NodeByName(name)
		if err == nil && fab.Node(id).Tier != fabric.Host {
			err = errors.New("it is a switch")
		}
		if err != nil {
			return nil, fmt.Errorf("%w: hosts: %s: %w", ErrConfig, name, err)
		}
		out[id] = h.Admin
	}
	return out, nil
}

// FileTarget is a [Target] in YAML.
type FileTarget struct {
	P4Runtime  string  `yaml:"p4runtime"`   // host:port
	GNMI       string  `yaml:"gnmi"`        // host:port; empty: as p4runtime, if the profile has one; none: it has none
	GNMITarget string  `yaml:"gnmi_target"` // names the switch to a server of several
	DeviceID   *uint64 `yaml:"device_id"`   // default: the switch's number in the fabric + 1
	Profile    string  `yaml:"profile"`     // the kind of switch, see package targets; default: ethereal
	// Ports maps the fabric's ports 1, 2, ... to the switch's; default: the same
	// numbers, and interfaces Ethernet1, Ethernet2, ...
	Ports []targets.Port `yaml:"ports"`
}

// FileTables is what of a controller.Config a file can set.
type FileTables struct {
	CarrierV4 controller.Carrier `yaml:"carrier_v4"` // none, udp-sport
	CarrierV6 controller.Carrier `yaml:"carrier_v6"` // none, udp-sport, ipv6-flowlabel
	ECN       FileECN            `yaml:"ecn"`
	// QuenchInterval is the least time between two quenches to one source for one
	// port, in whole microseconds; 0 turns quenches off.
	QuenchInterval  fabric.Time `yaml:"quench_interval"`
	ControlPriority int         `yaml:"control_priority"` // 0 to 7
	HashSeed        uint32      `yaml:"hash_seed"`
	MaxGroupSize    int         `yaml:"max_group_size"` // 0: the program's
}

// FileECN is a controller.ECN in YAML.
type FileECN struct {
	KMin fabric.Bytes `yaml:"kmin"`
	KMax fabric.Bytes `yaml:"kmax"` // 0: no marking
	PMax float64      `yaml:"pmax"`
	// Unit is what one step of the target's queue depth stands for: the bytes of a
	// packet on BMv2, of a cell on hardware. 0: as the switches' profiles say.
	Unit fabric.Bytes `yaml:"unit"`
}

// FileSuspicion is what of a suspicion.Config a file can set. Zeros stand for the
// defaults, which suit an RNIC's microseconds; a fabric of software takes longer to
// answer a probe.
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
}

func defaultTables() FileTables {
	return FileTables{
		CarrierV4: controller.UDPSourcePort, CarrierV6: controller.UDPSourcePort,
		QuenchInterval: 10 * fabric.Microsecond, ControlPriority: 7, HashSeed: 1,
	}
}

// Limits of a file, which lists every switch, and on some every port.
const (
	maxFileBytes  = 64 << 20
	maxFileValues = 1 << 22
)

// ReadFile reads a [File]. What is wrong with its content is strictyaml.Errors.
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

// ParseFile reads the YAML form of a [File] from memory. name goes into messages, and
// files are named relative to its folder.
func ParseFile(name string, text []byte) (File, error) {
	f := File{Tables: defaultTables(), dir: filepath.Dir(name)}
	d := strictyaml.New(name, nil)
	d.Values = maxFileValues
	if root := d.Document(text, "switches: {tor0: {p4runtime: HOST:PORT}, ...}"); root != nil {
		d.Value(root, &f, "")
	}
	return f, d.Err()
}

// Apply sets what the file says in a config whose Core.Fabric is set.
func (f File) Apply(c *Config) error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	c.Targets = map[fabric.NodeID]Target{}
	for name, t := range f.Switches {
		id, err := c.Core.Fabric.NodeByName(name)
		if err != nil {
			return fail("switches: %v", err)
		}
		if c.Core.Fabric.Node(id).Tier == fabric.Host {
			return fail("switches: %s is a host", name)
		}
		x := Target{P4Runtime: t.P4Runtime, GNMI: t.GNMI, GNMITarget: t.GNMITarget, DeviceID: uint64(id) + 1}
		if t.DeviceID != nil {
			x.DeviceID = *t.DeviceID
		}
		if x.Profile, err = targets.ByName(t.Profile); err != nil {
			return fail("switches: %s: %v", name, err)
		}
		switch {
		case t.GNMI == NoGNMI:
			x.GNMI = ""
		case t.GNMI == "" && x.Profile.NoGNMI:
			return fail("switches: %s: gnmi: missing; a %s has none of its own: name the address of `ethereal gnmi` beside it, or write %s", name, x.Profile.Name, NoGNMI)
		case t.GNMI == "":
			x.GNMI = t.P4Runtime
		}
		if ports := c.Core.Fabric.Node(id).Ports(); len(t.Ports) > 0 && len(t.Ports) != ports || len(t.Ports) == 0 && x.Profile.NeedsPorts {
			return fail("switches: %s: ports: %d listed; a %s lists all its %d fabric ports, down to up, with name and id", name, len(t.Ports), x.Profile.Name, ports)
		}
		if x.Ports, err = targets.NewPortMap(t.Ports); err != nil {
			return fail("switches: %s: %v", name, err)
		}
		c.Targets[id] = x
	}
	if err := checkTargets(c.Core.Fabric, c.Targets); err != nil {
		return err
	}
	if err := f.pipelines(c); err != nil {
		return err
	}
	t := f.Tables
	interval := uint32(controller.NeverQuench)
	if t.QuenchInterval != 0 {
		us := t.QuenchInterval / fabric.Microsecond
		if t.QuenchInterval < 0 || us*fabric.Microsecond != t.QuenchInterval || us >= controller.NeverQuench {
			return fail("tables: quench_interval: %v is not a whole number of microseconds below 71 minutes", t.QuenchInterval)
		}
		interval = uint32(us)
	}
	c.Core.CarrierV4, c.Core.CarrierV6 = t.CarrierV4, t.CarrierV6
	c.Core.QuenchIntervalUs, c.Core.ControlPriority = interval, t.ControlPriority
	c.Core.HashSeed, c.Core.MaxGroupSize = t.HashSeed, t.MaxGroupSize
	c.Core.ECN = controller.ECN{Kmin: t.ECN.KMin, Kmax: t.ECN.KMax, Pmax: t.ECN.PMax, Unit: t.ECN.Unit}
	if ecn := &c.Core.ECN; *ecn != (controller.ECN{}) && ecn.Unit == 0 {
		if ecn.Unit = queueUnit(c.Targets); ecn.Unit == 0 {
			return fail("tables: ecn: unit: missing; the switches' profiles name none, or different ones: give the bytes that one step of queue depth stands for")
		}
	}
	if err := c.Core.Validate(); err != nil {
		return fmt.Errorf("%w: tables: %w", ErrConfig, err)
	}
	return f.Suspicion.apply(c)
}

func (s FileSuspicion) apply(c *Config) error {
	c.Suspicion = suspicion.Config{
		Fabric: c.Core.Fabric, Gather: s.Gather, Memory: s.Memory, Hold: s.Hold, Forget: s.Forget, Agents: s.Agents, Packets: s.Packets,
		ProbeTimeout: s.ProbeTimeout, ProbeEvery: s.ProbeEvery, ProbeMost: s.ProbeMost, NoProbes: s.NoProbes,
	}
	if err := c.Suspicion.Validate(); err != nil {
		return fmt.Errorf("%w: suspicion: %w", ErrConfig, err)
	}
	return nil
}

// queueUnit returns the unit of queue depth that all targets share; 0 if there is none.
func queueUnit(of map[fabric.NodeID]Target) fabric.Bytes {
	unit := -1
	for _, t := range of {
		switch {
		case t.Profile == nil || unit >= 0 && unit != t.Profile.QueueUnit:
			return 0
		default:
			unit = t.Profile.QueueUnit
		}
	}
	return fabric.Bytes(max(unit, 0))
}
