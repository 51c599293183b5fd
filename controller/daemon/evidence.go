package daemon

// Verdict is the controller's conclusion about whether a switch works, from its sessions and its neighbours' ports.
type Verdict uint8

// The verdicts.
const (
	Alive    Verdict = iota // it has at least one open session
	CutOff                  // no open session, but a neighbour reports its port up
	Dead                    // no open session, and all reporting neighbours report their ports to it down
	NotKnown                // no open session, and no reporting neighbour
)

func (v Verdict) String() string {
	return [...]string{"alive", "cut off", "dead", "not known"}[v]
}

// MarshalText prints the verdict.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Witness is the state of one of a switch's links according to the switch or host at its other end.
type Witness struct {
	Reporting bool // the other end's port states are up to date
	Up        bool
}

// JudgeSwitch concludes, for a switch without a session, whether it is dead or only unreachable for the controller.
func JudgeSwitch(witnesses []Witness) Verdict {
	v := NotKnown
	for _, w := range witnesses {
		switch {
		case w.Reporting && w.Up:
			v = CutOff
		case w.Reporting && v == NotKnown:
			v = Dead
		}
	}
	return v
}
