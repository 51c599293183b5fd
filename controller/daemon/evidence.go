package daemon

// Verdict is what is to be thought of a switch.
type Verdict uint8

// The verdicts.
const (
	Alive    Verdict = iota // at least one session to it lives
	CutOff                  // no session lives, but a neighbour sees its port up
	Dead                    // no session lives, and no neighbour that says anything sees a port of it up
	NotKnown                // no session lives, and no neighbour says anything
)

func (v Verdict) String() string {
	return [...]string{"alive", "cut off", "dead", "not known"}[v]
}

// MarshalText prints the verdict.
func (v Verdict) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Witness is what the other end of one of a switch's links says of the link.
type Witness struct {
	Reporting bool // its port states can be believed
	Up        bool
}

// Judge distinguishes a dead switch from one that is only cut off from the controller. The controller has no session
// to either.
func Judge(witnesses []Witness) Verdict {
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
