package p4rt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/p4src"
)

// Pipeline is a compiled P4 program for switches of one kind, with its P4Info. It is immutable and safe for concurrent
// use.
type Pipeline struct {
	config *p4.ForwardingPipelineConfig
	schema *Schema
	// translation is for a program with other tables; nil: the program has the controller's tables.
	translation targets.Translation
	fabric      *fabric.Fabric
	uncompiled  *targets.UncompiledError // parts are missing, so it cannot be pushed; nil: it is whole
}

// PipelineFor returns the pipeline for switches of a kind in a fabric, from their compiler's output and P4Info. If the
// chip's compiler has yet to write some of it, the pipeline is [Pipeline.Uncompiled].
func PipelineFor(kind *targets.Profile, f *fabric.Fabric, info *p4config.P4Info, compiled targets.Compiled) (*Pipeline, error) {
	compiled.Info = info
	deviceConfig, err := kind.Pack(compiled)
	uncompiled, _ := errors.AsType[*targets.UncompiledError](err)
	if err != nil && uncompiled == nil {
		return nil, err
	}
	config, err := packPipeline(info, deviceConfig)
	if err != nil {
		return nil, err
	}
	p := &Pipeline{config: config, fabric: f, uncompiled: uncompiled}
	if p.translation, err = kind.Translate(info); err != nil {
		return nil, err
	}
	if p.translation == nil {
		p.schema, err = newSchema(info, kind.Names, kind.Lacks)
	} else {
		p.schema, err = translated(p.translation, info, kind.Names)
	}
	if err != nil {
		return nil, err
	}
	if kind.NoPackets {
		p.schema.packets = packetIDs{}
	}
	return p, nil
}

// translated returns the schema of the controller's own program, with the table sizes and packet headers of the
// program to which it is translated; info is that program's P4Info.
func translated(t targets.Translation, info *p4config.P4Info, names targets.Names) (*Schema, error) {
	schema, err := NewSchema(p4src.V1ModelP4Info())
	if err != nil {
		return nil, err
	}
	room, group := t.Room()
	for table, size := range room {
		ids := schema.tables[table]
		ids.size = size
		if table == controller.ECMP {
			ids.maxGroup, ids.shares = group, 0
		}
		schema.tables[table] = ids
	}
	schema.called = names
	schema.bindPackets(info)
	return schema, nil
}

// NewPipeline returns the pipeline of a P4Info and the target's form of the program. Its cookie is made from both.
// It returns an error that wraps [ErrSchema] if the P4Info does not fit the controller; tables in mayLack may be
// absent.
func NewPipeline(info *p4config.P4Info, deviceConfig []byte, mayLack ...controller.Table) (*Pipeline, error) {
	schema, err := NewSchema(info, mayLack...)
	if err != nil {
		return nil, err
	}
	config, err := packPipeline(info, deviceConfig)
	if err != nil {
		return nil, err
	}
	return &Pipeline{schema: schema, config: config}, nil
}

// packPipeline returns the configuration that is pushed.
func packPipeline(info *p4config.P4Info, deviceConfig []byte) (*p4.ForwardingPipelineConfig, error) {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(info)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(text))))
	h.Write(text)
	h.Write(deviceConfig)
	cookie := binary.BigEndian.Uint64(h.Sum(nil))
	return &p4.ForwardingPipelineConfig{
		P4Info: proto.CloneOf(info), P4DeviceConfig: deviceConfig,
		Cookie: &p4.ForwardingPipelineConfig_Cookie{Cookie: cookie},
	}, nil
}

// ForDialect returns the pipeline for one switch.
func (p *Pipeline) ForDialect(d Dialect) *Pipeline {
	in := *p
	in.schema = p.schema.ForDialect(d)
	return &in
}

// Client returns the client of the switch for which the pipeline is, over a connection to it.
func (p *Pipeline) Client(conn grpc.ClientConnInterface) p4.P4RuntimeClient {
	c := p4.NewP4RuntimeClient(conn)
	if p.translation == nil {
		return c
	}
	d := p.schema.dialect
	return p.translation.Client(c, targets.SwitchPlace{Fabric: p.fabric, Switch: d.Switch, Ports: d.Ports}, p.schema)
}

// Schema returns the program's P4Runtime ids of the controller's tables and actions.
func (p *Pipeline) Schema() *Schema { return p.schema }

// Uncompiled returns what the chip's compiler has yet to write before the pipeline can be pushed; nil: nothing.
func (p *Pipeline) Uncompiled() []string {
	if p.uncompiled == nil {
		return nil
	}
	return p.uncompiled.Missing
}

// Cookie returns the number that identifies the pipeline's content.
func (p *Pipeline) Cookie() uint64 { return p.config.GetCookie().GetCookie() }

// runs reports whether a switch with that answer runs p. If the cookie is right, parts that the switch did not
// return are assumed right.
func (p *Pipeline) runs(have *p4.ForwardingPipelineConfig) bool {
	switch {
	case p.uncompiled != nil: // its device config is not known, nor its cookie
		return have.GetP4Info() != nil && proto.Equal(have.GetP4Info(), p.config.GetP4Info())
	case have.GetCookie() == nil || have.GetCookie().GetCookie() != p.Cookie():
		return false
	case have.GetP4Info() != nil && !proto.Equal(have.GetP4Info(), p.config.GetP4Info()):
		return false
	case len(have.GetP4DeviceConfig()) > 0 && !bytes.Equal(have.GetP4DeviceConfig(), p.config.GetP4DeviceConfig()):
		return false
	}
	return true
}

// readPipeline reads the program of a switch; nil if it runs none.
func readPipeline(ctx context.Context, client p4.P4RuntimeClient, device uint64) (*p4.ForwardingPipelineConfig, error) {
	for _, t := range []p4.GetForwardingPipelineConfigRequest_ResponseType{
		p4.GetForwardingPipelineConfigRequest_ALL, p4.GetForwardingPipelineConfigRequest_COOKIE_ONLY,
	} {
		r, err := client.GetForwardingPipelineConfig(ctx, &p4.GetForwardingPipelineConfigRequest{DeviceId: device, ResponseType: t})
		switch status.Code(err) {
		case codes.OK:
			return r.GetConfig(), nil
		case codes.FailedPrecondition, codes.NotFound:
			return nil, nil
		case codes.Unimplemented, codes.InvalidArgument, codes.ResourceExhausted:
			continue // request less
		}
		return nil, fmt.Errorf("p4rt: asking for the pipeline: %w", err)
	}
	return nil, errors.New("p4rt: the switch returns neither its pipeline nor its cookie")
}

// push sends the pipeline. A switch that runs a program is asked to keep its entries, if it can.
func (p *Pipeline) push(ctx context.Context, client p4.P4RuntimeClient, w Writer, installed bool) error {
	if p.uncompiled != nil {
		return p.uncompiled
	}
	actions := []p4.SetForwardingPipelineConfigRequest_Action{
		p4.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT, p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT,
	}
	if !installed {
		actions = actions[1:]
	}
	var err error
	for _, a := range actions {
		_, err = client.SetForwardingPipelineConfig(ctx, &p4.SetForwardingPipelineConfigRequest{
			DeviceId: w.DeviceID, ElectionId: w.ElectionID, Action: a, Config: p.config,
		})
		// Targets report in many ways that they cannot keep entries. If the program is wrong, the second action
		// fails too.
		switch status.Code(err) {
		case codes.OK:
			return nil
		case codes.Unimplemented, codes.InvalidArgument, codes.FailedPrecondition, codes.Unknown, codes.Internal:
			continue
		}
		break
	}
	return fmt.Errorf("p4rt: pushing the pipeline: %w", err)
}

// Installed reports whether a switch runs the pipeline.
func (p *Pipeline) Installed(ctx context.Context, client p4.P4RuntimeClient, device uint64) (bool, error) {
	have, err := readPipeline(ctx, client, device)
	return err == nil && p.runs(have), err
}

// Install pushes the pipeline to a switch that runs another or none. The election id must be the primary's.
func (p *Pipeline) Install(ctx context.Context, client p4.P4RuntimeClient, w Writer) error {
	return p.push(ctx, client, w, false)
}

// RunningProgram describes the P4 program that a switch runs at present.
type RunningProgram struct {
	SameProgram, None bool
	Package           string // name of another program, if its P4Info has one
	Cookie            uint64 // number that identifies the program's content; 0: it has none
}

func (r RunningProgram) String() string {
	name := r.Package
	if name == "" {
		name = "a program without a name"
	}
	return fmt.Sprintf("%s (cookie %#x)", name, r.Cookie)
}

// Inspect reads the program of a switch.
func (p *Pipeline) Inspect(ctx context.Context, client p4.P4RuntimeClient, device uint64) (RunningProgram, error) {
	have, err := readPipeline(ctx, client, device)
	if err != nil {
		return RunningProgram{}, err
	}
	return RunningProgram{
		SameProgram: p.runs(have), None: have.GetP4Info() == nil && have.GetCookie() == nil && len(have.GetP4DeviceConfig()) == 0,
		Package: have.GetP4Info().GetPkgInfo().GetName(), Cookie: have.GetCookie().GetCookie(),
	}, nil
}
