package collective

// rings are several rings, the channels of NCCL, each with its part of the data and in its own steps. Step s of channel
// c is step s*channels+c of the collective. In every server a channel enters at another GPU and leaves from the one
// before it, so that all GPUs' interfaces carry traffic between servers.
type rings struct {
	ring     // of each channel
	channels int
	server   int // number of GPUs of a server
}

func (r rings) steps() int { return r.ring.steps() * r.channels }

// place returns a rank's place in a channel's ring.
func (r rings) place(channel, rank int) int {
	first := channel % r.server
	return rank - rank%r.server + (rank%r.server-first+r.server)%r.server
}

// at is the inverse of place.
func (r rings) at(channel, place int) int {
	return place - place%r.server + (place%r.server+channel%r.server)%r.server
}

func (r rings) sends(rank, step int, emit func(dst int, bytes int64)) {
	channel := step % r.channels
	emit(r.at(channel, (r.place(channel, rank)+1)%r.ranks), r.bytes)
}

func (r rings) messageCounts(int) (in, out int) { return r.steps(), r.steps() }

func (r rings) levels() int         { return r.steps() + r.channels }
func (r rings) awaits(step int) int { return step + r.channels }

func (r rings) previous(_, level int) int {
	if level < r.channels {
		return noLevel
	}
	return level - r.channels
}

func (r rings) begin(ranks int) progress {
	p := ringsProgress{r, make([]progress, r.channels)}
	for c := range p.each {
		p.each[c] = steps{r.ring}.begin(ranks)
	}
	return p
}

// ringsProgress is the state of every channel.
type ringsProgress struct {
	plan rings
	each []progress
}

func (p ringsProgress) start(rank int, post func(rank, step int)) {
	for c := range p.each {
		p.each[c].start(rank, p.poster(c, post))
	}
}

func (p ringsProgress) received(rank, src, step int, post func(rank, step int)) {
	c := step % p.plan.channels
	p.each[c].received(rank, src, step/p.plan.channels, p.poster(c, post))
}

func (p ringsProgress) poster(channel int, post func(rank, step int)) func(rank, step int) {
	return func(rank, step int) { post(rank, step*p.plan.channels+channel) }
}
