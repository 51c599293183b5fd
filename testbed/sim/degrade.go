package sim

import (
	"math/rand/v2"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// grayDirection is a direction that loses packets by chance.
type grayDirection struct {
	rng  *rand.Rand
	loss float64
}

func (g *grayDirection) drops() bool { return g.rng.Float64() < g.loss }

// Lose makes a direction lose each packet with a probability of 0 to 1, by a random sequence of the seed and the
// direction. A packet is lost when it is sent, and counted as after a [Network.Cut]. 0 ends it.
func (n *Network) Lose(dir LinkDir, probability float64, seed uint64) {
	d := &n.dirs[dir]
	if probability <= 0 {
		d.gray = nil
		return
	}
	d.gray = &grayDirection{rand.New(rand.NewPCG(seed, uint64(dir))), probability}
}

// SetRate changes the rate of a direction, for packets sent from now on. 0 restores the fabric's rate.
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
