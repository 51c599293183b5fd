package hostagent_test

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
)

// A host of a k=4 fat-tree sends one message to another pod, and one of the
// links it uses fails.
func Example() {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	core, err := hostagent.New(hostagent.Config{Fabric: f, Host: 0, Unshuffled: true, StartJitter: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := core.Post(0, []hostagent.Flow{{ID: 1, Dst: 15, Bytes: 1 << 20}}); err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range core.Ready().Open {
		fmt.Printf("open QP %d: %d bytes from %d, label %d\n", p.QP, p.Bytes, p.Offset, p.Label)
	}

	link, err := f.LinkByName("agg0-core1")
	if err != nil {
		fmt.Println(err)
		return
	}
	core.Update(3*fabric.Microsecond, &statepb.Update{Epoch: 1, Links: []*statepb.LinkState{{Link: uint32(link), Epoch: 1}}})
	for _, fl := range core.Ready().Flip {
		fmt.Printf("flip QP %d: label %d to %d (%v)\n", fl.QP, fl.From, fl.To, fl.Reason)
	}
	// Output:
	// open QP 1: 262144 bytes from 0, label 0
	// open QP 2: 262144 bytes from 262144, label 1
	// open QP 3: 262144 bytes from 524288, label 2
	// open QP 4: 262144 bytes from 786432, label 3
	// flip QP 2: label 1 to 2 (push)
}

// Twelve flows over sixteen paths: each is cut into four.
func ExampleSplit() {
	sizes := make([]int64, 12)
	for i := range sizes {
		sizes[i] = 1000
	}
	cuts := hostagent.Split(nil, sizes, 16)
	load := make([]int64, 16)
	for _, c := range cuts {
		load[c.Path] += c.Bytes
	}
	fmt.Println(len(cuts), hostagent.Pieces(12, 16), load[0], load[15])
	// Output: 48 48 750 750
}
