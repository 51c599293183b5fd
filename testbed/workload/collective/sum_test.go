package collective

import (
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// vectors executes a job on data: vectors[rank][block][r] is how often rank r's
// contribution is in that block of the rank's vector. What a message carries is
// taken when it is posted and applied when it arrives, so that a send posted
// too early carries too little.
type vectors struct {
	n    int
	data [][][]int
	kept [][]message // by rank, what came before its step
}

func newVectors(n, blocks int) *vectors {
	v := &vectors{n: n, data: make([][][]int, n), kept: make([][]message, n)}
	for r := range n {
		v.data[r] = make([][]int, blocks)
		for b := range blocks {
			v.data[r][b] = make([]int, n)
			v.data[r][b][r] = 1
		}
	}
	return v
}

// message is what is in flight: block -> contributions, to be added or to replace.
type message struct {
	id      ID
	blocks  map[int][]int
	replace bool
}

func (v *vectors) take(rank int, blocks []int) map[int][]int {
	m := make(map[int][]int)
	for _, b := range blocks {
		m[b] = append([]int(nil), v.data[rank][b]...)
	}
	return m
}

// catchUp applies what a rank has kept of the steps before one.
func (v *vectors) catchUp(rank, step int) {
	slices.SortStableFunc(v.kept[rank], func(a, b message) int { return a.id.Step() - b.id.Step() })
	for len(v.kept[rank]) > 0 && v.kept[rank][0].id.Step() < step {
		v.apply(v.kept[rank][0])
		v.kept[rank] = v.kept[rank][1:]
	}
}

func (v *vectors) apply(m message) {
	for b, c := range m.blocks {
		to := v.data[m.id.Dst()][b]
		for i := range c {
			if m.replace {
				to[i] = 0
			}
			to[i] += c[i]
		}
	}
}

// carry says which blocks a send carries and whether they replace the
// receiver's: the textbook's account of each algorithm, independent of the
// package's.
func carry(s Spec, send Send) (blocks []int, replace bool) {
	n := s.Ranks
	log := bits.Len(uint(n)) - 1
	offset := 0
	switch {
	case s.Kind == AllGather && s.Algorithm == Ring:
		offset = n - 1
	case s.Kind == AllGather && s.Algorithm == HalvingDoubling:
		offset = log
	case s.Kind == AllGather:
		offset = 1
	}
	step := send.Step + offset
	switch s.Algorithm {
	case Ring:
		if s.Channels > 1 {
			channel, round := step%s.Channels, step/s.Channels
			place := send.Src/s.Server*s.Server + (send.Src%s.Server-channel%s.Server+s.Server)%s.Server
			block := (place - round + 2*n) % n
			if round >= n-1 {
				block = (place + 1 - (round - (n - 1)) + 2*n) % n
			}
			return []int{channel*n + block}, round >= n-1
		}
		// Scatter: rank r passes on block r-step; gather: block r+1-(step-(n-1)).
		if step < n-1 {
			return []int{(send.Src - step + 2*n) % n}, false
		}
		return []int{(send.Src + 1 - (step - (n - 1)) + 2*n) % n}, true
	case HalvingDoubling:
		// After k steps of halving a rank answers for the blocks that agree
		// with it in the low k bits.
		k, replace := step, false
		who := send.Dst // scatter: sends what the partner answers for
		if step >= log {
			k, replace = 2*log-1-step, true
			who = send.Src // gather: sends what it answers for itself
		}
		mask := 1<<(k+1) - 1
		for b := range n {
			if b&mask == who&mask {
				blocks = append(blocks, b)
			}
		}
		return blocks, replace
	case WholeVectorDoubling:
		// Anyone who left its part to a neighbour gets a result in the end, not a part of a sum.
		log, extra := bits.Len(uint(n))-1, n-1<<(bits.Len(uint(n))-1)
		return []int{0}, extra > 0 && step == log+1
	case DoubleBinaryTree:
		return []int{step % 2}, step >= 2
	default: // direct
		if step == 0 {
			return []int{send.Dst}, false
		}
		return []int{send.Src}, true
	}
}

// execute runs a job in a random order of arrival, ranks beginning at any time,
// and checks the sums.
func execute(t *rapid.T, s Spec) {
	j, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	blocks := s.Ranks
	switch s.Algorithm {
	case DoubleBinaryTree:
		blocks = 2
	case WholeVectorDoubling:
		blocks = 1
	case Ring:
		blocks *= max(1, s.Channels)
	}
	v := newVectors(s.Ranks, blocks)
	if s.Kind == AllGather {
		// Begins where a reduce-scatter ends: each rank's own block is a sum.
		for r := range s.Ranks {
			own := r
			if s.Algorithm == Ring {
				own = (r + 1) % s.Ranks
			}
			for b := range blocks {
				for i := range s.Ranks {
					v.data[r][b][i] = 0
					if b == own {
						v.data[r][b][i] = 1
					}
				}
			}
		}
	}
	var flying []message
	seen := make(map[ID]bool)
	sizes := make(map[int64]int64)
	emit := func(send Send) {
		if seen[send.ID] || send.Src == send.Dst {
			t.Fatalf("%v posted twice, or to itself", send.ID)
		}
		seen[send.ID] = true
		if send.ID.Src() != send.Src || send.ID.Dst() != send.Dst || send.ID.Step() != send.Step || send.ID.Job() != s.Job {
			t.Fatalf("id %v of %+v", send.ID, send)
		}
		b, replace := carry(s, send)
		if per := send.Bytes / int64(len(b)); per*int64(blocks) != s.Bytes {
			t.Fatalf("%v: %d bytes for %d of %d blocks of %d bytes", send.ID, send.Bytes, len(b), blocks, s.Bytes)
		}
		sizes[send.Bytes]++
		v.catchUp(send.Src, send.Step)
		flying = append(flying, message{send.ID, v.take(send.Src, b), replace})
	}
	waiting := make([]int, s.Ranks)
	for r := range waiting {
		waiting[r] = r
	}
	var arrived []ID
	for len(waiting)+len(flying)+len(arrived) > 0 {
		i := rapid.IntRange(0, len(waiting)+len(flying)+len(arrived)-1).Draw(t, "next")
		switch {
		case i < len(waiting):
			r := waiting[i]
			waiting[i] = waiting[len(waiting)-1]
			waiting = waiting[:len(waiting)-1]
			j.StartRank(r, emit)
		case i < len(waiting)+len(flying):
			i -= len(waiting)
			m := flying[i]
			flying[i] = flying[len(flying)-1]
			flying = flying[:len(flying)-1]
			if s.Algorithm == WholeVectorDoubling {
				// Both partners' vectors are whole: what comes early is kept beside the rank's own, which it has yet to
				// send.
				v.kept[m.id.Dst()] = append(v.kept[m.id.Dst()], m)
			} else {
				v.apply(m)
			}
			arrived = append(arrived, m.id)
			if err := j.Received(m.id, emit); err != nil {
				t.Fatal(err)
			}
		default:
			i -= len(waiting) + len(flying)
			if j.Finished() || j.Done(arrived[i].Src()) {
				t.Fatalf("rank %d is done before %v is sent", arrived[i].Src(), arrived[i])
			}
			if err := j.Sent(arrived[i]); err != nil {
				t.Fatal(err)
			}
			arrived[i] = arrived[len(arrived)-1]
			arrived = arrived[:len(arrived)-1]
		}
	}
	if !j.Finished() {
		t.Fatal("nothing in flight, and not finished")
	}
	planned := 0
	for p := range j.Phases() {
		for send := range j.Traffic(p) {
			planned++
			if !seen[send.ID] || send.Step != p {
				t.Fatalf("phase %d plans %v, never posted", p, send.ID)
			}
		}
	}
	if planned != len(seen) {
		t.Fatalf("%d messages posted, %d planned", len(seen), planned)
	}
	for r := range s.Ranks {
		v.catchUp(r, j.Phases())
		for b := range blocks {
			if s.Kind == ReduceScatter {
				own := r
				if s.Algorithm == Ring {
					own = (r + 1) % s.Ranks
				}
				if b != own {
					continue
				}
			}
			for i, c := range v.data[r][b] {
				if c != 1 {
					t.Fatalf("rank %d, block %d: contribution of rank %d is in %d times", r, b, i, c)
				}
			}
		}
	}
}

func TestSums(t *testing.T) {
	for _, kind := range []string{AllReduce, ReduceScatter, AllGather} {
		for _, algorithm := range Algorithms(kind) {
			t.Run(fmt.Sprint(kind, " ", algorithm), func(t *testing.T) {
				rapid.Check(t, func(t *rapid.T) {
					n := rapid.IntRange(2, 12).Draw(t, "ranks")
					if algorithm == HalvingDoubling {
						n = 1 << rapid.IntRange(1, 4).Draw(t, "log ranks")
					}
					bytes := int64(n) * rapid.Int64Range(1, 1000).Draw(t, "share")
					if algorithm == DoubleBinaryTree {
						bytes *= 2
					}
					execute(t, Spec{Kind: kind, Algorithm: algorithm, Ranks: n, Bytes: bytes, Job: rapid.Uint8().Draw(t, "job")})
				})
			})
		}
	}
}

// TestChannels: rings of several channels sum, and each channel leaves every server from another GPU.
func TestChannels(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gpus, servers, channels := rapid.IntRange(1, 4).Draw(t, "gpus"), rapid.IntRange(2, 3).Draw(t, "servers"), rapid.IntRange(2, 5).Draw(t, "channels")
		s := Spec{Kind: AllReduce, Algorithm: Ring, Ranks: gpus * servers, Channels: channels, Server: gpus}
		s.Bytes = int64(s.Ranks*channels) * rapid.Int64Range(1, 100).Draw(t, "share")
		execute(t, s)
		j, err := New(s)
		if err != nil {
			t.Fatal(err)
		}
		between := map[int]int{} // messages to other servers, by GPU
		for c := range channels {
			for send := range j.Traffic(c) {
				if send.Src/gpus != send.Dst/gpus {
					between[send.Src%gpus]++
				}
			}
		}
		if len(between) != min(gpus, channels) {
			t.Fatalf("GPUs %v of %d send to other servers, in %d channels", between, gpus, channels)
		}
	})
	for _, s := range []Spec{
		{Kind: AllReduce, Ranks: 8, Bytes: 8000, Channels: 2}, {Kind: AllReduce, Algorithm: Ring, Ranks: 8, Bytes: 8000, Channels: 2, Group: 4},
		{Kind: AllReduce, Algorithm: Ring, Ranks: 8, Bytes: 8000, Channels: 65}, {Kind: AllReduce, Algorithm: Ring, Ranks: 8, Bytes: 15, Channels: 2},
	} {
		if err := s.Validate(); err == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}
