package bmv2_test

import (
	"fmt"
	"log"
	"os"

	"github.com/ethereal-fabric/ethereal/testbed/bmv2"
)

// Load a program, add an entry, push a packet, read what comes out.
func Example() {
	json, err := os.ReadFile("testdata/state.json")
	if err != nil {
		log.Fatal(err)
	}
	prog, err := bmv2.Load(json)
	if err != nil {
		log.Fatal(err)
	}
	sw := bmv2.NewSwitch(prog, bmv2.Config{})

	table, _ := prog.TableByName("In.exact_t")
	forward, _ := prog.ActionByName(table, "In.forward")
	_, err = sw.Insert(table, bmv2.Entry{
		Match:  []bmv2.FieldMatch{{Value: []byte{9}}, {Value: []byte{0x12, 0x34}}},
		Target: bmv2.Target{Call: bmv2.ActionCall{Action: forward, Args: [][]byte{{3}}}},
	})
	if err != nil {
		log.Fatal(err)
	}

	packet := append([]byte{9, 0, 0x12, 0x34}, make([]byte, 20)...)
	sw.Process(bmv2.Input{Port: 1, Data: packet}, func(out bmv2.Output) {
		fmt.Printf("port %d: %x\n", out.Port, out.Data[:4])
	})
	// Output: port 3: 09000000
}
