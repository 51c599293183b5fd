//go:build linux

package ebpf_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/ebpf"
	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// TestRefusedByVerifier: what the verifier says of a program that reads what it never wrote is in the error, in a
// few words. The switch is as it was, and its own program loads.
func TestRefusedByVerifier(t *testing.T) {
	sw := interp.NewSwitch(read(t, "../process/testdata/lpm.json"), interp.Config{})
	load(t, sw).Close() // or skips
	_, err := ebpf.LoadAfter(asm.Instructions{asm.Mov.Reg(asm.R0, asm.R5)}, sw)
	if !errors.Is(err, ebpf.ErrVerifier) || !strings.Contains(err.Error(), "R5 !read_ok") || len(err.Error()) > 500 {
		t.Errorf("error %v", err)
	}
	load(t, sw)
}

// TestFewerMasks: only a refusal of the verifier is an occasion to try fewer masks, and the error is of the whole
// program.
func TestFewerMasks(t *testing.T) {
	first, other := fmt.Errorf("%w: first", ebpf.ErrVerifier), errors.New("no memory")
	for _, c := range []struct {
		errs  []error
		tries int
		want  error
	}{
		{[]error{nil}, 1, nil},
		{[]error{first, nil}, 2, nil},
		{[]error{other, nil}, 1, other},
		{[]error{first, ebpf.ErrVerifier, ebpf.ErrVerifier, nil}, 3, first},
		{[]error{first, other, nil}, 2, first},
	} {
		tries := 0
		err := ebpf.Fewer(func(int) error { tries++; return c.errs[tries-1] })
		if !errors.Is(err, c.want) || tries != c.tries {
			t.Errorf("%v: %v after %d tries, want %v after %d", c.errs, err, tries, c.want, c.tries)
		}
	}
}

// TestRefusedForSize loads programs whose actions have more and more statements, until jumps over them are longer
// than an instruction says.
func TestRefusedForSize(t *testing.T) {
	b, err := os.ReadFile("../process/testdata/lpm.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		repeat int
		fits   bool
	}{{100, true}, {2400, false}} {
		var doc map[string]any
		if err := json.Unmarshal(b, &doc); err != nil {
			t.Fatal(err)
		}
		for _, action := range doc["actions"].([]any) {
			action := action.(map[string]any)
			action["primitives"] = slices.Repeat(action["primitives"].([]any), c.repeat)
		}
		large, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		p, err := program.Load(large)
		if err != nil {
			t.Fatal(err)
		}
		sw := interp.NewSwitch(p, interp.Config{})
		if c.fits {
			load(t, sw)
		} else if _, err := ebpf.Load(sw, ebpf.Config{}); !errors.Is(err, program.ErrUnsupported) || !strings.Contains(err.Error(), "jump") {
			t.Errorf("actions %d times as long: %v", c.repeat, err)
		}
	}
}

// TestManyHeaders: the verifier follows the deparser once, not once for every combination of headers that may be valid.
func TestManyHeaders(t *testing.T) {
	b, err := os.ReadFile("../process/testdata/lpm.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	deparser := doc["deparsers"].([]any)[0].(map[string]any)
	for i := range 24 { // of 1 to 24 bytes, so that sums of their lengths differ
		name := fmt.Sprint("extra", i)
		doc["header_types"] = append(doc["header_types"].([]any),
			map[string]any{"name": name + "_t", "id": 10 + i, "fields": []any{[]any{"f", 8 * (i + 1), false}}})
		doc["headers"] = append(doc["headers"].([]any),
			map[string]any{"name": name, "id": 10 + i, "header_type": name + "_t", "metadata": false, "pi_omit": true})
		deparser["order"] = append(deparser["order"].([]any), name)
	}
	large, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Load(large)
	if err != nil {
		t.Fatal(err)
	}
	k := load(t, interp.NewSwitch(p, interp.Config{}))
	info, err := k.Program().Info()
	if err != nil {
		t.Fatal(err)
	}
	followed, ok := info.VerifiedInstructions()
	if !ok {
		t.Skip("this kernel does not say how many instructions its verifier followed")
	}
	t.Logf("%d instructions, %d followed", k.Instructions(), followed)
	if int(followed) > 4*k.Instructions() {
		t.Errorf("the verifier followed %d instructions of a program of %d", followed, k.Instructions())
	}
}
