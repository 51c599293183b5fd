// Package packettrace writes the traces of packets through a switch, for programs and for people.
package packettrace

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
)

// trace is a p4.bm.PacketTrace of BMv2 1.15.5 in protobuf's JSON. Readers of that message know copy_of, time_ns and the
// events but pipeline_stage as unknown fields.
type trace struct {
	Input  input  `json:"input"`
	CopyOf uint64 `json:"copy_of,omitempty"`
	Time   int64  `json:"time_ns"`
	Root   tree   `json:"root"`
}

type input struct {
	ID   uint64 `json:"packet_id"`
	Port uint32 `json:"ingress_port"`
}

type tree struct {
	Events   []event   `json:"events"`
	Transmit *transmit `json:"transmit,omitempty"`
	Drop     *drop     `json:"drop,omitempty"`
}

type transmit struct {
	Port uint32 `json:"egress_port"`
	Size int    `json:"packet_size"`
}

type drop struct {
	Reason string `json:"reason"`
}

type event struct {
	Stage  *stage       `json:"pipeline_stage,omitempty"`
	State  *namedObject `json:"parser_state,omitempty"`
	Error  *codedEvent  `json:"parser_error,omitempty"`
	Lookup *lookup      `json:"table_lookup,omitempty"`
	Again  *namedObject `json:"again,omitempty"`
	Cut    *truncation  `json:"truncated,omitempty"`
}

type stage struct {
	Name      string `json:"stage_name"`
	Kind      string `json:"stage_kind"`
	Direction string `json:"direction"`
}

type namedObject struct {
	Name string `json:"name"`
}

type truncation struct{}

type codedEvent struct {
	Code uint64 `json:"code"`
}

type lookup struct {
	Table  string `json:"table_name"`
	Hit    bool   `json:"hit"`
	Action string `json:"action_name,omitempty"`
}

var kinds = map[string]string{"parser": "PARSER", "ingress": "CONTROL", "egress": "CONTROL", "deparser": "DEPARSER"}

// WriteJSON writes a packet's record as one line of JSON.
func WriteJSON(w io.Writer, t *interp.PacketTrace) error {
	out := trace{Input: input{t.ID, t.Port}, CopyOf: t.CopyOf, Time: t.Now, Root: tree{Events: []event{}}}
	for _, e := range t.Events {
		var x event
		switch e.Kind {
		case interp.StageEnter:
			x.Stage = &stage{e.Name, kinds[e.Name], "ENTER"}
		case interp.StageExit:
			x.Stage = &stage{e.Name, kinds[e.Name], "EXIT"}
		case interp.ParserState:
			x.State = &namedObject{e.Name}
		case interp.ParserError:
			x.Error = &codedEvent{e.Code}
		case interp.TableLookup:
			x.Lookup = &lookup{e.Name, e.Hit, e.Action}
		case interp.Again:
			x.Again = &namedObject{e.Name}
		case interp.Truncated:
			x.Cut = &truncation{}
		}
		out.Root.Events = append(out.Root.Events, x)
	}
	switch {
	case t.Sent != nil:
		out.Root.Transmit = &transmit{t.Sent.Port, t.Sent.Length}
	case !t.Copied:
		out.Root.Drop = &drop{t.Drop.String()}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// Text is a trace in one line, as in
//
//	port 1: parser start; ingress: ipv4_lpm hit forward; egress; out of port 2, 60 bytes
func Text(t *interp.PacketTrace) string {
	var b strings.Builder
	fmt.Fprintf(&b, "port %d", t.Port)
	sep := ": "
	for _, e := range t.Events {
		switch e.Kind {
		case interp.StageEnter:
			if e.Name != "deparser" {
				fmt.Fprintf(&b, "%s%s", sep, e.Name)
				sep = " "
			}
			continue
		case interp.StageExit:
			sep = "; "
			continue
		case interp.ParserState:
			b.WriteString(sep + e.Name)
		case interp.ParserError:
			fmt.Fprintf(&b, "%serror %d", sep, e.Code)
		case interp.TableLookup:
			fmt.Fprintf(&b, "%s%s %s", sep, e.Name, map[bool]string{true: "hit", false: "miss"}[e.Hit])
			if e.Action != "" {
				b.WriteString(" " + e.Action)
			}
			sep = ", "
			continue
		case interp.Again:
			b.WriteString(sep + e.Name)
			sep = "; "
			continue
		case interp.Truncated:
			b.WriteString(sep + "...")
		}
		sep = " "
	}
	switch {
	case t.Sent != nil:
		fmt.Fprintf(&b, "; out of port %d, %d bytes", t.Sent.Port, t.Sent.Length)
	case t.Copied:
		b.WriteString("; multicast")
	default:
		fmt.Fprintf(&b, "; dropped: %s", t.Drop)
	}
	return b.String()
}
