package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ethereal-fabric/ethereal/internal/listen"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
	"github.com/ethereal-fabric/ethereal/p4switch/process"
	"github.com/ethereal-fabric/ethereal/testbed/tofino"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/live"
)

// switchInterface is a port of the switch: -i PORT@IFACE.
type switchInterface struct {
	port uint32
	name string
}

// switchOptions is a command line of `ethereal switch`.
type switchOptions struct {
	interfaces []switchInterface
	json       string
	noP4       bool

	deviceID     uint64
	maxPorts     int
	pcap         string // directory; "" : none
	useFiles     int    // seconds; -1: no
	dumpBytes    int
	packetTrace  string // file; "": none
	thriftPort   int    // 0: none
	logConsole   bool
	logFile      string
	logLevel     string
	logFormat    logFormat
	help         bool
	version      bool
	jsonVersion  bool
	grpcAddr     string
	injectAddr   string // where packets are injected; "": nowhere
	grpcTLS      bool
	grpcCA       string
	grpcCert     string
	grpcKey      string
	grpcMutual   bool
	admin        string
	cpuPort      uint32
	dropPort     uint32
	queues       int
	p4info       string
	queueDepth   int
	queueRate    int
	maxPasses    int
	maxLoops     int
	sendBuffer   int
	coalesce     int
	realtime     int
	portEvents   string
	restrictions string // on, off, or auto: unless as BMv2
	datapath     string
	ethernetName bool
	portNames    map[uint32]string // towards gNMI
	insecure     bool              // serve without authentication beyond this machine
	anyRole      bool              // any certificate of the authorities may do anything
	asBMv2       bool              // started under BMv2's name

	notes []string // what was accepted without effect, in order
}

// optionKind is the kind of value that follows an option's name.
type optionKind uint8

const (
	noValue optionKind = iota
	oneValue
	maybeDirectory // =DIR, or a next word that is a directory
)

// switchOption is one option of the command line.
type switchOption struct {
	name, short string
	kind        optionKind
	many        bool   // may be given again
	value       string // placeholder
	help        string
	ignored     string // why it has no effect; "": it has
	set         func(o *switchOptions, value string) error
}

// defaultGRPCAddr is where `ethereal switch` listens by default.
// simple_switch_grpc listens on all addresses.
const defaultGRPCAddr = "127.0.0.1:9559"

// switchOptionTable lists the options: simple_switch_grpc's own, then ours.
func switchOptionTable() []switchOption {
	return append(bmv2SwitchOptions(), etherealSwitchOptions()...)
}

// bmv2SwitchOptions are simple_switch_grpc's own: general ones first, then the target's.
func bmv2SwitchOptions() []switchOption {
	return []switchOption{
		{name: "help", short: "h", help: "show this text",
			set: func(o *switchOptions, _ string) error { o.help = true; return nil }},
		{name: "version", short: "v", help: "show the version",
			set: func(o *switchOptions, _ string) error { o.version = true; return nil }},
		{name: "json-version", help: "show the newest BMv2 JSON version read",
			set: func(o *switchOptions, _ string) error { o.jsonVersion = true; return nil }},
		{name: "interface", short: "i", kind: oneValue, value: "PORT@IFACE", many: true,
			help: "attach network interface IFACE as port PORT; may be given again",
			set:  setInterface},
		{name: "no-p4", help: "start without a program; a controller will push one",
			set: func(o *switchOptions, _ string) error { o.noP4 = true; return nil }},
		{name: "device-id", kind: oneValue, value: "ID", help: "P4Runtime device id (default 0)",
			set: func(o *switchOptions, v string) error { return parseUint(v, 64, &o.deviceID) }},
		{name: "max-port-count", kind: oneValue, value: "N", help: "most interfaces that may be attached (default 512)",
			set: func(o *switchOptions, v string) error { return parseInt(v, 0, &o.maxPorts) }},
		{name: "pcap", kind: maybeDirectory, value: "DIR",
			help: "write all packets to DIR/IFACE_in.pcap and DIR/IFACE_out.pcap (default .)",
			set:  func(o *switchOptions, v string) error { o.pcap = v; return nil }},
		{name: "use-files", kind: oneValue, value: "SECONDS",
			help: "instead of interfaces, read IFACE_in.pcap after SECONDS and write IFACE_out.pcap",
			set:  func(o *switchOptions, v string) error { return parseInt(v, 0, &o.useFiles) }},
		{name: "dump-packet-data", kind: oneValue, value: "BYTES", help: "log the first BYTES of every packet, at level info",
			set: func(o *switchOptions, v string) error { return parseInt(v, 0, &o.dumpBytes) }},
		{name: "log-console", help: "log to standard output",
			set: func(o *switchOptions, _ string) error { o.logConsole = true; return nil }},
		{name: "log-file", kind: oneValue, value: "FILE", help: "log to FILE",
			set: func(o *switchOptions, v string) error { o.logFile = v; return nil }},
		{name: "log-level", short: "L", kind: oneValue, value: "LEVEL",
			help: "trace, debug, info, warn, error or off (default trace)",
			set:  setLogLevel},
		{name: "log-flush", ignored: "every line is written at once"},
		{name: "log-file-max-size", kind: oneValue, value: "BYTES", ignored: "the log is not rotated"},
		{name: "log-file-max-files", kind: oneValue, value: "N", ignored: "the log is not rotated"},
		{name: "thrift-port", kind: oneValue, value: "PORT",
			help: "accept and close connections on this loopback port, for scripts that wait for it;\nthere is no Thrift server",
			set:  func(o *switchOptions, v string) error { return parseInt(v, 1, &o.thriftPort) }},
		{name: "nanolog", kind: oneValue, value: "ADDR", ignored: "there is no nanomsg event log"},
		{name: "notifications-addr", kind: oneValue, value: "ADDR", ignored: "notifications go to P4Runtime streams"},
		{name: "debugger", ignored: "there is no debugger"},
		{name: "debugger-addr", kind: oneValue, value: "ADDR", ignored: "there is no debugger"},
		{name: "restore-state", kind: oneValue, value: "FILE", ignored: "state is not saved or restored"},
		{name: "packet-in", kind: oneValue, value: "ADDR", set: func(*switchOptions, string) error {
			return fmt.Errorf("there is no nanomsg packet interface; attach interfaces with -i")
		}},

		{name: "grpc-server-addr", kind: oneValue, value: "ADDR:PORT",
			help: "serve P4Runtime and gNMI here (default " + defaultGRPCAddr + ": this machine only)",
			set:  func(o *switchOptions, v string) error { o.grpcAddr = v; return nil }},
		{name: "grpc-server-ssl", help: "serve with TLS",
			set: func(o *switchOptions, _ string) error { o.grpcTLS = true; return nil }},
		{name: "grpc-server-cacert", kind: oneValue, value: "FILE", help: "CA certificates that sign clients', PEM",
			set: func(o *switchOptions, v string) error { o.grpcCA = v; return nil }},
		{name: "grpc-server-cert", kind: oneValue, value: "FILE", help: "the server's certificate chain, PEM",
			set: func(o *switchOptions, v string) error { o.grpcCert = v; return nil }},
		{name: "grpc-server-key", kind: oneValue, value: "FILE", help: "the server's private key, PEM",
			set: func(o *switchOptions, v string) error { o.grpcKey = v; return nil }},
		{name: "grpc-server-with-client-auth", help: "require clients' certificates",
			set: func(o *switchOptions, _ string) error { o.grpcMutual = true; return nil }},
		{name: "cpu-port", kind: oneValue, value: "PORT", help: "port of packet-in and packet-out; without this option the switch has no such port",
			set: func(o *switchOptions, v string) error { return parsePort(v, 1, &o.cpuPort) }},
		{name: "drop-port", kind: oneValue, value: "PORT", help: "egress port that means drop (default 511)",
			set: func(o *switchOptions, v string) error { return parsePort(v, 1, &o.dropPort) }},
		{name: "priority-queues", kind: oneValue, value: "N",
			help: "priority queues per port, 1 to 8 (default 8; under the name simple_switch_grpc 1, as BMv2);\n" +
				"packets of a higher priority than there are queues are dropped",
			set: func(o *switchOptions, v string) error { return parseInt(v, 1, &o.queues) }},
		{name: "disable-swap", ignored: "a P4Runtime pipeline push always replaces the program"},
		{name: "enable-swap", ignored: "a P4Runtime pipeline push always replaces the program"},
		{name: "dp-grpc-server-addr", kind: oneValue, value: "ADDR:PORT",
			help: "exchange the packets of all ports with a gRPC client at this address, in place of interfaces\n" +
				"(p4.bm.DataplaneInterface)",
			set: func(o *switchOptions, v string) error { o.injectAddr = v; return nil }},
		{name: "max-mc-groups", kind: oneValue, value: "N", ignored: "multicast groups are not limited"},
		{name: "max-l1-entries", kind: oneValue, value: "N", ignored: "multicast groups are not limited"},
		{name: "max-l2-entries", kind: oneValue, value: "N", ignored: "multicast groups are not limited"},
		{name: "load-modules", kind: oneValue, value: "FILES",
			ignored: "modules cannot be loaded; extern functions must be built in"},
	}
}

// etherealSwitchOptions are those that simple_switch_grpc has not.
func etherealSwitchOptions() []switchOption {
	return []switchOption{
		{name: "p4info", kind: oneValue, value: "FILE",
			help: "P4Info of the JSON program, in text or binary form; controllers may then write without a push",
			set:  func(o *switchOptions, v string) error { o.p4info = v; return nil }},
		{name: "queue-depth", kind: oneValue, value: "PACKETS", help: "packets that each egress queue holds (default 64)",
			set: func(o *switchOptions, v string) error { return parseInt(v, 1, &o.queueDepth) }},
		{name: "queue-rate", kind: oneValue, value: "PPS",
			help: "packets per second that leave each egress queue (default: no limit)",
			set:  func(o *switchOptions, v string) error { return parseInt(v, 0, &o.queueRate) }},
		{name: "max-passes", kind: oneValue, value: "N",
			help: "drop packets that recirculate or are resubmitted more than N times (default: no limit)",
			set:  func(o *switchOptions, v string) error { return parseInt(v, 1, &o.maxPasses) }},
		{name: "max-loops", kind: oneValue, value: "N",
			help: "drop packets whose actions jump back more than N times in one pipeline (default 16777216)",
			set:  func(o *switchOptions, v string) error { return parseInt(v, 1, &o.maxLoops) }},
		{name: "send-buffer", kind: oneValue, value: "BYTES",
			help: "let BYTES wait in an interface's own queue; this queue follows the switch's egress queue (default 65536)",
			set:  func(o *switchOptions, v string) error { return parseInt(v, 1, &o.sendBuffer) }},
		{name: "coalesce", kind: oneValue, value: "US",
			help: "under load, collect packets for at most US microseconds and handle them together;\n" +
				"0 handles each packet at once (default 50)",
			set: func(o *switchOptions, v string) error { return parseInt(v, 0, &o.coalesce) }},
		{name: "realtime", kind: oneValue, value: "PRIORITY",
			help: "forward at a real-time priority, 1 to 99 (SCHED_RR) (default: no)",
			set:  func(o *switchOptions, v string) error { return parseInt(v, 1, &o.realtime) }},
		{name: "datapath", kind: oneValue, value: "WHERE",
			help: "where packets are forwarded (default interpreter):\n" +
				"interpreter   in this process\n" +
				"kernel        by eBPF in the kernel; packets that eBPF cannot finish go to the interpreter\n" +
				"auto          kernel if program, options and rights allow it, else interpreter\n" +
				"tofino-model  by the functional model of a Tofino; ETHEREAL_TOFINO_MODEL and\n" +
				"              ETHEREAL_TOFINO_PIPELINE name its harness and pipeline",
			set: setDatapath},
		{name: "port-events", kind: oneValue, value: "WHEN",
			help: "report port states to the program by packets on port 508: on, off, or auto: on if the\n" +
				"program has a register port_down (default auto)",
			set: func(o *switchOptions, v string) error { o.portEvents = v; return nil }},
		{name: "restrictions", kind: oneValue, value: "WHEN",
			help: "refuse entries that violate @entry_restriction, @action_restriction or @refers_to in the P4Info:\n" +
				"on, off, or auto: off under the name simple_switch_grpc, else on (default auto)",
			set: setRestrictions},
		{name: "log-format", kind: oneValue, value: "FORMAT", help: "write the log as FORMAT: text or json, a line for each record",
			set: func(o *switchOptions, v string) error { return o.logFormat.Set(v) }},
		{name: "packet-trace", kind: oneValue, value: "FILE",
			help: "write the way of every packet to FILE, a JSON line each, in BMv2's message p4.bm.PacketTrace",
			set:  func(o *switchOptions, v string) error { o.packetTrace = v; return nil }},
		{name: "insecure",
			help: "serve other machines without TLS or without clients' certificates; anyone may then write",
			set:  func(o *switchOptions, _ string) error { o.insecure = true; return nil }},
		{name: "tls-any-role", help: "accept any certificate of the authorities, whatever its role",
			set: func(o *switchOptions, _ string) error { o.anyRole = true; return nil }},
		{name: bmv2Name, set: func(o *switchOptions, _ string) error { o.asBMv2 = true; return nil }},
		{name: "listen-admin", kind: oneValue, value: "ADDR",
			help: "serve health, status and metrics over HTTP at ADDR, HOST:PORT or unix:PATH; the metrics count drops by reason",
			set:  func(o *switchOptions, v string) error { o.admin = v; return nil }},
		{name: "ethernet-names", help: "name port N EthernetN in gNMI, not as its interface",
			set: func(o *switchOptions, _ string) error { o.ethernetName = true; return nil }},
		{name: "port-name", kind: oneValue, many: true, value: "PORT@NAME", help: "call a port NAME in gNMI, PORT@NAME, as in 132@1/0; may be given again",
			set: func(o *switchOptions, v string) error { return setPortName(&o.portNames, v) }},
	}
}

// autoDatapath is the kernel where the options, the rights, the machine and the program allow it.
const autoDatapath = "auto"

// startModel starts the model of the chip, which the environment names, with its program.
func startModel() (*tofino.Mirror, error) {
	harness, pipeline := os.Getenv(tofino.ModelVariable), os.Getenv(tofino.PipelineVariable)
	if harness == "" || pipeline == "" {
		return nil, fmt.Errorf("switch: --datapath %s: set %s to the model's test harness and %s to the folder with tofino.bin",
			live.TofinoModel, tofino.ModelVariable, tofino.PipelineVariable)
	}
	m, err := tofino.Start(context.Background(), harness, pipeline)
	if err != nil {
		return nil, fmt.Errorf("switch: %w", err)
	}
	mirror, err := tofino.NewMirror(m)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("switch: %w", err), m.Close())
	}
	return mirror, nil
}

// chooseDatapath leaves auto only where the kernel may be tried.
func (o *switchOptions) chooseDatapath() error {
	why := ""
	switch {
	case o.useFiles >= 0:
		why = "--use-files: it has no interfaces"
	case o.injectAddr != "":
		why = "--dp-grpc-server-addr: it has no interfaces"
	case o.packetTrace != "":
		why = "--packet-trace: the interpreter alone follows packets"
	case o.queueRate > 0:
		why = "--queue-rate: there are no queues in the kernel's data path"
	}
	switch {
	case why == "" || o.datapath == live.Interpreter:
	case o.datapath != autoDatapath:
		return fmt.Errorf("switch: --datapath %s excludes %s", o.datapath, why)
	default:
		o.datapath = live.Interpreter
		o.notes = append(o.notes, "--datapath auto is interpreter with "+why)
	}
	return nil
}

// parseSwitchOptions reads a command line in simple_switch_grpc's dialect:
// options by any unambiguous beginning of their name, --name=value or --name
// value, -iVALUE or -i VALUE, "--" before the target's options, the program's
// JSON as the only other word. All options are taken on both sides of "--".
func parseSwitchOptions(args []string) (*switchOptions, error) {
	o := &switchOptions{
		maxPorts: 512, useFiles: -1, logLevel: "trace", grpcAddr: defaultGRPCAddr, dropPort: 511,
		queueDepth: 64, portEvents: "auto", restrictions: autoDatapath, datapath: live.Interpreter, coalesce: int(process.DefaultCoalesce / time.Microsecond),
	}
	table := switchOptionTable()
	given := map[string]bool{}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			continue
		}
		if len(arg) < 2 || arg[0] != '-' {
			if o.json != "" {
				return nil, fmt.Errorf("switch: %q and %q: there can be one program only", o.json, arg)
			}
			o.json = arg
			continue
		}
		opt, value, has, err := findSwitchOption(table, arg)
		if err != nil {
			return nil, err
		}
		switch {
		case opt.kind == noValue && has:
			return nil, fmt.Errorf("switch: --%s takes no value", opt.name)
		case opt.kind == oneValue && !has:
			if i++; i == len(args) {
				return nil, fmt.Errorf("switch: --%s needs a value, %s", opt.name, opt.value)
			}
			value = args[i]
		case opt.kind == maybeDirectory && !has:
			value = "."
			if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && isDirectory(args[i+1]) {
				i++
				value = args[i]
			}
		}
		if given[opt.name] && !opt.many {
			return nil, fmt.Errorf("switch: --%s is given twice", opt.name)
		}
		given[opt.name] = true
		if opt.ignored != "" {
			o.notes = append(o.notes, fmt.Sprintf("--%s has no effect: %s", opt.name, opt.ignored))
		}
		if opt.set != nil {
			if err := opt.set(o, value); err != nil {
				return nil, fmt.Errorf("switch: --%s: %w", opt.name, err)
			}
		}
	}
	return o, o.check(given)
}

// check returns an error if the options contradict each other.
func (o *switchOptions) check(given map[string]bool) error {
	if o.help || o.version || o.jsonVersion {
		return nil
	}
	switch {
	case o.queues > 0:
	case o.asBMv2:
		o.queues = 1
	default:
		o.queues = 8 // v1model's priority has three bits: none is out of range
	}
	switch {
	case o.json == "" && !o.noP4:
		return fmt.Errorf("switch: name the program's JSON, or start without one by --no-p4")
	case o.logConsole && o.logFile != "":
		return fmt.Errorf("switch: --log-console and --log-file exclude each other")
	case len(o.interfaces) > o.maxPorts:
		return fmt.Errorf("switch: %d interfaces are more than --max-port-count %d", len(o.interfaces), o.maxPorts)
	case o.grpcTLS && o.grpcCert == "":
		return fmt.Errorf("switch: --grpc-server-ssl needs --grpc-server-cert")
	case o.grpcTLS && o.grpcKey == "":
		return fmt.Errorf("switch: --grpc-server-ssl needs --grpc-server-key")
	case o.grpcTLS && o.grpcMutual && o.grpcCA == "":
		return fmt.Errorf("switch: --grpc-server-with-client-auth needs --grpc-server-cacert")
	case !o.grpcTLS && (o.grpcCA != "" || o.grpcCert != "" || o.grpcKey != "" || o.grpcMutual):
		return fmt.Errorf("switch: certificates are given without --grpc-server-ssl")
	case o.injectAddr != "" && (len(o.interfaces) > 0 || o.useFiles >= 0 || o.datapath != live.Interpreter && o.datapath != autoDatapath):
		return fmt.Errorf("switch: --dp-grpc-server-addr excludes interfaces, --use-files and --datapath")
	case o.pcap != "" && !isDirectory(o.pcap):
		return fmt.Errorf("switch: --pcap: there is no directory %q", o.pcap)
	}
	if err := errors.Join(o.checkTrust("grpc-server-addr", o.grpcAddr, o.grpcMutual), o.checkTrust("dp-grpc-server-addr", o.injectAddr, false),
		o.chooseDatapath()); err != nil {
		return err
	}
	ports := map[uint32]string{}
	if err := namesOfPorts(o.portNames, func(p uint32) bool {
		return slices.ContainsFunc(o.interfaces, func(i switchInterface) bool { return i.port == p })
	}); err != nil {
		return fmt.Errorf("switch: %w", err)
	}
	for _, i := range o.interfaces {
		if other, dup := ports[i.port]; dup {
			return fmt.Errorf("switch: port %d is both %s and %s", i.port, other, i.name)
		}
		ports[i.port] = i.name
	}
	if name, taken := ports[o.cpuPort]; taken && o.cpuPort != 0 {
		return fmt.Errorf("switch: --cpu-port %d is port %s; choose a number that no interface has", o.cpuPort, name)
	}
	if o.noP4 && o.json != "" {
		o.notes = append(o.notes, fmt.Sprintf("%s has no effect: --no-p4 is given", o.json))
		o.json = ""
	}
	if o.thriftPort != 0 {
		o.notes = append(o.notes, "--thrift-port: there is no Thrift server; connections are accepted and closed")
	}
	if given["p4info"] && o.json == "" {
		return fmt.Errorf("switch: --p4info needs the program's JSON")
	}
	return nil
}

// checkTrust refuses to serve anybody beyond this machine by accident.
func (o *switchOptions) checkTrust(option, addr string, mutual bool) error {
	if addr == "" || mutual || strings.HasPrefix(addr, "unix:") || listen.Loopback(addr) {
		return nil
	}
	switch {
	case o.insecure:
		o.notes = append(o.notes, addr+" is served without clients' certificates: anybody who reaches it may write")
	case o.asBMv2:
		o.notes = append(o.notes, addr+" is served as simple_switch_grpc serves it: anybody who reaches it may write")
	default:
		return fmt.Errorf("switch: --%s %s is beyond this machine; serve P4Runtime with TLS and clients' certificates "+
			"(--grpc-server-ssl, --grpc-server-with-client-auth), or say --insecure", option, addr)
	}
	return nil
}

// findSwitchOption finds the option that arg names, and a value within arg.
func findSwitchOption(table []switchOption, arg string) (opt *switchOption, value string, has bool, err error) {
	if !strings.HasPrefix(arg, "--") {
		for i := range table {
			if t := &table[i]; t.short != "" && t.short == arg[1:2] {
				return t, arg[2:], len(arg) > 2, nil
			}
		}
		return nil, "", false, fmt.Errorf("switch has no flag %s; see ethereal switch --help", arg)
	}
	name, value, has := strings.Cut(arg[2:], "=")
	var near []string
	for i := range table {
		t := &table[i]
		if t.name == name {
			return t, value, has, nil
		}
		if strings.HasPrefix(t.name, name) {
			opt = t
			near = append(near, "--"+t.name)
		}
	}
	switch len(near) {
	case 0:
		names := make([]string, len(table))
		for i := range table {
			names[i] = table[i].name
		}
		if near := strictyaml.Nearest(name, names); near != "" {
			return nil, "", false, fmt.Errorf("switch has no flag --%s; did you mean --%s?", name, near)
		}
		return nil, "", false, fmt.Errorf("switch has no flag --%s; see ethereal switch --help", name)
	case 1:
		return opt, value, has, nil
	}
	return nil, "", false, fmt.Errorf("switch: --%s may be %s; write more of it", name, strings.Join(near, ", "))
}
