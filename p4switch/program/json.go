package program

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
)

// The JSON as p4c writes it (BMv2's docs/JSON_format.md, version 2.x).

type jProgram struct {
	Meta *struct {
		Version []int `json:"version"`
	} `json:"__meta__"`
	HeaderTypes       []jHeaderType   `json:"header_types"`
	Headers           []jHeader       `json:"headers"`
	HeaderStacks      []jStack        `json:"header_stacks"`
	HeaderUnionTypes  []jUnionType    `json:"header_union_types"`
	HeaderUnions      []jUnion        `json:"header_unions"`
	HeaderUnionStacks []jUnionStack   `json:"header_union_stacks"`
	FieldLists        []jFieldList    `json:"field_lists"`
	Errors            []jPair         `json:"errors"`
	Parsers           []jParser       `json:"parsers"`
	ParseVsets        []jParseVset    `json:"parse_vsets"`
	Deparsers         []jDeparser     `json:"deparsers"`
	MeterArrays       []jMeter        `json:"meter_arrays"`
	CounterArrays     []jCounter      `json:"counter_arrays"`
	RegisterArrays    []jRegister     `json:"register_arrays"`
	Calculations      []jCalc         `json:"calculations"`
	LearnLists        []jFieldList    `json:"learn_lists"`
	Actions           []jAction       `json:"actions"`
	Pipelines         []jPipeline     `json:"pipelines"`
	Checksums         []jChecksum     `json:"checksums"`
	ExternInstances   []jNamed        `json:"extern_instances"`
	FieldAliases      [][]jRaw        `json:"field_aliases"`
	ForceArith        json.RawMessage `json:"force_arith"`
}

type jRaw = json.RawMessage

type jNamed struct {
	Name string `json:"name"`
	ID   int    `json:"id"`
	Type string `json:"type"`
}

type jPair [2]jRaw

type jHeaderType struct {
	Name      string   `json:"name"`
	ID        int      `json:"id"`
	Fields    [][]jRaw `json:"fields"`
	LengthExp *jVal    `json:"length_exp"`
	MaxLength int      `json:"max_length"` // bytes
}

type jHeader struct {
	Name       string `json:"name"`
	ID         int    `json:"id"`
	HeaderType string `json:"header_type"`
	Metadata   bool   `json:"metadata"`
}

type jStack struct {
	Name       string `json:"name"`
	HeaderType string `json:"header_type"`
	HeaderIDs  []int  `json:"header_ids"`
}

type jUnionType struct {
	Name    string      `json:"name"`
	Headers [][2]string `json:"headers"`
}

type jUnion struct {
	Name      string `json:"name"`
	ID        int    `json:"id"`
	UnionType string `json:"union_type"`
	HeaderIDs []int  `json:"header_ids"`
}

type jUnionStack struct {
	Name      string `json:"name"`
	UnionType string `json:"union_type"`
	UnionIDs  []int  `json:"header_union_ids"`
}

type jFieldList struct {
	ID       int    `json:"id"`
	Name     string `json:"name"`
	Elements []jVal `json:"elements"`
}

type jParser struct {
	Name      string   `json:"name"`
	InitState string   `json:"init_state"`
	States    []jState `json:"parse_states"`
}

type jState struct {
	Name        string        `json:"name"`
	Ops         []jParserOp   `json:"parser_ops"`
	Transitions []jTransition `json:"transitions"`
	Key         []jVal        `json:"transition_key"`
}

type jParserOp struct {
	Op         string `json:"op"`
	Parameters []jRaw `json:"parameters"`
}

type jTransition struct {
	Type      string  `json:"type"`
	Value     *string `json:"value"`
	Mask      *string `json:"mask"`
	NextState *string `json:"next_state"`
}

type jParseVset struct {
	Name  string `json:"name"`
	Width int    `json:"compressed_bitwidth"`
}

type jDeparser struct {
	Name       string       `json:"name"`
	Order      []string     `json:"order"`
	Primitives []jPrimitive `json:"primitives"`
}

type jMeter struct {
	Name         string   `json:"name"`
	Type         string   `json:"type"`
	RateCount    int      `json:"rate_count"`
	Size         int      `json:"size"`
	IsDirect     bool     `json:"is_direct"`
	Binding      string   `json:"binding"`
	ResultTarget []string `json:"result_target"`
}

type jCounter struct {
	Name     string `json:"name"`
	Size     int    `json:"size"`
	IsDirect bool   `json:"is_direct"`
	Binding  string `json:"binding"`
}

type jRegister struct {
	Name     string `json:"name"`
	Size     int    `json:"size"`
	Bitwidth int    `json:"bitwidth"`
}

type jCalc struct {
	Name  string `json:"name"`
	Algo  string `json:"algo"`
	Input []jVal `json:"input"`
}

type jAction struct {
	Name        string `json:"name"`
	ID          int    `json:"id"`
	RuntimeData []struct {
		Name     string `json:"name"`
		Bitwidth int    `json:"bitwidth"`
	} `json:"runtime_data"`
	Primitives []jPrimitive `json:"primitives"`
}

type jPrimitive struct {
	Op         string      `json:"op"`
	Parameters []jVal      `json:"parameters"`
	Source     *jSourcePos `json:"source_info"`
}

type jSourcePos struct {
	Filename string `json:"filename"`
	Line     int    `json:"line"`
	Fragment string `json:"source_fragment"`
}

type jPipeline struct {
	Name         string         `json:"name"`
	InitTable    *string        `json:"init_table"`
	Tables       []jTable       `json:"tables"`
	Profiles     []jProfile     `json:"action_profiles"`
	Conditionals []jConditional `json:"conditionals"`
	ActionCalls  []jActionCall  `json:"action_calls"`
}

type jTable struct {
	Name           string             `json:"name"`
	Key            []jKey             `json:"key"`
	MatchType      string             `json:"match_type"`
	Type           string             `json:"type"`
	ActionProfile  string             `json:"action_profile"`
	ActProfName    string             `json:"act_prof_name"`
	Selector       *jSelector         `json:"selector"`
	MaxSize        int                `json:"max_size"`
	WithCounters   bool               `json:"with_counters"`
	SupportTimeout bool               `json:"support_timeout"`
	DirectMeters   *string            `json:"direct_meters"`
	ActionIDs      []int              `json:"action_ids"`
	Actions        []string           `json:"actions"`
	BaseNext       *string            `json:"base_default_next"`
	NextTables     map[string]*string `json:"next_tables"`
	DefaultEntry   *struct {
		ActionID    int      `json:"action_id"`
		ActionConst bool     `json:"action_const"`
		ActionData  []string `json:"action_data"`
		EntryConst  bool     `json:"action_entry_const"`
	} `json:"default_entry"`
	Entries []struct {
		MatchKey []struct {
			MatchType string `json:"match_type"`
			Key       jRaw   `json:"key"`
			Mask      string `json:"mask"`
			PrefixLen int    `json:"prefix_length"`
			Start     string `json:"start"`
			End       string `json:"end"`
		} `json:"match_key"`
		ActionEntry struct {
			ActionID   int      `json:"action_id"`
			ActionData []string `json:"action_data"`
		} `json:"action_entry"`
		Priority int `json:"priority"`
	} `json:"entries"`
}

type jKey struct {
	MatchType string  `json:"match_type"`
	Name      string  `json:"name"`
	Target    jRaw    `json:"target"`
	Mask      *string `json:"mask"`
}

type jSelector struct {
	Algo  string `json:"algo"`
	Input []jVal `json:"input"`
}

type jProfile struct {
	Name     string     `json:"name"`
	MaxSize  int        `json:"max_size"`
	Selector *jSelector `json:"selector"`
}

type jConditional struct {
	Name       string  `json:"name"`
	Expression jVal    `json:"expression"`
	TrueNext   *string `json:"true_next"`
	FalseNext  *string `json:"false_next"`
}

type jActionCall struct {
	Name     string  `json:"name"`
	ActionID int     `json:"action_id"`
	NextNode *string `json:"next_node"`
}

type jChecksum struct {
	Name        string   `json:"name"`
	Target      []string `json:"target"`
	Type        string   `json:"type"`
	Calculation string   `json:"calculation"`
	Verify      *bool    `json:"verify"`
	Update      *bool    `json:"update"`
	IfCond      *jVal    `json:"if_cond"`
}

// jVal is the "type value object" of the format.
type jVal struct {
	Type     string `json:"type"`
	Value    jRaw   `json:"value"`
	Bitwidth int    `json:"bitwidth"`

	// of expressions that carry the operation directly
	Op    string `json:"op"`
	Left  *jVal  `json:"left"`
	Right *jVal  `json:"right"`
	Cond  *jVal  `json:"cond"`

	num   int   // a bare number, as the right side of access_field is
	inner *jVal // the value, of an expression
}

// isNull reports whether the operand is JSON null or absent.
func (v *jVal) isNull() bool { return v == nil || (v.Type == "" && v.Op == "") }

// str returns the value as a string.
func (v *jVal) str() (string, error) {
	s, err := text(v.Value)
	if err != nil {
		return "", fmt.Errorf("program: value %.60s of a %q operand is not a string", v.Value, v.Type)
	}
	return s, nil
}

// strs returns the value as n strings.
func (v *jVal) strs(n int) ([]string, error) {
	var s []string
	if err := json.Unmarshal(v.Value, &s); err != nil || len(s) != n {
		return nil, fmt.Errorf("program: value %.60s of a %q operand is not %d strings", v.Value, v.Type, n)
	}
	return s, nil
}

// int returns the value as an integer.
func (v *jVal) int() (int, error) {
	var n int
	if err := json.Unmarshal(v.Value, &n); err != nil {
		return 0, fmt.Errorf("program: value %.60s of a %q operand is not an integer", v.Value, v.Type)
	}
	return n, nil
}

// parseHex reads a hexadecimal constant, with or without 0x, perhaps negative.
func parseHex(s string) (*big.Int, error) {
	t, neg := strings.CutPrefix(s, "-")
	t = strings.TrimPrefix(strings.TrimPrefix(t, "0x"), "0X")
	if len(t) == 0 || len(t) > 1<<16 {
		return nil, fmt.Errorf("program: %.40q is not a hexadecimal constant", s)
	}
	n, ok := new(big.Int).SetString(t, 16)
	if !ok || n.Sign() < 0 {
		return nil, fmt.Errorf("program: %.40q is not a hexadecimal constant", s)
	}
	if neg {
		n.Neg(n)
	}
	return n, nil
}
