package bound

import (
	"math"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// perByte converts bytes to b/s x ps.
const perByte = 8 * float64(fabric.Second)

// capacity is a rate that changes at times: rate[i] b/s from at[i] to at[i+1]. at begins with the smallest time.
type capacity struct {
	at   []fabric.Time
	rate []float64
}

// piece returns the number of the piece at a time.
func (c *capacity) piece(now fabric.Time) int {
	i := len(c.at) - 1
	for c.at[i] > now {
		i--
	}
	return i
}

func (c *capacity) end(piece int) fabric.Time {
	if piece+1 == len(c.at) {
		return math.MaxInt64
	}
	return c.at[piece+1]
}

// drain returns the time at which bytes that begin at start have crossed, or math.MaxInt64 if they never do.
func (c *capacity) drain(bytes int64, start fabric.Time) fabric.Time {
	return c.finish(float64(bytes)*perByte, start)
}

// finish is drain for an amount in b/s x ps.
func (c *capacity) finish(left float64, now fabric.Time) fabric.Time {
	if now == math.MaxInt64 {
		return now
	}
	for i := c.piece(now); ; i++ {
		next, rate := c.end(i), c.rate[i]
		if rate > 0 {
			if need := left / rate; next == math.MaxInt64 || now+fabric.Time(need) <= next {
				return now + fabric.Time(need)
			}
			left -= float64(next-now) * rate
		}
		if next == math.MaxInt64 {
			return next
		}
		now = next
	}
}

// amountBetween returns the amount that can cross between two times, in b/s x ps.
func (c *capacity) amountBetween(from, to fabric.Time) (sum float64) {
	for i := c.piece(from); from < to; i++ {
		next := min(to, c.end(i))
		sum += float64(next-from) * c.rate[i]
		from = next
	}
	return sum
}

// largestRate returns the largest rate from a time on.
func (c *capacity) largestRate(from fabric.Time) (rate float64) {
	for i := c.piece(from); i < len(c.rate); i++ {
		rate = max(rate, c.rate[i])
	}
	return rate
}

// grayLink is a link that loses packets by chance.
type grayLink struct {
	Outage
	fullCapacity capacity // of the link, with what it loses
	packet       float64  // the largest packet, in b/s x ps
}

// A gray link may lose fewer packets than its mean: by lossDeviations standard deviations and lossMargin packets. By
// Bernstein's inequality the probability that it loses still fewer is below 1e-12.
const (
	lossDeviations = 7.5
	lossMargin     = 20
)

// loses returns the least amount that the link loses if it is busy between two times, in b/s x ps. A link that is
// idle in between delivers no more than a busy one.
func (g *grayLink) loses(from, to fabric.Time) float64 {
	from, to = max(from, g.From), min(to, g.Until)
	if from >= to {
		return 0
	}
	sent := g.fullCapacity.amountBetween(from, to)
	n := sent / g.packet
	if n == 0 {
		return 0
	}
	return sent * max(0, g.Loss-lossDeviations*math.Sqrt(g.Loss*(1-g.Loss)/n)-lossMargin/n)
}

// grays returns the gray links among those that are hit.
func (b *cuts) grays(hit []Outage) (out []grayLink) {
	const more = 64 // bytes of a packet that the format does not count
	for _, o := range hit {
		if o.Loss > 0 {
			packet := float64(b.format.Payload+b.format.Header+more) * perByte
			out = append(out, grayLink{o, b.capacityOf([]fabric.LinkID{o.Link}, hit), packet})
		}
	}
	return out
}

// finish is like [capacity.finish], but the bytes that gray links lose have to cross the cut again. It adds the loss
// up to the previous round's result until nothing is added; each round's result is a lower bound.
func (c *cut) finish(left float64, now fabric.Time) fabric.Time {
	const rounds = 16
	done := c.fullCapacity.finish(left, now)
	for range rounds {
		lost := 0.0
		for i := range c.gray {
			lost += c.gray[i].loses(now, done)
		}
		if lost == 0 || done == math.MaxInt64 {
			break
		}
		done = c.fullCapacity.finish(left+lost, now)
	}
	return done
}

func (c *cut) drain(bytes int64, start fabric.Time) fabric.Time {
	return c.finish(float64(bytes)*perByte, start)
}
