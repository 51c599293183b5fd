package containerlab

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// Config describes a fabric of containers for containerlab.
type Config struct {
	Fabric    *fabric.Fabric
	Name      string       // name of the topologies
	Addresses []netip.Addr // IP addresses of the machines, by which they reach each other
	Image     string       // container image of this program, from scripts/dist/Containerfile
	MTU       int          // MTU of all links, in bytes
}

// The keys of a topology that are written, as containerlab has them.
type (
	lab struct {
		Name     string   `yaml:"name"`
		Topology topology `yaml:"topology"`
	}
	topology struct {
		Defaults defaults        `yaml:"defaults"`
		Nodes    map[string]node `yaml:"nodes"`
		Links    []link          `yaml:"links"`
	}
	defaults struct {
		Kind  string `yaml:"kind"`
		Image string `yaml:"image"`
	}
	node struct {
		Cmd   string   `yaml:"cmd"`
		Binds []string `yaml:"binds"`
		Ports []string `yaml:"ports"`
	}
	link struct {
		Type      string     `yaml:"type"`
		Endpoints []endpoint `yaml:"endpoints,omitempty"` // of a veth
		Endpoint  *endpoint  `yaml:"endpoint,omitempty"`  // of a vxlan
		Remote    string     `yaml:"remote,omitempty"`
		VNI       int        `yaml:"vni,omitempty"`
		MTU       int        `yaml:"mtu"`
	}
	endpoint struct {
		Node      string `yaml:"node"`
		Interface string `yaml:"interface"`
		MAC       string `yaml:"mac,omitempty"`
		IPv4      string `yaml:"ipv4,omitempty"`
	}
)

// Write writes into a folder: a topology file for each machine (NAME-0.clab.yml and so on), fabric.yaml, targets.yaml,
// and the arguments with which scripts/lab-ca makes the certificates. It returns the number of the machine of each
// node, and the number of links between machines.
func (c *Config) Write(dir string) (at []int, crossing int, err error) {
	p, err := newPlacement(c.Fabric, c.Addresses)
	if err != nil {
		return nil, 0, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, 0, err
	}
	files := map[string]any{"fabric.yaml": c.Fabric.Spec(), "targets.yaml": p.targets()}
	for m := range c.Addresses {
		files[fmt.Sprintf("%s-%d.clab.yml", c.Name, m)] = c.topology(p, m)
	}
	var errs []error
	for name, what := range files {
		text, err := yaml.Marshal(what)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o666)
		}
		errs = append(errs, err)
	}
	holders := strings.Join(p.certificateHolders(), "\n") + "\n"
	return p.at, len(p.crossMachineLinks()), errors.Join(append(errs, os.WriteFile(filepath.Join(dir, "certificates"), []byte(holders), 0o666))...)
}

// containerFolder is the folder of a container's files.
const containerFolder = "/etc/ethereal/"

// node returns a container that waits for its interfaces and then carries out a command.
func (c *Config) node(name string, interfaces int, ports []string, command ...string) node {
	words := []string{}
	if interfaces > 0 {
		words = append(words, "await")
		for p := 1; p <= interfaces; p++ {
			words = append(words, fmt.Sprintf("eth%d", p))
		}
		words = append(words, "--")
	}
	binds := []string{}
	for _, file := range [][2]string{
		{"fabric.yaml", "fabric.yaml"}, {"targets.yaml", "targets.yaml"}, {"certs/ca.pem", "ca.pem"},
		{"certs/" + name + ".pem", "own.pem"}, {"certs/" + name + ".key", "own.key"},
	} {
		if file[0] != "targets.yaml" || name == "controller" {
			binds = append(binds, file[0]+":"+containerFolder+file[1]+":ro")
		}
	}
	return node{Cmd: strings.Join(append(words, command...), " "), Binds: binds, Ports: ports}
}

func (c *Config) topology(p *placement, machine int) lab {
	f, at := c.Fabric, p.at
	t := topology{Defaults: defaults{"linux", c.Image}, Nodes: map[string]node{}}
	tls := []string{"--tls-ca", containerFolder + "ca.pem", "--tls-cert", containerFolder + "own.pem", "--tls-key", containerFolder + "own.key"}
	if machine == 0 {
		t.Nodes["controller"] = c.node("controller", 0, []string{publishedPort(agentsPort, agentsPort), publishedPort(adminPort, adminPort)}, append([]string{
			"controller", "--fabric", containerFolder + "fabric.yaml", "--targets", containerFolder + "targets.yaml",
			"--listen-agents", fmt.Sprintf("0.0.0.0:%d", agentsPort), "--listen-admin", fmt.Sprintf("0.0.0.0:%d", adminPort),
		}, tls...)...)
	}
	for i := range f.Nodes() {
		if at[i] != machine {
			continue
		}
		id := fabric.NodeID(i)
		if p.isHost(id) {
			t.Nodes[f.Name(id)] = c.node(f.Name(id), 1, []string{publishedPort(p.port(id), 9561)}, append([]string{
				"host", "agent", "--fabric", containerFolder + "fabric.yaml", "--host", f.Name(id), "--interface", "eth1",
				"--controller", net.JoinHostPort(p.addresses[0].String(), strconv.Itoa(agentsPort)),
				"--listen-admin", "0.0.0.0:9561", "--listen-socket", "unix:/control.sock",
			}, tls...)...)
			continue
		}
		ports := f.Node(id).Ports()
		command := []string{"switch", "--no-p4", "--device-id", strconv.Itoa(i + 1), "--ethernet-names"}
		for n := 1; n <= ports; n++ {
			command = append(command, "-i", fmt.Sprintf("%d@eth%d", n, n))
		}
		command = append(command, "--", "--cpu-port", strconv.Itoa(p4src.CPUPort), "--grpc-server-addr", "0.0.0.0:9559", "--grpc-server-ssl",
			"--grpc-server-cacert", containerFolder+"ca.pem", "--grpc-server-cert", containerFolder+"own.pem", "--grpc-server-key", containerFolder+"own.key",
			"--grpc-server-with-client-auth")
		t.Nodes[f.Name(id)] = c.node(f.Name(id), ports, []string{publishedPort(p.port(id), 9559)}, command...)
	}
	for i := range f.Links() {
		l := f.Link(fabric.LinkID(i))
		a, b := linkEnd(p, l.A), linkEnd(p, l.B)
		switch {
		case at[l.A.Node] == machine && at[l.B.Node] == machine:
			t.Links = append(t.Links, link{Type: "veth", Endpoints: []endpoint{a, b}, MTU: c.MTU})
		case at[l.A.Node] == machine:
			t.Links = append(t.Links, c.tunnel(p, l, a, l.B))
		case at[l.B.Node] == machine:
			t.Links = append(t.Links, c.tunnel(p, l, b, l.A))
		}
	}
	return lab{fmt.Sprintf("%s-%d", c.Name, machine), t}
}

func publishedPort(outside, inside int) string { return fmt.Sprintf("%d:%d", outside, inside) }

// linkEnd returns one end of a link. A host's has the addresses that the fabric knows it by.
func linkEnd(p *placement, e fabric.End) endpoint {
	out := endpoint{Node: p.Name(e.Node), Interface: fmt.Sprintf("eth%d", e.Port)}
	if p.isHost(e.Node) {
		mac := p.MAC(e.Node)
		out.MAC, out.IPv4 = net.HardwareAddr(mac[:]).String(), p.HostAddr4(e.Node).String()+"/32"
	}
	return out
}

// tunnel is a link's end here, whose other end is on another machine.
func (c *Config) tunnel(p *placement, l *fabric.Link, here endpoint, there fabric.End) link {
	return link{Type: "vxlan", Endpoint: &here, Remote: p.addresses[p.at[there.Node]].String(), VNI: firstVNI + int(l.ID), MTU: c.MTU}
}
