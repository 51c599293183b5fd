package collective

// grouped runs one plan in each group of ranks. The ranks of a group are a stride apart: with stride 1 they are
// neighbours; with the number of a ToR's hosts there is one under each ToR.
type grouped struct {
	plan   // of one group
	size   int
	stride int
}

// local returns a rank's group, and its number in the group.
func (g grouped) local(rank int) (group, i int) {
	block := rank / (g.size * g.stride)
	return block*g.stride + rank%g.stride, rank / g.stride % g.size
}

// global is the inverse of local.
func (g grouped) global(group, i int) int {
	return (group/g.stride*g.size+i)*g.stride + group%g.stride
}

func (g grouped) sends(rank, step int, emit func(dst int, bytes int64)) {
	group, i := g.local(rank)
	g.plan.sends(i, step, func(dst int, bytes int64) { emit(g.global(group, dst), bytes) })
}

func (g grouped) messageCounts(rank int) (in, out int) {
	_, i := g.local(rank)
	return g.plan.messageCounts(i)
}

func (g grouped) previous(rank, level int) int {
	_, i := g.local(rank)
	return g.plan.previous(i, level)
}

func (g grouped) begin(ranks int) progress {
	p := groupedProgress{g, make([]progress, ranks/g.size)}
	for i := range p.groups {
		p.groups[i] = g.plan.begin(g.size)
	}
	return p
}

// groupedProgress is the state of every group.
type groupedProgress struct {
	grouped
	groups []progress
}

func (p groupedProgress) start(rank int, post func(rank, step int)) {
	group, i := p.local(rank)
	p.groups[group].start(i, func(i, step int) { post(p.global(group, i), step) })
}

func (p groupedProgress) received(rank, src, step int, post func(rank, step int)) {
	group, i := p.local(rank)
	_, from := p.local(src)
	p.groups[group].received(i, from, step, func(i, step int) { post(p.global(group, i), step) })
}
