package interp_test

import (
	"fmt"
	"log"
	"os"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// Load a program, add an entry, push a packet, read what comes out.
func Example() {
	json, err := os.ReadFile("testdata/state.json")
	if err != nil {
		log.Fatal(err)
	}
	prog, err := program.Load(json)
	if err != nil {
		log.Fatal(err)
	}
	sw := interp.NewSwitch(prog, interp.Config{})

	table, _ := prog.TableByName("In.exact_t")
	forward, _ := prog.ActionByName(table, "In.forward")
	_, err = sw.Insert(table, interp.Entry{
		Match:  []program.FieldMatch{{Value: []byte{9}}, {Value: []byte{0x12, 0x34}}},
		Target: interp.Target{Call: interp.ActionCall{Action: forward, Args: [][]byte{{3}}}},
	})
	if err != nil {
		log.Fatal(err)
	}

	packet := append([]byte{9, 0, 0x12, 0x34}, make([]byte, 20)...)
	sw.Process(interp.Input{Port: 1, Data: packet}, func(out interp.Output) {
		fmt.Printf("port %d: %x\n", out.Port, out.Data[:4])
	})
	// Output: port 3: 09000000
}
