package sim

import (
	"math/rand/v2"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// gray is a direction that loses packets by chance.
type gray struct {
	rng  *rand.Rand
	loss float64
}

func (g *gray) drops() bool { return g.rng.Float64() < g.loss }

// Lose makes a direction lose each packet with a probability of 0 to 1, drawn by
// the seed and the direction. It is lost when it is sent, and counted as after a
// [Network.Cut]. 0 ends it.
func (n *Network) Lose(dir LinkDir, probability float64, seed uint64) {
	d := &n.dirs[dir]
	if probability <= 0 {
		d.gray = nil
		return
	}
	d.gray = &gray{rand.New(rand.NewPCG(seed, uint64(dir))), probability}
}

// SetRate changes the rate of a direction, for packets that begin to be sent
// from now on. 0 gives it back the rate that the fabric says.
func (n *Network) SetRate(dir LinkDir, rate fabric.Rate) {
	d := &n.dirs[dir]
	if rate <= 0 {
		rate = n.fab.Link(dir.Link()).Rate
	}
	d.rate, d.perByte = rate, perByte(rate)
}

// Rate returns the rate of a direction.
func (n *Network) Rate(dir LinkDir) fabric.Rate { return n.dirs[dir].rate }

// perByte returns the serialisation per byte at a rate, 0 if that is not a whole
// number of picoseconds.
func perByte(rate fabric.Rate) fabric.Time {
	const atOneBit = 8 * fabric.Rate(fabric.Second) // ps per byte at 1 b/s
	if atOneBit%rate != 0 {
		return 0
	}
	return fabric.Time(atOneBit / rate)
}
