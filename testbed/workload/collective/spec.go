package collective

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
)

// Kinds of collectives.
const (
	AllToAll      = "all-to-all"
	AllReduce     = "all-reduce"
	AllGather     = "all-gather"
	ReduceScatter = "reduce-scatter"
	Permutation   = "permutation"
	Incast        = "incast"
)

// Algorithms of a collective.
const (
	Direct              = "direct"
	HalvingDoubling     = "halving-doubling"
	WholeVectorDoubling = "whole-vector-doubling"
	Ring                = "ring"
	DoubleBinaryTree    = "double-binary-tree"
)

// ErrSpec is wrapped by every error of [Spec.Validate].
var ErrSpec = errors.New("collective: bad job")

// Algorithms returns the names of the algorithms of a kind, the default first.
// It returns nil for an unknown kind.
func Algorithms(kind string) []string {
	switch kind {
	case AllToAll, Permutation, Incast:
		return []string{Direct}
	case AllReduce:
		return []string{Direct, HalvingDoubling, WholeVectorDoubling, Ring, DoubleBinaryTree}
	case AllGather, ReduceScatter:
		return []string{Direct, HalvingDoubling, Ring}
	}
	return nil
}

// Kinds returns the names of all kinds.
func Kinds() []string {
	return []string{AllToAll, AllReduce, AllGather, ReduceScatter, Permutation, Incast}
}

// Renamed returns the remedy for a former name of an algorithm; ok is false for other names. Recursive doubling
// meant halving-doubling until there was the algorithm that exchanges whole vectors, and both are often called so.
func Renamed(algorithm string) (remedy string, ok bool) {
	if algorithm != "recursive-doubling" {
		return "", false
	}
	return "write " + HalvingDoubling + ", which it was, or " + WholeVectorDoubling +
		", an all-reduce whose ranks exchange whole vectors", true
}

// Spec describes a collective: its kind, algorithm, ranks and bytes.
type Spec struct {
	Kind      string
	Algorithm string // of the kind; empty means its default, direct
	Ranks     int    // at least 2
	// Bytes is the size of every rank's whole vector (all-reduce, all-to-all, reduce-scatter's input, all-gather's
	// output), or of a sender's only message (permutation, incast).
	Bytes int64
	Job   uint8 // part of the IDs; different for jobs of one run

	// Group is the number of ranks per group; each group carries out the operation alone; 0: all together. Its
	// ranks are Stride apart, 0 meaning 1. The seed draws the same values in all groups.
	Group, Stride int

	// Channels is the number of rings, each with its part of the data; 0 and 1: one ring in the order of the ranks.
	// Server is the number of GPUs per server, 0 meaning 1: see [rings].
	Channels, Server int

	// Shift makes a permutation send from i to i+Shift mod Ranks. 0 draws a random one in which no rank sends to
	// itself.
	Shift int
	Seed  uint64 // seed of the random permutation
	// Target is the rank to which an incast sends; Senders the number of senders, the ranks after it; 0: all
	// others.
	Target  int
	Senders int
	// Skew makes an all-to-all one of experts: see [skewed]. 0: even. Other kinds ignore it.
	Skew float64
	// Spread makes the sizes of an all-to-all's messages lognormal: the standard deviation of their logarithm, with
	// unchanged mean. 0: equal. Other kinds ignore it.
	Spread float64
}

// Validate returns the first error in s, with the field and the remedy.
func (s Spec) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrSpec, fmt.Sprintf(format, args...))
	}
	known := Algorithms(s.Kind)
	if known == nil {
		return bad("kind %q is unknown; use one of %s", s.Kind, strings.Join(Kinds(), ", "))
	}
	if remedy, renamed := Renamed(s.Algorithm); renamed {
		return bad("algorithm %q has two meanings; %s", s.Algorithm, remedy)
	}
	if s.Algorithm != "" && !slices.Contains(known, s.Algorithm) {
		return bad("%s has no algorithm %q; use one of %s", s.Kind, s.Algorithm, strings.Join(known, ", "))
	}
	if s.Ranks < 2 || s.Ranks > MaxRanks {
		return bad("ranks is %d; use 2 to %d", s.Ranks, MaxRanks)
	}
	if s.Channels != 0 {
		if s.Algorithm != Ring || s.Group != 0 {
			return bad("channels is for algorithm ring without group; remove it")
		}
		if s.Channels < 0 || s.Channels > MaxChannels {
			return bad("channels is %d; use 1 to %d", s.Channels, MaxChannels)
		}
	}
	if s.Group != 0 || s.Stride != 0 {
		if s.Group < 2 || s.Stride < 0 || s.Group > s.Ranks || s.Ranks%(s.Group*max(s.Stride, 1)) != 0 {
			return bad("group is %d with stride %d; use 2 or more, and of %d ranks a whole number of such groups", s.Group, s.Stride, s.Ranks)
		}
		return s.ofGroup().Validate()
	}
	if s.Algorithm == HalvingDoubling && bits.OnesCount(uint(s.Ranks)) != 1 {
		return bad("%s over %d ranks; halving-doubling takes a power of two", s.Kind, s.Ranks)
	}
	if least := s.leastBytes(); s.Bytes < least {
		return bad("bytes is %d; at least %d, so that no message is empty", s.Bytes, least)
	}
	if s.Shift < 0 || s.Shift >= s.Ranks {
		return bad("shift is %d; use 1 to ranks-1, or 0 for a random permutation", s.Shift)
	}
	if s.Skew < 0 || s.Skew > MaxSkew || math.IsNaN(s.Skew) {
		return bad("skew is %v; use 0 (even) to %d", s.Skew, MaxSkew)
	}
	if s.Spread < 0 || s.Spread > MaxSpread || math.IsNaN(s.Spread) {
		return bad("spread is %v; use 0 (alike) to %d", s.Spread, MaxSpread)
	}
	if s.Kind == Incast {
		if s.Target < 0 || s.Target >= s.Ranks {
			return bad("target is %d; use a rank, 0 to %d", s.Target, s.Ranks-1)
		}
		if s.Senders < 0 || s.Senders >= s.Ranks {
			return bad("senders is %d; use 1 to %d, or 0 for all", s.Senders, s.Ranks-1)
		}
	}
	return nil
}

// BusBytes returns the bytes by which nccl-tests divides a collective's time for its bus bandwidth: what each rank has
// to send whatever the algorithm. 0: nccl-tests has no such collective.
func (s Spec) BusBytes() float64 {
	n := s.Ranks
	if s.Group != 0 {
		n = s.Group
	}
	share := float64(n-1) / float64(n)
	switch {
	case s.Kind == AllReduce:
		return 2 * share * float64(s.Bytes)
	case s.Kind == AllGather, s.Kind == ReduceScatter, s.Kind == AllToAll && s.Skew == 0 && s.Spread == 0:
		return share * float64(s.Bytes)
	case s.Kind == Permutation: // sendrecv
		return float64(s.Bytes)
	case s.Kind == Incast && (s.Senders == 0 || s.Senders == n-1): // gather
		return float64(n-1) * float64(s.Bytes)
	}
	return 0
}

func (s Spec) leastBytes() int64 {
	switch {
	case s.Kind == Permutation || s.Kind == Incast || s.Algorithm == WholeVectorDoubling:
		return 1
	case s.Algorithm == DoubleBinaryTree:
		return 2
	}
	return int64(s.Ranks) * int64(max(1, s.Channels))
}

// MaxChannels is the largest number of rings, NCCL's.
const MaxChannels = 64

// ofGroup returns the spec of each group.
func (s Spec) ofGroup() Spec {
	s.Ranks, s.Group, s.Stride = s.Group, 0, 0
	return s
}

// plan returns the schedule of a valid spec.
func (s Spec) plan() plan {
	if s.Group != 0 {
		return grouped{s.ofGroup().plan(), s.Group, max(s.Stride, 1)}
	}
	n, share := s.Ranks, s.Bytes/int64(s.Ranks)
	// The two halves of an all-reduce are separate collectives.
	scatter, gather := true, true
	switch s.Kind {
	case AllGather:
		scatter = false
	case ReduceScatter:
		gather = false
	case AllToAll:
		if s.Skew != 0 || s.Spread != 0 {
			return steps{s.skewed()}
		}
		return steps{direct{ranks: n, bytes: share, phases: 1}}
	case Permutation:
		return steps{permutation{to: s.permutation(), bytes: s.Bytes}}
	case Incast:
		senders := s.Senders
		if senders == 0 {
			senders = n - 1
		}
		return steps{incast{ranks: n, target: s.Target, senders: senders, bytes: s.Bytes}}
	}
	phases := 1
	if scatter && gather {
		phases = 2
	}
	switch s.Algorithm {
	case HalvingDoubling:
		return steps{halving{rounds: bits.Len(uint(n)) - 1, bytes: s.Bytes, scatter: scatter, gather: gather}}
	case WholeVectorDoubling:
		return steps{newDoubling(n, s.Bytes)}
	case Ring:
		if s.Channels > 1 {
			one := ring{ranks: n, bytes: s.Bytes / int64(s.Channels) / int64(n), rounds: phases}
			return rings{ring: one, channels: s.Channels, server: max(1, s.Server)}
		}
		return steps{ring{ranks: n, bytes: share, rounds: phases}}
	case DoubleBinaryTree:
		return trees{ranks: n, bytes: [2]int64{s.Bytes - s.Bytes/2, s.Bytes / 2}}
	}
	return steps{direct{ranks: n, bytes: share, phases: phases}}
}

// permutation returns the receiver of each rank, drawn evenly from the permutations without a fixed point unless a
// shift is given.
func (s Spec) permutation() []int {
	to := make([]int, s.Ranks)
	for i := range to {
		to[i] = (i + s.Shift) % s.Ranks
	}
	if s.Shift != 0 {
		return to
	}
	rng := rand.New(rand.NewPCG(s.Seed, 0x7065726d7574)) // "permut"
	for {
		rng.Shuffle(len(to), func(i, j int) { to[i], to[j] = to[j], to[i] })
		fixed := false
		for i, t := range to {
			fixed = fixed || i == t
		}
		if !fixed { // one draw in e on average
			return to
		}
	}
}
