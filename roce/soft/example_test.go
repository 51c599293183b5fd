package soft_test

import (
	"fmt"
	"log"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/soft"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// host has the events of one engine.
type host struct{ acknowledged bool }

func (h *host) Done(fabric.Time, transport.QP)                   { h.acknowledged = true }
func (h *host) Acked(fabric.Time, transport.QP, int64)           {}
func (h *host) Timeout(fabric.Time, transport.QP)                {}
func (h *host) Failed(fabric.Time, transport.QP, frame.Syndrome) {}
func (h *host) Quench(fabric.Time, frame.Quench)                 {}
func (h *host) Written(_ fabric.Time, src fabric.NodeID, key uint32, address uint64, n int64) {
	fmt.Printf("host %d wrote %d bytes at %d of region %d\n", src, n, address, key)
}

// Host 0 writes into the memory of host 1. The loop is the network between them.
func Example() {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
	if err != nil {
		log.Fatal(err)
	}
	var events [2]host
	var engines [2]*soft.Engine
	for i := range engines {
		c := soft.Config{NIC: transport.Config{Fabric: f, Host: fabric.NodeID(i)}}
		if engines[i], err = soft.New(c, &events[i]); err != nil {
			log.Fatal(err)
		}
	}
	memory := make([]byte, 64)
	if err := engines[1].Register(7, memory); err != nil {
		log.Fatal(err)
	}
	m := soft.Message{QP: 1, Dst: 1, Data: []byte("hello"), Key: 7, Address: 16}
	if err := engines[0].Write(0, m); err != nil {
		log.Fatal(err)
	}
	buf := make([]byte, engines[0].MaxFrame())
	for now := fabric.Time(0); !events[0].acknowledged; now += fabric.Microsecond {
		for i, e := range engines {
			if sent, ok := e.Next(now, buf); ok {
				engines[1-i].Receive(now, buf[:sent.Len])
			}
		}
	}
	fmt.Printf("%s\n", memory[16:21])
	// Output:
	// host 0 wrote 5 bytes at 16 of region 7
	// hello
}
