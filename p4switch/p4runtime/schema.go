package p4runtime

import (
	"slices"
	"strings"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"

	"github.com/ethereal-fabric/ethereal/p4switch/constraints"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// schema is a P4Info connected with its program: for every P4Runtime id it returns the object and the program's
// corresponding object. It is immutable.
type schema struct {
	info *p4config.P4Info
	prog *program.Program

	tables    objects[*tableSchema]
	actions   objects[*actionSchema]
	profiles  objects[*profileSchema]
	counters  objects[*counterSchema]
	meters    objects[*meterSchema]
	registers objects[*registerSchema]
	valueSets objects[*valueSetSchema]
	digests   objects[*digestSchema]

	absent map[uint32]string // by id: objects of the P4Info that the program does not have

	referents         []*referent
	replicaReferences []reference // of every multicast replica

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

func (o *object) base() *object { return o }

// objects are the P4Info's objects of one kind that the program has.
type objects[T interface{ base() *object }] struct {
	kind string
	byID map[uint32]T
	list []T // in P4Info order, so that wildcard reads are deterministic
}

func objectsOf[T interface{ base() *object }](kind string) objects[T] {
	return objects[T]{kind: kind, byID: map[uint32]T{}}
}

func (k *objects[T]) add(o T) {
	k.byID[o.base().id] = o
	k.list = append(k.list, o)
}

// find returns the object with an id, if the role may access it.
func (k *objects[T]) find(s *schema, r *role, id uint32) (T, error) {
	o, ok := k.byID[id]
	switch {
	case ok:
		return o, r.checkOwner(k.kind, o.base())
	case id == 0:
		return o, rpc.Invalidf("%s_id is not set", strings.ReplaceAll(k.kind, " ", "_"))
	}
	return o, s.unknownID(k.kind, id)
}

// named returns the objects that a read concerns: the one with an id, or for 0 all that the role may access.
func (k *objects[T]) named(s *schema, r *role, id uint32) ([]T, error) {
	if id != 0 {
		o, err := k.find(s, r, id)
		return []T{o}, err
	}
	if r == nil {
		return k.list, nil
	}
	return slices.DeleteFunc(slices.Clone(k.list), func(o T) bool { return !r.mayAccess(o.base()) }), nil
}

type tableSchema struct {
	object
	index         int // in schema.tables.list
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
	index             int // in schema.profiles.list
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

func (a *array) cells() int { return a.size }

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
	leaves []scalar
	err    error // why it cannot be enabled
}

// headerLayout is a controller packet header: fields packed without gaps, in order, in total a multiple of eight
// bits.
type headerLayout struct {
	fields []paramSchema
	bytes  int
}
