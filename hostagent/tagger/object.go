package tagger

import (
	"bytes"
	_ "embed" // the compiled program
	"fmt"
	"hash/crc32"

	"github.com/cilium/ebpf"

	"github.com/ethereal-fabric/ethereal/hostagent/labeller"
)

// clang's version is in SHA256SUMS: another may compile to other bytes.
//
//go:generate sh ./generate.sh

//go:embed tagger_bpfel.o
var object []byte

// objects are the parts of the compiled program, loaded.
type objects struct {
	Program      *ebpf.Program `ebpf:"tag_egress"`
	Labels       *ebpf.Map     `ebpf:"labels"`
	Unlabelled   *ebpf.Map     `ebpf:"unlabelled"`
	LabelCounts  *ebpf.Map     `ebpf:"label_counts"`
	ReasonCounts *ebpf.Map     `ebpf:"reason_counts"`
}

// pinned are the maps that [Config.PinDir] keeps.
var pinned = [...]string{"labels", "unlabelled", "label_counts", "reason_counts"}

func (o *objects) close() {
	o.Program.Close()
	for _, m := range []*ebpf.Map{o.Labels, o.Unlabelled, o.LabelCounts, o.ReasonCounts} {
		m.Close()
	}
}

// load loads the program and its maps into the kernel, which verifies it.
func load(c *Config) (*objects, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("tagger: read the compiled program: %w", err)
	}
	qps := c.QPs
	if qps == 0 {
		qps = DefaultQPs
	}
	spec.Maps["labels"].MaxEntries = uint32(qps)
	var options ebpf.CollectionOptions
	if c.PinDir != "" {
		options.Maps.PinPath = c.PinDir
		for _, name := range pinned {
			spec.Maps[name].Pinning = ebpf.PinByName
		}
	}
	if err := spec.Variables["powers"].Set(portContributions()); err != nil {
		return nil, fmt.Errorf("tagger: the table of powers: %w", err)
	}
	carrier := uint8(0)
	if c.IPv6 == labeller.FlowLabel {
		carrier = 1
	}
	if err := spec.Variables["ipv6_flow_label"].Set(carrier); err != nil {
		return nil, fmt.Errorf("tagger: the IPv6 carrier: %w", err)
	}
	o := new(objects)
	if err := spec.LoadAndAssign(o, &options); err != nil {
		return nil, explain("load the program", err)
	}
	return o, nil
}

// portContributions returns, for each length n of a UDP datagram, x^(8(n-2)) modulo the CRC's polynomial, reflected:
// the contribution of the source port's bits to the ICRC. Lengths below 2 do not occur.
func portContributions() []uint32 {
	p := make([]uint32, 1<<16)
	p[2] = 1 << 31 // x^0
	for n := 3; n < len(p); n++ {
		// Appending a zero byte to the register multiplies by x^8.
		p[n] = crc32.IEEETable[byte(p[n-1])] ^ p[n-1]>>8
	}
	return p
}
