// Package splitmix has the mixing function of the random generator splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
package splitmix

// Step is what the SplitMix64 generator adds to its state for each random number; the number is Mix of the state.
const Step = 0x9e3779b97f4a7c15

// Mix is the finalizer of the SplitMix64 generator: every bit of h affects every bit of the result.
func Mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
