package p4runtime

import (
	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"

	"github.com/ethereal-fabric/ethereal/p4switch/constraints"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// schema is a P4Info connected with its program: for every P4Runtime id it returns the object and the program's
// corresponding object. It is immutable.
type schema struct {
	info *p4config.P4Info
	prog *program.Program

	tables    map[uint32]*tableSchema
	actions   map[uint32]*actionSchema
	profiles  map[uint32]*profileSchema
	counters  map[uint32]*counterSchema
	meters    map[uint32]*meterSchema
	registers map[uint32]*registerSchema
	valueSets map[uint32]*valueSetSchema
	digests   map[uint32]*digestSchema

	// In P4Info order, so that wildcard reads are deterministic.
	tableList    []*tableSchema
	profileList  []*profileSchema
	counterList  []*counterSchema
	meterList    []*meterSchema
	registerList []*registerSchema
	valueSetList []*valueSetSchema
	digestList   []*digestSchema

	absent map[uint32]string // by id: objects of the P4Info that the program does not have

	referents  []*referent
	ofReplicas []reference // of every multicast replica

	packetIn, packetOut *headerLayout // nil: the program declares none

	nameTypes map[string]*nameType // types that are translated to strings
	portNames *nameType            // that of ports; nil: ports have numbers
}

// object is the common part of all P4Info objects.
type object struct {
	id   uint32
	name string
	role string // of an @p4runtime_role annotation; "": any role
}

type tableSchema struct {
	object
	index         int // in tableList
	tid           program.TableID
	fields        []*fieldSchema // in P4Info order
	fieldByID     map[uint32]int
	keyLen        int // number of the program's key fields
	needsPriority bool
	actions       map[uint32]*actionRef
	actionByBMv2  map[program.ActionID]uint32
	size          int64
	constTable    bool
	constDefault  bool
	idleTimeout   bool
	profile       *profileSchema          // nil: direct actions
	directCounter uint32                  // P4Info id, 0: none
	directMeter   *meterSchema            // nil: none
	restriction   *constraints.Constraint // nil: none
	references    map[uint32][]reference  // by action; of 0 those of entries that name no action
}

// fieldSchema is one field of a key, of a table or a value set.
type fieldSchema struct {
	id    uint32
	name  string
	match p4config.MatchField_MatchType
	kind  program.MatchKind // the program's match kind
	pos   int               // of the program's key fields
	width int               // largest number of bits of a value
	named *nameType         // nil: it is a number
}

type actionRef struct {
	*actionSchema
	aid   program.ActionID
	scope p4config.ActionRef_Scope
}

type actionSchema struct {
	object
	params    []*paramSchema
	paramByID map[uint32]int

	restriction *constraints.Constraint // nil: none
	references  []reference             // of the parameters alone
}

type paramSchema struct {
	id    uint32
	name  string
	width int       // bits
	named *nameType // nil: it is a number
}

type profileSchema struct {
	object
	index             int // in profileList
	pid               program.ProfileID
	selector          bool
	size              int64
	maxGroupSize      int32
	sumOfMembers      bool
	maxMemberWeight   int32
	weightsDisallowed bool
	actions           map[uint32]*actionRef // those of its tables
	tables            []*tableSchema
}

// array is the common part of counters, meters and registers.
type array struct {
	object
	size int // 0 of a direct meter
}

func (a *array) base() *array { return a }

type counterSchema struct {
	array
	cid program.CounterID
}

type meterSchema struct {
	array
	mid  program.MeterID
	kind p4config.MeterSpec_Type
}

type registerSchema struct {
	array
	rid  program.RegisterID
	spec *p4config.P4DataTypeSpec
}

type valueSetSchema struct {
	object
	vid       program.ValueSetID
	size      int
	fields    []*fieldSchema
	fieldByID map[uint32]int
}

type digestSchema struct {
	object
	dids   []program.DigestID // the compiler makes one of each call of digest
	spec   *p4config.P4DataTypeSpec
	leaves []leaf
	err    error // why it cannot be enabled
}

// headerLayout is a controller packet header: fields packed without gaps, in order, in total a multiple of eight
// bits.
type headerLayout struct {
	fields []paramSchema
	bytes  int
}
