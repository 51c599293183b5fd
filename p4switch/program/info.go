package program

// The IDs index the slices that Program's methods return; they are dense,
// start at zero, and mean the same in every switch that runs the program.
type (
	// TableID names a table.
	TableID int
	// ActionID names an action, program-wide.
	ActionID int
	// ProfileID names an action profile or selector; -1 is none.
	ProfileID int
	// CounterID names an indirect counter array.
	CounterID int
	// MeterID names a meter array, direct or indirect; -1 is none.
	MeterID int
	// RegisterID names a register array.
	RegisterID int
	// ValueSetID names a parser value set.
	ValueSetID int
	// DigestID names a digest (a BMv2 learn list).
	DigestID int
)

// MatchKind is how one key field is matched.
type MatchKind uint8

// The match kinds. P4's optional arrives as Ternary: the BMv2 JSON does not
// distinguish them, P4Info does.
const (
	Exact MatchKind = iota
	LPM
	Ternary
	Range
	Optional
)

var matchKindNames = [...]string{"exact", "lpm", "ternary", "range", "optional"}

// String returns the P4 name of the kind.
func (k MatchKind) String() string {
	if int(k) < len(matchKindNames) {
		return matchKindNames[k]
	}
	return "unknown"
}

// TableInfo describes a table.
type TableInfo struct {
	Name             string
	Key              []KeyField
	Actions          []ActionInfo
	Size             int       // entries the table holds at most
	Profile          ProfileID // its action profile; -1: entries have actions
	Selector         bool      // the profile selects among group members
	HasDirectCounter bool
	DirectCounter    string  // name of the direct counter; "": none, or the JSON does not say
	DirectMeter      MeterID // its direct meter; -1: none
	ConstEntries     bool    // entries come with the program and cannot change; see [Program.Opened]
	ConstDefault     bool    // the default action cannot change
	SupportsTimeout  bool
	Hidden           bool // created by the compiler; not part of the control API
}

// NeedsPriority reports whether entries of the table carry a priority.
func (t *TableInfo) NeedsPriority() bool {
	for _, k := range t.Key {
		if k.Kind == Ternary || k.Kind == Range || k.Kind == Optional {
			return true
		}
	}
	return false
}

// KeyField describes one field of a table's key.
type KeyField struct {
	Name  string
	Kind  MatchKind
	Width int // width in bits
}

// ActionInfo describes an action.
type ActionInfo struct {
	ID     ActionID
	Name   string
	Params []Param
}

// Param describes an action parameter.
type Param struct {
	Name  string
	Width int // width in bits
}

// ProfileInfo describes an action profile.
type ProfileInfo struct {
	Name     string
	Size     int  // members and groups it holds at most; 0: unlimited
	Selector bool // it is a selector: groups are allowed
	Tables   []TableID
}

// CounterInfo describes an indirect counter array. Every counter counts
// packets and bytes.
type CounterInfo struct {
	Name string
	Size int
}

// MeterInfo describes a meter array.
type MeterInfo struct {
	Name    string
	Size    int     // cells; of a direct meter, one per entry
	Packets bool    // rates and bursts are packets, else bytes
	Table   TableID // the table of a direct meter, else -1
}

// RegisterInfo describes a register array.
type RegisterInfo struct {
	Name  string
	Size  int
	Width int // width of a cell in bits
}

// ValueSetInfo describes a parser value set.
type ValueSetInfo struct {
	Name   string
	Widths []int // widths of the key fields in bits
}

// DigestInfo describes a digest.
type DigestInfo struct {
	Name   string
	Widths []int // widths of the fields in bits
}

// FieldMatch is the match on one key field. The field's kind decides which members are used: exact: Value; LPM: Value,
// PrefixLen; ternary and optional: Value, Mask (nil: all ones); range: Value, High (both inclusive). Any, for all kinds
// but exact, matches everything.
type FieldMatch struct {
	Value, Mask []byte
	PrefixLen   int
	High        []byte
	Any         bool
}
