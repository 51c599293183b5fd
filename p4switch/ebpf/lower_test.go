package ebpf

import (
	"os"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// TestLoweredAsksWhetherHeadersAreWritten: the kernel may have no memory to write a packet's headers. It is not sent
// then with those that it had.
func TestLoweredAsksWhetherHeadersAreWritten(t *testing.T) {
	text, err := os.ReadFile("../../p4src/build/ethereal.json")
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	low, err := lower(p, lowerConfig{QueuesPerPort: 8})
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	for i, in := range low.Instructions {
		if !in.IsBuiltinCall() || asm.BuiltinFunc(in.Constant) != asm.FnSkbStoreBytes {
			continue
		}
		writes++
		if next := low.Instructions[i+1]; next.OpCode.JumpOp() != asm.JNE || next.Dst != asm.R0 {
			t.Errorf("instruction %d writes headers; the next one is %v", i, next)
		}
	}
	if writes == 0 {
		t.Error("no headers are written")
	}
}
