package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
)

// p4rtFlags are the flags that name the switch for `ethereal p4rt`.
type p4rtFlags struct {
	switches             switchesFlags // for --target
	addr, target         string
	device               uint64
	format               outputFormat
	withZeros, byDefault bool
	priority             int32
	election             uint64
}

func (p *p4rtFlags) register(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&p.addr, "p4runtime", "127.0.0.1:9559", "ask the switch whose P4Runtime server is `ADDR`, HOST:PORT or unix:PATH")
	f.Uint64Var(&p.device, "device-id", 0, "ask for the device of id `N`")
	f.StringVar(&p.target, "target", "", "ask the switch `NAME` of --targets, or of the fabric that is up on this machine; replaces --p4runtime")
	p.switches.register(c)
}

// connect connects to the switch.
func (p *p4rtFlags) connect(ctx context.Context) (*p4rt.NamedClient, *grpc.ClientConn, error) {
	addr, device := p.addr, p.device
	if p.target != "" {
		if _, err := p.switches.fillFromDeployment(); err != nil {
			return nil, nil, err
		}
		cfg, _, err := p.switches.read()
		if err != nil {
			return nil, nil, err
		}
		id, err := cfg.Core.Fabric.NodeByName(p.target)
		if err != nil {
			return nil, nil, fmt.Errorf("--target: %w", err)
		}
		t, ok := cfg.Targets[id]
		if !ok {
			return nil, nil, fmt.Errorf("--target: %s is not in %s", p.target, p.switches.targets)
		}
		addr, device = t.P4Runtime, t.DeviceID
	}
	dial, err := p.switches.dialer()
	if err != nil {
		return nil, nil, err
	}
	conn, err := dial(addr)
	if err != nil {
		return nil, nil, fmt.Errorf("--p4runtime: %w", err)
	}
	n, err := p4rt.NewNamedClient(ctx, p4.NewP4RuntimeClient(conn), device)
	if err != nil {
		return nil, nil, errors.Join(failedf("%s: %w", addr, err), conn.Close())
	}
	return n, conn, nil
}

// newP4RTCommand makes `ethereal p4rt`.
func newP4RTCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "p4rt",
		Short: "Read and write a P4Runtime switch by the names of its program",
		Long: `Reads tables, counters and registers of any P4Runtime switch (ethereal switch, BMv2, Stratum and others), and writes table
entries. Names are those of the P4Info that the switch itself returns; the last part of a name is enough if it is unique.
Values are numbers or addresses.`,
	}
	c.AddCommand(newP4RTRead("read", "Print the entries of tables, and counters and registers that are named",
		"  ethereal p4rt read --target tor0\n  ethereal p4rt read --p4runtime 127.0.0.1:50051 ipv4_lpm", (*p4rt.NamedClient).Read),
		newP4RTRead("counters", "Print counters that are not zero",
			"  ethereal p4rt counters --target tor0\n  ethereal p4rt counters --p4runtime 127.0.0.1:50051 port_tx_data --zero", (*p4rt.NamedClient).Counters),
		newP4RTWrite())
	return c
}

func newP4RTRead(
	name, short, example string, read func(*p4rt.NamedClient, context.Context, ...string) ([]p4rt.NamedEntry, error),
) *cobra.Command {
	var flags p4rtFlags
	c := &cobra.Command{
		Use: name + " [NAME]...", Short: short, Example: example,
		RunE: func(c *cobra.Command, args []string) error {
			n, conn, err := flags.connect(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close() //nolint:errcheck // all is read
			entries, err := read(n, c.Context(), args...)
			if errors.Is(err, p4rt.ErrName) {
				return err
			}
			if err != nil {
				return failedf("%w", err)
			}
			if !flags.withZeros {
				entries = slices.DeleteFunc(entries, isZero)
			}
			if len(entries) == 0 && flags.format.forPeople() {
				fmt.Fprintln(c.ErrOrStderr(), "nothing; --zero shows cells that are zero")
			}
			return flags.print(c.OutOrStdout(), entries)
		},
	}
	flags.register(c)
	flags.format.register(c)
	c.Flags().BoolVar(&flags.withZeros, "zero", false, "print cells that are zero too")
	return c
}

// isZero reports whether a cell of a counter or register is zero.
func isZero(e p4rt.NamedEntry) bool {
	return (e.Packets != nil || e.Bytes != nil || e.Value != "") && (e.Packets == nil || *e.Packets == 0) &&
		(e.Bytes == nil || *e.Bytes == 0) && (e.Value == "" || e.Value == "0")
}

func (p *p4rtFlags) print(w io.Writer, entries []p4rt.NamedEntry) error {
	if !p.format.forPeople() {
		return p.format.write(w, entries)
	}
	for _, e := range entries {
		if _, err := fmt.Fprintln(w, e); err != nil {
			return failedf("printing: %w", err)
		}
	}
	return nil
}

// p4rtOperations are the words of `ethereal p4rt write`.
func p4rtOperations() map[string]p4.Update_Type {
	return map[string]p4.Update_Type{"insert": p4.Update_INSERT, "modify": p4.Update_MODIFY, "delete": p4.Update_DELETE}
}

func newP4RTWrite() *cobra.Command {
	var flags p4rtFlags
	c := &cobra.Command{
		Use:   "write insert|modify|delete TABLE [FIELD=VALUE]... [ACTION [PARAM=VALUE]...]",
		Short: "Insert, modify or delete a table entry",
		Long: `Writes one entry as the switch's primary, which no other client may be. A field's value is VALUE if it matches exactly,
ADDRESS/BITS for a longest prefix, VALUE/MASK for a ternary match and LOW..HIGH for a range. A field that is left out
matches any value. delete takes no action.`,
		Example: `  ethereal p4rt write insert ipv4_lpm hdr.ipv4.dstAddr=10.0.1.1/32 ipv4_forward dstAddr=08:00:00:00:01:11 port=1
  ethereal p4rt write delete ipv4_lpm dstAddr=10.0.1.1/32
  ethereal p4rt write modify ipv4_lpm --default drop`,
		RunE: func(c *cobra.Command, args []string) error {
			u, err := flags.parseUpdate(args)
			if err != nil {
				return err
			}
			n, conn, err := flags.connect(c.Context())
			if err != nil {
				return err
			}
			defer conn.Close() //nolint:errcheck // it is written
			if err := n.Write(c.Context(), flags.election, u); errors.Is(err, p4rt.ErrName) {
				return err
			} else if err != nil {
				return failedf("%w", err)
			}
			return nil
		},
	}
	flags.register(c)
	f := c.Flags()
	f.Int32Var(&flags.priority, "priority", 0, "write an entry of priority `N`, above 0 where a field matches ternary, range or optional")
	f.BoolVar(&flags.byDefault, "default", false, "write the table's default action")
	f.Uint64Var(&flags.election, "election-id", 1, "use election id `N`; the client with the highest id may write")
	return c
}

// parseUpdate reads the words of a write.
func (p *p4rtFlags) parseUpdate(args []string) (u p4rt.NamedUpdate, err error) {
	if len(args) < 2 {
		return u, errors.New("p4rt write: write insert, modify or delete, a table, its fields and an action, as in ethereal p4rt write insert " +
			"ipv4_lpm dstAddr=10.0.1.1/32 ipv4_forward port=1")
	}
	kinds := p4rtOperations()
	var ok bool
	if u.Type, ok = kinds[args[0]]; !ok {
		return u, fmt.Errorf("p4rt write: %q is unknown; write one of %s", args[0], strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	u.Table, u.Priority, u.Default = args[1], p.priority, p.byDefault
	u.Match, u.Params = map[string]string{}, map[string]string{}
	for _, word := range args[2:] {
		name, value, pair := strings.Cut(word, "=")
		switch {
		case pair && u.Action == "":
			u.Match[name] = value
		case pair:
			u.Params[name] = value
		case u.Action == "":
			u.Action = word
		default:
			return u, fmt.Errorf("p4rt write: %s and %s: there can be one action", u.Action, word)
		}
	}
	if deletes := u.Type == p4.Update_DELETE; deletes != (u.Action == "") {
		return u, fmt.Errorf("p4rt write %s: write the action behind the fields, and none for delete", args[0])
	}
	return u, nil
}
