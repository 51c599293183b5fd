package deployment

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/ethereal-fabric/ethereal/controller/daemon"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/strictyaml"
)

// File describes where the parts of a fabric are. It is JSON; relative paths are relative to its folder.
type File struct {
	// file with the fabric, as `ethereal topo` prints it
	Fabric  string `yaml:"fabric" json:"fabric" required:"the fabric file that the controller reads"`
	Targets string `yaml:"targets" json:"targets" required:"the targets file that the controller reads"` // file: the controller's, with the switches' addresses
	// Hosts are the control sockets of the hosts' agents, by rank: UNIX sockets. ssh -L makes them for hosts on
	// other machines.
	Hosts []string `yaml:"hosts" json:"hosts,omitempty"`
	// Admin is the controller's HOST:PORT for status and drains; Token the file with its token; EventLog its log
	// file. Each may be empty.
	Admin    string `yaml:"admin" json:"admin,omitempty"`
	Token    string `yaml:"admin_token_file" json:"admin_token_file,omitempty"`
	EventLog string `yaml:"event_log" json:"event_log,omitempty"`
	// CA, Cert and Key are the TLS files. The certificate needs the role of a controller, because a step that cuts
	// a link is a gNMI Set.
	CA   string `yaml:"tls_ca" json:"tls_ca,omitempty"`
	Cert string `yaml:"tls_cert" json:"tls_cert,omitempty"`
	Key  string `yaml:"tls_key" json:"tls_key,omitempty"`
	// Control is the UNIX socket of the program that made the fabric, which can end and start its processes. Empty:
	// none.
	Control string `yaml:"control" json:"control,omitempty"`
	// Interface is the pattern of the switches' interface names in this network namespace, with %s for the switch
	// and %d for the port. Empty: they are elsewhere, and the program that made the fabric is asked to slow links
	// or make them lose packets.
	Interface string `yaml:"interface" json:"interface,omitempty"`

	at func(key string) strictyaml.Pos // returns the place of a key
}

// Write writes a deployment's file.
func (d *File) Write(path string) error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("deployment: %w", err)
	}
	return nil
}

// Load reads a deployment's file. Unknown keys are refused.
func Load(path string) (*File, error) {
	text, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("deployment: %w", err)
	}
	in := strictyaml.New(path, nil) // JSON is YAML
	d := &File{at: in.At}
	if root := in.Document(text, "a deployment, as ethereal mininet run does"); root != nil {
		in.Value(root, d, "")
	}
	files := []*string{&d.Fabric, &d.Targets, &d.Token, &d.EventLog, &d.Control, &d.CA, &d.Cert, &d.Key}
	for i := range d.Hosts {
		files = append(files, &d.Hosts[i])
	}
	for _, p := range files {
		*p = in.RelativePath(*p)
	}
	return d, in.Err()
}

// Read reads the files that the deployment names and compares them: the fabric, and the controller's configuration
// of its targets. It does not connect.
func (d *File) Read() (*fabric.Fabric, daemon.Config, error) {
	var cfg daemon.Config
	spec, err := fabric.LoadSpec(d.Fabric)
	if err != nil {
		return nil, cfg, d.refuse("fabric", err, "name the fabric file that the controller reads")
	}
	f, err := fabric.NewSinglePlane(spec, "a deployment")
	if err != nil {
		return nil, cfg, d.refuse("fabric", err, "name the fabric file that the controller reads")
	}
	if len(d.Hosts) != f.Hosts() {
		return nil, cfg, d.refuse("hosts", fmt.Errorf("%d of a fabric of %d", len(d.Hosts), f.Hosts()), "list the control socket of each host's agent, by rank")
	}
	file, err := daemon.ReadFile(d.Targets)
	if err != nil {
		return nil, cfg, d.refuse("targets", err, "name the targets file that the controller reads")
	}
	cfg.Core.Fabric = f
	return f, cfg, file.Apply(&cfg)
}

// refuse returns an error about a key's value. Errors about another file's content stay unchanged.
func (d *File) refuse(key string, err error, remedy string) error {
	if errors.Is(err, strictyaml.ErrContent) {
		return err
	}
	e := &strictyaml.Error{Pos: strictyaml.Pos{File: "deployment"}, Key: key, Problem: err.Error(), Remedy: remedy}
	if d.at != nil {
		e.Pos = d.at(key)
	}
	return strictyaml.Errors{e}
}
