package interp_test

import (
	"encoding/hex"
	"fmt"
	"log"
	"os"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// A router forwards a packet to 10.0.1.7 by a route to 10.0.1.0/24. The guide docs/guide/switch.md shows this program.
func Example() {
	json, err := os.ReadFile("../process/testdata/lpm.json") // p4c's, of lpm.p4
	if err != nil {
		log.Fatal(err)
	}
	router, err := program.Load(json)
	if err != nil {
		log.Fatal(err)
	}
	sw := interp.NewSwitch(router, interp.Config{})

	table, ok := router.TableByName("ipv4_lpm")
	forward, has := router.ActionByName(table, "I.forward")
	if !ok || !has {
		log.Fatal("the program has no such table or action")
	}
	route := []program.FieldMatch{{Value: []byte{10, 0, 1, 0}, PrefixLen: 24}}
	call := interp.ActionCall{Action: forward, Args: [][]byte{{2, 0, 0, 0, 0, 9}, {3}}} // dmac, port
	if _, err := sw.Insert(table, interp.Entry{Match: route, Target: interp.Target{Call: call}}); err != nil {
		log.Fatal(err)
	}

	packet, err := hex.DecodeString("020000000001" + "020000000002" + "0800" + // Ethernet
		"45000014000000004011" + "65d1" + "0a000002" + "0a000107") // IPv4: TTL 64, checksum, source, destination
	if err != nil {
		log.Fatal(err)
	}
	sw.Process(interp.Input{Port: 1, Data: packet}, func(out interp.Output) {
		fmt.Printf("leaves port %d for %x, TTL %d\n", out.Port, out.Data[:6], out.Data[22])
	})
	// Output: leaves port 3 for 020000000009, TTL 63
}
