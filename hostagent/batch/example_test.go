package batch_test

import (
	"fmt"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/fabric/statepb"
	"github.com/ethereal-fabric/ethereal/hostagent"
	"github.com/ethereal-fabric/ethereal/hostagent/batch"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
	"github.com/ethereal-fabric/ethereal/hostagent/labeller/labellertest"
)

// A plug-in of a collective library sends one message over the four paths to
// another pod, each piece on a queue pair it connected before. A link dies on
// the way.
func Example() {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	// On an RNIC this is a verbs.Labeller; for programs that send through the
	// kernel, a tagger.Tagger.
	labels := labellertest.NewInline(labeller.SourcePort, 0)
	a, err := batch.New(batch.Config{Agent: hostagent.Config{Fabric: f, Host: 0, Unshuffled: true}, Labeller: labels})
	if err != nil {
		fmt.Println(err)
		return
	}
	peer := f.HostAddr4(15)
	for n := range uint32(4) {
		if err := a.Add(labeller.QP{Dst: peer, Num: 0x100 + n}); err != nil {
			fmt.Println(err)
			return
		}
	}
	if err := a.Post(batch.Message{ID: 1, Dst: peer, Bytes: 1 << 20}); err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range a.Take().Send {
		fmt.Printf("send %d bytes from %d on %v, label %d\n", p.Bytes, p.Offset, p.QP, p.Label)
	}
	link, err := f.LinkByName("agg0-core1")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := a.Update(&statepb.Update{Epoch: 1, Links: []*statepb.LinkState{{Link: uint32(link), Epoch: 1}}}); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range a.Take().Moved {
		fmt.Printf("%v now has label %d, not %d (%v)\n", m.QP, m.To, m.From, m.Reason)
	}
	// Output:
	// send 262144 bytes from 0 on 10.3.1.3/0x000100, label 0
	// send 262144 bytes from 262144 on 10.3.1.3/0x000101, label 1
	// send 262144 bytes from 524288 on 10.3.1.3/0x000102, label 2
	// send 262144 bytes from 786432 on 10.3.1.3/0x000103, label 3
	// 10.3.1.3/0x000101 now has label 2, not 1 (push)
}

// A library that labels its queue pairs itself, or opens one for each piece,
// asks for labels alone.
func Example_labelsOnly() {
	f, err := fabric.New(fabric.Spec{Kind: fabric.KindFatTree, K: 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	a, err := batch.New(batch.Config{Agent: hostagent.Config{Fabric: f, Host: 0, Unshuffled: true}})
	if err != nil {
		fmt.Println(err)
		return
	}
	// One step of an all-to-all towards a rack of two hosts: two messages, four
	// paths, so each message is halved.
	err = a.Post(
		batch.Message{ID: 1, Dst: f.HostAddr4(14), Bytes: 1000},
		batch.Message{ID: 2, Dst: f.HostAddr4(15), Bytes: 1000},
	)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range a.Take().Send {
		fmt.Printf("message %d: bytes %d to %d, label %d\n", p.Message, p.Offset, p.Offset+p.Bytes, p.Label)
	}
	// Output:
	// message 1: bytes 0 to 500, label 0
	// message 1: bytes 500 to 1000, label 1
	// message 2: bytes 0 to 500, label 2
	// message 2: bytes 500 to 1000, label 3
}
