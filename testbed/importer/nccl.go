package importer

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/testbed/workload/collective"
)

// ncclBytes is the size of the all-reduce that is written for files without a workload.
const ncclBytes = 256_000_000

// maxServerRate is the largest rate of a server's network interfaces together.
const maxServerRate = 64 * fabric.MaxRate

// maxChannels is NCCL's MAXCHANNELS.
const maxChannels = 64

// element is an element of an XML file.
type element struct {
	XMLName xml.Name
	Attrs   []xml.Attr `xml:",any,attr"`
	Subs    []element  `xml:",any"`
}

// attr returns an attribute; "" if it is missing.
func (e element) attr(name string) string {
	for _, a := range e.Attrs {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

// maxDepth is how deep elements are nested. NCCL's are at most ten: a GPU behind switches of PCI.
const maxDepth = 64

// depth returns how deep elements are nested.
func (e element) depth() int {
	most := 0
	for _, s := range e.Subs {
		most = max(most, s.depth())
	}
	return most + 1
}

// eachElement calls each for an element and all below it.
func (e element) eachElement(each func(element)) {
	each(e)
	for _, s := range e.Subs {
		s.eachElement(each)
	}
}

// isXML recognises an XML file with this root.
func isXML(root string) func(data []byte) bool {
	return func(data []byte) bool {
		d := xml.NewDecoder(bytes.NewReader(data))
		for {
			t, err := d.Token()
			if err != nil {
				return false
			}
			if e, ok := t.(xml.StartElement); ok {
				return e.Name.Local == root
			}
		}
	}
}

func (f *inputFile) parseXML() (element, error) {
	var root element
	if err := xml.Unmarshal(f.data, &root); err != nil {
		return root, f.fail(0, "%v; name a file as NCCL writes it", err)
	}
	if d := root.depth(); d > maxDepth {
		return root, f.fail(0, "elements are nested %d deep; NCCL's are at most %d", d, maxDepth)
	}
	return root, nil
}

// nvlinkGBps returns the GB/s of an NVLink, one way, by the GPU's compute capability (NCCL's topo.h).
func nvlinkGBps(sm int) float64 {
	switch {
	case sm >= 100:
		return 40.1
	case sm >= 90:
		return 20.6
	case sm == 86:
		return 12
	case sm >= 70, sm < 60:
		return 20
	}
	return 18
}

// devices returns the number of PCI devices whose class begins so, as NCCL's kvDictPciClass has it, and which have no
// element of this name below: a file for NCCL_TOPO_FILE leaves it to NCCL to add that.
func (e element) devices(class, name string) (n int) {
	if e.XMLName.Local == "pci" && strings.HasPrefix(e.attr("class"), class) {
		filled := false
		e.eachElement(func(s element) { filled = filled || s.XMLName.Local == name })
		if !filled {
			n++
		}
	}
	for _, s := range e.Subs {
		n += s.devices(class, name)
	}
	return n
}

// readNCCLTopology reads the topology of a server, as ncclTopoGetSystemFromXml does: the fabric has Options.Servers of
// it, GPU i of each under ToR i. Each GPU has its share of the NICs.
func readNCCLTopology(f *inputFile, o Options, into *Imported) error {
	root, err := f.parseXML()
	if err != nil {
		return err
	}
	gpus, nvlinks, sm := 0, 0, 0
	var rate fabric.Rate
	var latency float64
	var wrong error
	number := func(e element, name string) int {
		n, err := strconv.Atoi(e.attr(name))
		if err != nil || n < 0 || n > math.MaxInt32 {
			wrong = f.fail(0, "%s has %s %q; write a number", e.XMLName.Local, name, e.attr(name))
		}
		return n
	}
	speeds := map[int]int{}
	root.eachElement(func(e element) {
		switch e.XMLName.Local {
		case "gpu":
			gpus++
			sm = number(e, "sm")
		case "nvlink":
			nvlinks += number(e, "count")
		case "net":
			if e.attr("speed") == "" || e.attr("keep") == "0" {
				return
			}
			mbps := number(e, "speed")
			speeds[mbps]++
			if rate += fabric.Rate(mbps) * fabric.Mbps; rate > maxServerRate {
				rate, wrong = maxServerRate, f.fail(0, "net has speed %q (Mb/s), all together more than %v; write for example 400000", e.attr("speed"), maxServerRate)
			}
			latency, _ = strconv.ParseFloat(e.attr("latency"), 64)
		case "pci", "cpu", "c2c", "pcilink":
			f.notes.add("rates of PCI and CPU links are left out; GPUs reach their NIC at its rate", "")
		}
	})
	gpus += root.devices("0x03", "gpu")
	if n := root.devices("0x02", "net"); n > 0 {
		each := cmp.Or(o.Rate, fabric.DefaultRate)
		if each > (maxServerRate-rate)/fabric.Rate(n) {
			return f.fail(0, "%d network interfaces of %v are more than %v together; lower --nic-rate", n, each, maxServerRate)
		}
		rate += fabric.Rate(n) * each
		f.notes.add(fmt.Sprintf("network interfaces without a speed have %v; see --nic-rate: %d", each, n), "")
	}
	switch {
	case wrong != nil:
		return wrong
	case gpus < 1 || gpus > 64:
		return f.fail(0, "%d GPUs; 1 to 64", gpus)
	case rate == 0:
		return f.fail(0, "no network interface with a speed; write <net dev=\"0\" speed=\"400000\"/> below a nic")
	}
	if len(speeds) > 1 {
		f.notes.add("network interfaces of unequal speeds are taken for alike, with their mean", "")
	}
	if n := o.Servers * gpus; n < 2 || n > collective.MaxRanks {
		return f.fail(0, "%d servers of %d GPUs; write --servers N", o.Servers, gpus)
	}
	link := fabric.LinkSpec{Rate: rate / fabric.Rate(gpus), Delay: fabric.DefaultDelay}
	if latency > 0 && latency < 1e6 {
		link.Delay = fabric.Time(latency*float64(fabric.Microsecond)) / 2 // there and through a switch
	}
	into.Fabric = railFabric(gpus, o.Servers, link)
	if gpus > 1 {
		into.Servers = &Servers{GPUs: gpus, Wiring: "rail", CrossRail: "internal"}
		if nvlinks > 0 {
			gbps := float64(nvlinks) / float64(gpus) * nvlinkGBps(sm) * 8
			if gbps > float64(fabric.MaxRate/fabric.Gbps) {
				return f.fail(0, "nvlink has count %d of all GPUs; NCCL counts a GPU's links, as in 18", nvlinks)
			}
			into.Servers.Internal = fabric.LinkSpec{Rate: fabric.Rate(gbps) * fabric.Gbps, Delay: 300 * fabric.Nanosecond}
		}
	}
	f.notes.add(fmt.Sprintf("the file is of one server; there are %d, GPU i of each under ToR i, with spines for the full rate", o.Servers), "")
	return into.Fabric.Validate()
}

// railFabric returns the fabric of servers whose GPU i is under ToR i.
func railFabric(gpus, servers int, link fabric.LinkSpec) *fabric.Spec {
	return &fabric.Spec{
		Kind: fabric.KindLeafSpine, ToRs: max(2, gpus), HostsPerToR: max(1, servers*gpus/max(2, gpus)), Spines: max(1, min(servers, fabric.MaxUplinks)),
		HostLink: link, ToRUplink: link,
	}
}

// readNCCLGraphs reads the graphs that NCCL has searched, as ncclTopoGetGraphFromXml does. The rings' channels share an
// all-reduce: each goes through a server's GPUs in its order, then through the next server's.
func readNCCLGraphs(f *inputFile, o Options, into *Imported) error {
	root, err := f.parseXML()
	if err != nil {
		return err
	}
	var channels [][]int
	gbps := 0.0
	for _, g := range root.Subs {
		if g.attr("pattern") != "4" {
			f.notes.add("graphs other than rings are left out", f.name+": pattern "+g.attr("pattern"))
			continue
		}
		speed, err := f.decimal(0, "speedinter", g.attr("speedinter"), 1e5)
		if err != nil {
			return err
		}
		for _, c := range g.Subs {
			order, err := f.channel(c)
			if err != nil {
				return err
			}
			channels, gbps = append(channels, order), gbps+speed*8
		}
	}
	if len(channels) == 0 || len(channels) > maxChannels {
		return f.fail(0, "%d channels of rings; name a file of graphs with pattern 4 and at most %d", len(channels), maxChannels)
	}
	gpus := len(channels[0])
	for _, c := range channels {
		if sorted := slices.Sorted(slices.Values(c)); len(c) != gpus || sorted[0] != 0 || sorted[gpus-1] != gpus-1 || len(slices.Compact(sorted)) != gpus {
			return f.fail(0, "the GPUs of a channel are %v; write each of 0 to %d once", c, gpus-1)
		}
	}
	if n := o.Servers * gpus; n < 2 || n > collective.MaxRanks || gpus > 64 {
		return f.fail(0, "%d servers of %d GPUs; write --servers N", o.Servers, gpus)
	}
	if into.Fabric == nil {
		rate := max(1, fabric.Rate(gbps/float64(gpus)*1e9))
		into.Fabric = railFabric(gpus, o.Servers, fabric.LinkSpec{Rate: rate, Delay: fabric.DefaultDelay})
		if gpus > 1 {
			into.Servers = &Servers{GPUs: gpus, Wiring: "rail", CrossRail: "internal"}
		}
		f.notes.add(fmt.Sprintf("%d servers with the rate of the channels; name NCCL's topology for that of its NICs", o.Servers), "")
	}
	into.Ranks = o.Servers * gpus
	for _, c := range channels {
		var ranks []string
		for s := range o.Servers {
			for _, g := range c {
				ranks = append(ranks, strconv.Itoa(s*gpus+g))
			}
		}
		into.Jobs = append(into.Jobs, Job{
			Kind: collective.AllReduce, Algorithm: collective.Ring, Bytes: fabric.Bytes(max(ncclBytes/len(channels), into.Ranks)),
			Ranks: strings.Join(ranks, ","),
		})
	}
	f.notes.add(fmt.Sprintf("the file has no sizes: an all-reduce of %v over %d channels", fabric.Bytes(ncclBytes), len(channels)), "")
	return into.Fabric.Validate()
}

// channel returns the GPUs of a channel in their order.
func (f *inputFile) channel(c element) ([]int, error) {
	var order []int
	for _, e := range c.Subs {
		if e.XMLName.Local != "gpu" {
			continue
		}
		n, err := strconv.ParseInt(e.attr("dev"), 16, 32) // NCCL reads and writes it in base 16
		if text := e.attr("rank"); text != "" {
			n, err = strconv.ParseInt(text, 0, 32)
		}
		if err != nil {
			return nil, f.fail(0, "a gpu has dev %q and rank %q; write numbers", e.attr("dev"), e.attr("rank"))
		}
		order = append(order, int(n))
	}
	if len(order) == 0 {
		return nil, f.fail(0, "a channel without GPUs; write <gpu dev=\"0\"/>")
	}
	return order, nil
}
