package stf_test

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/p4switch/stf/stftest"
)

// TestP4CSamples runs the scripts that come with p4c.
func TestP4CSamples(t *testing.T) {
	stftest.Samples(t, func(t *testing.T, json []byte, script string) { play(t, json, script) })
}
