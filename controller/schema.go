package controller

import "fmt"

// Table is a table of the P4 program that the controller writes. Tables are in the order in which an empty switch
// is programmed.
type Table uint8

// The tables. CloneSession and MulticastGroup are not P4 tables but the packet replication engine's. They are
// desired, compared and written in the same way; the key is the number of the session or group.
const (
	CloneSession Table = iota
	MulticastGroup
	Device
	Balancer
	LabelCarrier
	UplinkOfPort
	PortOfUplink
	Notice
	SourceGuard
	ECNProfile
	RotationV4
	RotationV6
	OwnSegment
	UplinkSlot
	UplinkGroup
	ECMP
	RouteV4
	RouteV6
	SourceRoute
	tableCount
)

// Replicated reports whether the table is the packet replication engine's, and so in no P4Info.
func (t Table) Replicated() bool { return t <= MulticastGroup }

// Tables returns all tables in order.
func Tables() []Table {
	ts := make([]Table, tableCount)
	for i := range ts {
		ts[i] = Table(i)
	}
	return ts
}

// Action is an action of the P4 program.
type Action uint8

// The actions. CloneTo belongs to [CloneSession], ReplicateTo to [MulticastGroup]; NoAction is used in entries that
// are only to be deleted.
const (
	NoAction Action = iota
	CloneTo
	ReplicateTo
	SetDevice
	CarrierUDPSport
	CarrierFlowLabel
	SetUplinkIndex
	TakeUplink
	MarkBetween
	Deliver
	ForwardDown
	ForwardUp
	ForwardUplink
	Discard
	SendNotices
	OwnAddresses
	SprayRoundRobin
	SprayRandom
	RotateDestinations
	ShortestQueue
	Flowlets
	SetSlots
	SetRotation
	ShiftSegments
	actionCount
)

// MatchKind is the kind of match of a table's key.
type MatchKind uint8

// The kinds. Keyless tables have only a default action.
const (
	Keyless MatchKind = iota
	Exact
	LPM
	Ternary
)

func (k MatchKind) String() string {
	return [...]string{"no key", "exact", "lpm", "ternary"}[k]
}

// Param is a named value with a width in bits: a key field or an action parameter.
type Param struct {
	Name string
	Bits int
}

// TableLayout describes a table of the program.
type TableLayout struct {
	Name     string
	Match    MatchKind
	Key      Param
	Actions  []Action
	Selector bool // its entries are one-shot action sets
	Optional bool // programs may lack it; those have no balancer except ECMP, or no micro segments
}

// ActionLayout describes an action of the program.
type ActionLayout struct {
	Name     string
	Params   []Param
	Optional bool // P4 programs may lack the action
}

// maxArgs is the largest number of parameters of an action.
const maxArgs = 6

var tableLayouts = [tableCount]TableLayout{
	CloneSession:   {Name: "clone_session", Match: Exact, Key: Param{"session", 32}, Actions: []Action{CloneTo}},
	MulticastGroup: {Name: "multicast_group", Match: Exact, Key: Param{"group", 32}, Actions: []Action{ReplicateTo}},
	Device:         {Name: "device", Match: Keyless, Actions: []Action{SetDevice}},
	Balancer:       {Name: "balancer", Match: Exact, Key: Param{"is_data", 1}, Actions: balancerActions(), Optional: true},
	LabelCarrier:   {Name: "label_carrier", Match: Exact, Key: Param{"is_ipv6", 1}, Actions: []Action{CarrierUDPSport, CarrierFlowLabel}},
	UplinkOfPort:   {Name: "uplink_of_port", Match: Exact, Key: Param{"port", 9}, Actions: []Action{SetUplinkIndex}},
	PortOfUplink:   {Name: "port_of_uplink", Match: Exact, Key: Param{"index", 8}, Actions: []Action{TakeUplink}},
	Notice:         {Name: "notice", Match: Exact, Key: Param{"port", 9}, Actions: []Action{SendNotices}},
	SourceGuard:    {Name: "source_guard", Match: Exact, Key: Param{"port", 9}, Actions: []Action{OwnAddresses}},
	ECNProfile:     {Name: "ecn_profile", Match: Exact, Key: Param{"port", 9}, Actions: []Action{MarkBetween}},
	RotationV4:     {Name: "rotation_v4", Match: LPM, Key: Param{"dst", 32}, Actions: []Action{SetRotation}, Optional: true},
	RotationV6:     {Name: "rotation_v6", Match: LPM, Key: Param{"dst", 128}, Actions: []Action{SetRotation}, Optional: true},
	UplinkSlot:     {Name: "uplink_slot", Match: Exact, Key: Param{"slot", 24}, Actions: []Action{TakeUplink}, Optional: true},
	UplinkGroup:    {Name: "uplink_group", Match: Exact, Key: Param{"group", 16}, Actions: []Action{SetSlots}, Optional: true},
	OwnSegment:     {Name: "own_segment", Match: Exact, Key: Param{"locator", 48}, Actions: []Action{ShiftSegments}, Optional: true},
	ECMP:           {Name: "ecmp", Match: Exact, Key: Param{"group", 16}, Actions: []Action{TakeUplink}, Selector: true},
	RouteV4:        {Name: "route_v4", Match: LPM, Key: Param{"dst", 32}, Actions: []Action{Deliver, ForwardDown, ForwardUp, Discard}},
	RouteV6:        {Name: "route_v6", Match: LPM, Key: Param{"dst", 128}, Actions: []Action{Deliver, ForwardDown, ForwardUp, ForwardUplink, Discard}},
	SourceRoute:    {Name: "source_route", Match: Ternary, Key: Param{"label", 14}, Actions: []Action{TakeUplink}},
}

var actionLayouts = [actionCount]ActionLayout{
	NoAction:         {Name: "NoAction"},
	CloneTo:          {Name: "clone_to", Params: []Param{{"port", 9}, {"truncate", 32}, {"class", 8}}},
	ReplicateTo:      {Name: "replicate_to", Params: []Param{{"first", 9}, {"count", 9}}}, // consecutive ports
	SetDevice:        {Name: "set_device", Params: []Param{{"switch_id", 32}, {"hash_seed", 32}, {"hash_offset", 8}, {"uplinks", 8}, {"control_priority", 3}, {"quench_interval_us", 32}}},
	CarrierUDPSport:  {Name: "carrier_udp_sport"},
	CarrierFlowLabel: {Name: "carrier_flow_label"},
	SetUplinkIndex:   {Name: "set_uplink_index", Params: []Param{{"index", 8}}},
	TakeUplink:       {Name: "take_uplink", Params: []Param{{"port", 9}}},
	MarkBetween:      {Name: "mark_between", Params: []Param{{"kmin", 19}, {"kmax", 19}, {"pmax", 16}}},
	Deliver:          {Name: "deliver", Params: []Param{{"port", 9}, {"dmac", 48}}},
	ForwardDown:      {Name: "forward_down", Params: []Param{{"port", 9}}},
	ForwardUp:        {Name: "forward_up", Params: []Param{{"group", 16}}},
	ForwardUplink:    {Name: "forward_uplink", Params: []Param{{"port", 9}}, Optional: true},
	Discard:          {Name: "discard"},
	SendNotices:      {Name: "tell", Params: []Param{{"own", 16}, {"passed", 16}}},
	OwnAddresses:     {Name: "own_addresses", Params: []Param{{"v4", 32}, {"v6_high", 64}, {"v6_low", 64}}},

	SprayRoundRobin:    {Name: "spray_round_robin", Params: []Param{{"wraps", 8}}},
	SprayRandom:        {Name: "spray_random"},
	RotateDestinations: {Name: "rotate_destinations"},
	ShortestQueue:      {Name: "shortest_queue", Params: []Param{{"unit_shift", 8}, {"bin1", 19}, {"bin2", 19}, {"bin3", 19}}},
	Flowlets:           {Name: "flowlets", Params: []Param{{"mode", 2}, {"gap_us", 32}, {"cost", 32}, {"unit_cost", 32}}},
	SetSlots:           {Name: "set_slots", Params: []Param{{"slots", 8}, {"uplinks", 64}}},
	SetRotation:        {Name: "set_rotation", Params: []Param{{"index", 12}}},
	ShiftSegments:      {Name: "shift_segments"},
}

// Layout returns the table's description, which must not be written to.
func (t Table) Layout() *TableLayout { return &tableLayouts[t] }

func (t Table) String() string {
	if t >= tableCount {
		return fmt.Sprintf("Table(%d)", uint8(t))
	}
	return tableLayouts[t].Name
}

// UnmarshalText reads a table's name.
func (t *Table) UnmarshalText(text []byte) error {
	for i := range tableLayouts {
		if tableLayouts[i].Name == string(text) {
			*t = Table(i)
			return nil
		}
	}
	return fmt.Errorf("controller: %q is no table; write a name of p4src's P4Info, as in notice", text)
}

// Layout returns the action's description, which must not be written to.
func (a Action) Layout() *ActionLayout { return &actionLayouts[a] }

func (a Action) String() string {
	if a >= actionCount {
		return fmt.Sprintf("Action(%d)", uint8(a))
	}
	return actionLayouts[a].Name
}
