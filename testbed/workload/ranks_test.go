package workload

import (
	"math"
	"slices"
	"strconv"
	"testing"
)

func TestParseRanks(t *testing.T) {
	for text, want := range map[string][]int{
		"0..3,7": {0, 1, 2, 3, 7}, "1..7/3": {1, 4, 7}, "2..5/9": {2}, "1..5/" + strconv.Itoa(math.MaxInt): {1},
	} {
		got, err := parseRanks(text, 8)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
}
