package p4runtime

import (
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// pipeline is one forwarding-pipeline configuration with its state: the switch that executes it, and the
// controllers' entries in their original form.
type pipeline struct {
	*schema
	core   *Core
	config *p4.ForwardingPipelineConfig
	sw     *interp.Switch

	tableStates     []*tableState   // by tableSchema.index
	profileStates   []*profileState // by profileSchema.index
	pre             replication
	valueSetEntries map[uint32]*p4.ValueSetEntry
	learning        map[uint32]*digestState
	byDigest        map[program.DigestID]*digestState
	idle            idleQueue

	names      map[string]*nameTable // by type
	metadata   int                   // bytes of stored metadata
	portTables bool                  // one of the core's PortTables changed

	referentStates []*referentState // of schema.referents
	inheriting     bool             // entries may come in any order

	inTx bool
	undo []func()
}

// compilePipeline compiles a configuration. Errors are INVALID_ARGUMENT.
func (c *Core) compilePipeline(config *p4.ForwardingPipelineConfig) (*pipeline, error) {
	if config == nil {
		return nil, rpc.Invalidf("no config is given")
	}
	if config.GetP4Info() == nil {
		return nil, rpc.Invalidf("config has no p4info")
	}
	if len(config.GetP4DeviceConfig()) == 0 {
		return nil, rpc.Invalidf("config has no p4_device_config; it must be the BMv2 JSON that p4c-bm2-ss writes")
	}
	prog, err := c.compileProgram(config.GetP4DeviceConfig())
	if err != nil {
		return nil, rpc.Invalidf("p4_device_config: %v", err)
	}
	sch, err := buildSchema(config.GetP4Info(), prog, !c.cfg.Unrestricted)
	if err != nil {
		return nil, err
	}
	p := &pipeline{
		schema: sch, core: c, config: config,
		valueSetEntries: map[uint32]*p4.ValueSetEntry{}, learning: map[uint32]*digestState{},
		byDigest: map[program.DigestID]*digestState{}, pre: newReplication(), names: map[string]*nameTable{},
	}
	for name := range sch.nameTypes {
		p.names[name] = newNameTable()
	}
	cfg := c.cfg.Switch
	cfg.Digest = c.digestReceiver(p)
	p.sw = interp.NewSwitch(sch.prog, cfg)
	for _, ps := range sch.profiles.list {
		p.profileStates = append(p.profileStates, newProfileState(ps))
	}
	for _, r := range sch.referents {
		p.referentStates = append(p.referentStates, &referentState{referent: r, present: map[string]int{}, wanted: map[string]int{}})
	}
	for _, ts := range sch.tables.list {
		state := newTableState(ts)
		for _, r := range p.referentStates {
			if r.table == ts {
				state.referents = append(state.referents, r)
			}
		}
		state.metadata = &p.metadata
		state.affectsPortEvents = slices.Contains(c.cfg.PortTables, ts.name)
		p.tableStates = append(p.tableStates, state)
	}
	if err := p.loadInitialEntries(); err != nil {
		return nil, err
	}
	return p, nil
}

func (c *Core) compileProgram(config []byte) (*program.Program, error) {
	json := deviceData(config)
	if c.cfg.Load != nil {
		return c.cfg.Load(json)
	}
	return program.Load(json)
}

// SetForwardingPipelineConfig answers the RPC of that name. The error is a gRPC status; after an error the old
// program continues.
func (c *Core) SetForwardingPipelineConfig(req *p4.SetForwardingPipelineConfigRequest) (*p4.SetForwardingPipelineConfigResponse, error) {
	if err := c.setPipeline(req); err != nil {
		return nil, rpc.Status(err)
	}
	return &p4.SetForwardingPipelineConfigResponse{}, nil
}

func (c *Core) setPipeline(req *p4.SetForwardingPipelineConfigRequest) error {
	key := roleKey{name: req.GetRole(), id: req.GetRoleId()} //nolint:staticcheck // old controllers use the id
	if _, err := c.writerRole(req.GetDeviceId(), key, req.GetElectionId()); err != nil {
		return err
	}
	switch action := req.GetAction(); action {
	case p4.SetForwardingPipelineConfigRequest_VERIFY:
		_, err := c.compilePipeline(req.GetConfig())
		return err
	case p4.SetForwardingPipelineConfigRequest_VERIFY_AND_SAVE:
		p, err := c.compilePipeline(req.GetConfig())
		if err != nil {
			return err
		}
		c.saved = p
		return nil
	case p4.SetForwardingPipelineConfigRequest_VERIFY_AND_COMMIT:
		p, err := c.compilePipeline(req.GetConfig())
		if err != nil {
			return err
		}
		c.commitPipeline(p)
		return nil
	case p4.SetForwardingPipelineConfigRequest_COMMIT:
		if req.GetConfig() != nil {
			return rpc.Invalidf("COMMIT takes no config; it realises the saved one")
		}
		if c.saved == nil {
			return rpc.NotFoundf("no config is saved; send VERIFY_AND_SAVE first")
		}
		c.commitPipeline(c.saved)
		return nil
	case p4.SetForwardingPipelineConfigRequest_RECONCILE_AND_COMMIT:
		p, err := c.compilePipeline(req.GetConfig())
		if err != nil {
			return err
		}
		if c.live != nil {
			c.plane.lock()
			err := p.inheritEntries(c.live)
			c.plane.unlock()
			if err != nil {
				return rpc.Invalidf("the forwarding state cannot be kept: %v; the old pipeline goes on", err)
			}
		}
		c.commitPipeline(p)
		return nil
	default:
		return rpc.Invalidf("action %v", action)
	}
}

// Install puts a pipeline into the data path without a controller, for a switch that is started with its program as
// an argument.
func (c *Core) Install(config *p4.ForwardingPipelineConfig) error {
	p, err := c.compilePipeline(config)
	if err != nil {
		return rpc.Status(err)
	}
	c.commitPipeline(p)
	return nil
}

// commitPipeline puts p into the data path.
func (c *Core) commitPipeline(p *pipeline) {
	c.live, c.saved = p, nil
	p.portTables = false // the events follow anyway
	if c.cfg.OnSwitch != nil {
		c.cfg.OnSwitch(p.sw)
	}
	if c.cfg.OnPortEvent != nil {
		for _, s := range c.cfg.Ports.States() {
			c.cfg.OnPortEvent(s.Number, s.Oper)
		}
	}
}

// GetForwardingPipelineConfig answers the RPC of that name, with the saved configuration if there is one that is
// not committed yet.
func (c *Core) GetForwardingPipelineConfig(req *p4.GetForwardingPipelineConfigRequest) (*p4.GetForwardingPipelineConfigResponse, error) {
	if err := c.checkDevice(req.GetDeviceId()); err != nil {
		return nil, rpc.Status(err)
	}
	p := c.activePipeline()
	if p == nil {
		return &p4.GetForwardingPipelineConfigResponse{}, nil
	}
	out := &p4.ForwardingPipelineConfig{Cookie: p.config.GetCookie()}
	switch t := req.GetResponseType(); t {
	case p4.GetForwardingPipelineConfigRequest_ALL:
		out.P4Info, out.P4DeviceConfig = p.config.GetP4Info(), p.config.GetP4DeviceConfig()
	case p4.GetForwardingPipelineConfigRequest_COOKIE_ONLY:
	case p4.GetForwardingPipelineConfigRequest_P4INFO_AND_COOKIE:
		out.P4Info = p.config.GetP4Info()
	case p4.GetForwardingPipelineConfigRequest_DEVICE_CONFIG_AND_COOKIE:
		out.P4DeviceConfig = p.config.GetP4DeviceConfig()
	default:
		return nil, rpc.Status(rpc.Invalidf("response type %v", t))
	}
	return &p4.GetForwardingPipelineConfigResponse{Config: out}, nil
}

// beginBatch starts a batch that can be undone.
func (p *pipeline) beginBatch() {
	p.inTx = true
	p.undo = p.undo[:0]
	p.sw.Begin()
}

// endBatch keeps or undoes the changes since begin.
func (p *pipeline) endBatch(keep bool) {
	p.inTx = false
	if keep {
		p.sw.Commit()
	} else {
		p.sw.Rollback()
		for _, v := range slices.Backward(p.undo) {
			v()
		}
	}
	clear(p.undo)
	p.undo = p.undo[:0]
	for _, ps := range p.profileStates {
		ps.touched = false
	}
}

// onUndo records how to undo a change, if the batch may need it.
func (p *pipeline) onUndo(f func()) {
	if p.inTx {
		p.undo = append(p.undo, f)
	}
}

func errNoPipeline() error {
	return rpc.Errorf(codes.FailedPrecondition, "there is no forwarding pipeline; send SetForwardingPipelineConfig first")
}
