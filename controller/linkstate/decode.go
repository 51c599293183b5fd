package linkstate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openconfig/gnmi/proto/gnmi"

	"github.com/ethereal-fabric/ethereal/controller/targets"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// ErrNotification is wrapped by the errors of [Decode].
var ErrNotification = errors.New("linkstate: bad notification")

// Kind is the kind of an [Event].
type Kind uint8

// The kinds.
const (
	Down    Kind = iota
	Up           // the port's oper-status is UP
	Gone         // the interface is no longer there
	AllGone      // all interfaces are gone; the event names no port
	Speed        // the port's speed is Event.Rate
)

func (k Kind) String() string { return [...]string{"down", "up", "gone", "all gone", "speed"}[k] }

// Event is a change of one port in a gNMI notification.
type Event struct {
	Port fabric.PortNo
	Kind Kind
	// TimeNs is when it happened, in ns of the switch's clock.
	TimeNs int64
	Rate   fabric.Rate // the new speed, for kind Speed; 0: the switch does not know it
}

// operStatuses are the values of oper-status and whether the port carries packets.
var operStatuses = map[string]Kind{
	"UP": Up, "DOWN": Down, "TESTING": Down, "UNKNOWN": Down,
	"DORMANT": Down, "NOT_PRESENT": Down, "LOWER_LAYER_DOWN": Down,
}

// Decode returns a notification's reports about ports, deletions first, as gNMI orders them. It skips paths without
// oper-status, and interfaces that are no ports. names maps interfaces to ports; nil is [ParsePort]. For a speed
// that is not openconfig's, it returns an error and the other events; for any other error, no events.
func Decode(n *gnmi.Notification, names *targets.PortMap) ([]Event, error) {
	var out []Event
	var odd error // an unknown speed, which must not hide a port's state
	for _, d := range n.GetDelete() {
		name, rest, ok := splitInterfacePath(n.GetPrefix(), d)
		if !ok || !isAncestor(rest, []string{"state", "oper-status"}) {
			continue
		}
		if name == "" || name == "*" {
			out = append(out, Event{Kind: AllGone, TimeNs: n.GetTimestamp()})
		} else if p, ok := names.ByName(name); ok {
			out = append(out, Event{Port: p, Kind: Gone, TimeNs: n.GetTimestamp()})
		}
	}
	for _, u := range n.GetUpdate() {
		name, rest, ok := splitInterfacePath(n.GetPrefix(), u.GetPath())
		if !ok || name == "" {
			continue
		}
		p, ok := names.ByName(name)
		if !ok {
			continue
		}
		if rate, ok, err := decodeSpeed(u, rest); err != nil {
			odd = fmt.Errorf("%w: port-speed of %s: %w", ErrNotification, name, err)
		} else if ok {
			out = append(out, Event{Port: p, Kind: Speed, TimeNs: n.GetTimestamp(), Rate: rate})
		}
		if !isAncestor(rest, []string{"state", "oper-status"}) {
			continue
		}
		status, ok, err := decodeValue(u.GetVal(), []string{"state", "oper-status"}[len(rest):])
		if err != nil {
			return nil, fmt.Errorf("%w: oper-status of %s: %w", ErrNotification, name, err)
		}
		if !ok {
			continue // a container without oper-status
		}
		kind, ok := operStatuses[strings.ToUpper(status)]
		if !ok {
			return nil, fmt.Errorf("%w: oper-status of %s: %q is none of UP, DOWN, TESTING, UNKNOWN, DORMANT, NOT_PRESENT, LOWER_LAYER_DOWN",
				ErrNotification, name, status)
		}
		out = append(out, Event{Port: p, Kind: kind, TimeNs: n.GetTimestamp()})
	}
	return out, odd
}

// splitInterfacePath returns the interface of a path below a prefix, and the rest of the path. name is empty for a path
// that ends above the list's keys.
func splitInterfacePath(prefix, path *gnmi.Path) (name string, rest []string, ok bool) {
	elems := make([]*gnmi.PathElem, 0, len(prefix.GetElem())+len(path.GetElem()))
	elems = append(append(elems, prefix.GetElem()...), path.GetElem()...)
	for i, want := range []string{"interfaces", "interface"} {
		if i == len(elems) {
			return "", nil, true
		}
		if withoutModule(elems[i].GetName()) != want {
			return "", nil, false
		}
	}
	name = elems[1].GetKey()["name"]
	for _, e := range elems[2:] {
		rest = append(rest, withoutModule(e.GetName()))
	}
	return name, rest, true
}

// withoutModule removes a YANG module's name.
func withoutModule(name string) string {
	if _, after, ok := strings.Cut(name, ":"); ok {
		return after
	}
	return name
}

// isAncestor reports whether path leads to an ancestor of leaf, or to leaf itself.
func isAncestor(path, leaf []string) bool {
	if len(path) > len(leaf) {
		return false
	}
	for i := range path {
		if path[i] != leaf[i] {
			return false
		}
	}
	return true
}

// decodeValue returns the string at the end of the path below v. ok is false if v is a container without it.
func decodeValue(v *gnmi.TypedValue, path []string) (_ string, ok bool, err error) {
	var raw []byte
	switch x := v.GetValue().(type) {
	case *gnmi.TypedValue_StringVal:
		return leafName(x.StringVal, path)
	case *gnmi.TypedValue_AsciiVal:
		return leafName(strings.TrimSpace(x.AsciiVal), path)
	case *gnmi.TypedValue_JsonIetfVal:
		raw = x.JsonIetfVal
	case *gnmi.TypedValue_JsonVal:
		raw = x.JsonVal
	case nil:
		return "", false, errors.New("no value")
	default:
		return "", false, fmt.Errorf("a value of type %T; JSON_IETF, JSON, PROTO and ASCII strings are understood", x)
	}
	for _, name := range path {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			return "", false, fmt.Errorf("%.40q is not a JSON object: %w", raw, err)
		}
		raw = nil
		for k, x := range object {
			if withoutModule(k) == name {
				raw = x
			}
		}
		if raw == nil {
			return "", false, nil
		}
	}
	var s string
	if err := json.Unmarshal(bytes.TrimSpace(raw), &s); err != nil {
		return "", false, fmt.Errorf("%.40q is not a JSON string: %w", raw, err)
	}
	return withoutModule(s), true, nil
}

func leafName(s string, path []string) (string, bool, error) {
	if len(path) > 0 {
		return "", false, fmt.Errorf("the string %.40q where a container belongs", s)
	}
	return withoutModule(s), true, nil
}

// decodeSpeed returns the speed of a port in an update. ok is false if there is none.
func decodeSpeed(u *gnmi.Update, rest []string) (rate fabric.Rate, ok bool, err error) {
	if len(rest) == 0 || !isAncestor(rest, speedPath) {
		return 0, false, nil
	}
	name, ok, err := decodeValue(u.GetVal(), speedPath[len(rest):])
	if err == nil && ok {
		rate, err = fabric.ParseSpeed(name)
	}
	return rate, ok, err
}
