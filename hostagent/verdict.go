package hostagent

// Verdict is the result of [Core.Quench].
type Verdict uint8

// Verdicts. All but Believed leave the core unchanged.
const (
	Believed    Verdict = iota
	Known               // the port's link is dead already
	Stale               // an event older than one that this agent knows, or undone since
	NotOurs             // no such host, or the port is on no path used to it; of a notice: on none of this host's paths
	NoChoice            // the port leads to a host: there is no other path
	BadEpoch            // too far ahead of earlier epochs
	Unconfirmed         // the controller did not confirm earlier quenches about this link
	RateLimited         // too many were believed in a short time
)

func (v Verdict) String() string {
	return [...]string{"believed", "known", "stale", "not-ours", "no-choice", "bad-epoch", "unconfirmed", "rate-limited"}[v]
}
