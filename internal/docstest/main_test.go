package docstest

import (
	"os"
	"testing"
)

// TestMain has the tests run in folder docs: their paths are those that a reader of the pages types.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../docs"); err != nil {
		panic(err)
	}
	m.Run()
}
