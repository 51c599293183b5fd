//go:build linux

package differential

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

// TestBalancers runs the switch's balancers in both. Round robin that is never
// shuffled must be the same packet for packet. The others draw, so that what is
// compared is what they are for, of each device by itself, and that the same
// packets go up, by whichever uplink.
func TestBalancers(t *testing.T) {
	program, f, schema, ports := ourProgram(t)
	tor := f.ToRID(0)
	for _, c := range []struct {
		name     string
		balancer controller.Balancing
		check    func(choices []taken) string // "": nil: packet for packet
	}{
		{"round robin", controller.Balancing{Rule: controller.RobinSpray, Unit: 1500}, nil},
		{"round robin, shuffled", controller.Balancing{Rule: controller.RobinSpray, Reshuffle: 1, Unit: 1500}, even(1)},
		{"random", controller.Balancing{Rule: controller.RandomSpray, Unit: 1500}, even(5)},
		{"rotation by destination", controller.Balancing{Rule: controller.DestinationRotor, Unit: 1500}, rotates},
		{"shortest queue", controller.Balancing{Rule: controller.ShortestUplink, Unit: 1500}, even(8)},
		{"best uplink by packet", controller.Balancing{Rule: controller.BestUplinkByPacket, Unit: 1500}, even(8)},
		{"assigned", controller.Balancing{Rule: controller.AssignedUplink, Unit: 1500}, assigned},
	} {
		t.Run(c.name, func(t *testing.T) {
			pair := newPair(t, program, ports)
			writeTables(t, pair, schema, f, tor, labelled(c.balancer))
			rng := rand.New(rand.NewPCG(7, 7))
			if c.check == nil {
				address := func() []byte { a := f.HostAddr4(fabric.NodeID(rng.IntN(f.Hosts()))).As4(); return a[:] }
				runAndCompare(t, pair, program.P4Info, ports, count(t, 1000), func(uint32) []byte { return Frame(rng, address) })
				return
			}
			number := uint32(0)
			var mine, theirs []taken
			for int(number) < count(t, 600) {
				var in []Packet
				for range 6 {
					for _, port := range ports {
						in = append(in, Packet{Port: port, Data: upward(t, f, byte(rng.IntN(40)), number)})
						number++
					}
				}
				ours, reference, err := pair.Exchange(in)
				if err != nil {
					t.Fatal(err)
				}
				if a, b := all(ours), all(reference); !slices.EqualFunc(a, b, bytes.Equal) {
					t.Fatalf("%d packets go up here and %d there, or others", len(a), len(b))
				}
				mine, theirs = append(mine, waysOf(ours)...), append(theirs, waysOf(reference)...)
			}
			for _, d := range []struct {
				name    string
				choices []taken
			}{{"ours", mine}, {"reference", theirs}} {
				slices.SortFunc(d.choices, func(a, b taken) int { return int(a.number) - int(b.number) })
				if len(d.choices) < 400 {
					t.Errorf("%s: %d packets went up", d.name, len(d.choices))
				}
				if wrong := c.check(d.choices); wrong != "" {
					t.Errorf("%s: %s", d.name, wrong)
				}
			}
			t.Logf("%d packets, in both", len(mine))
		})
	}
}

// taken is an unlabelled packet that went up.
type taken struct {
	number uint32 // in the order of sending
	flow   byte
	dst    [2]byte // pod and rack
	uplink uint32
}

// upward returns a packet without a label, of a flow for a host of another pod:
// its number and its flow's are in its payload.
func upward(t *testing.T, f *fabric.Fabric, flow byte, number uint32) []byte {
	t.Helper()
	hosts := f.Spec().ToRsPerPod * f.Spec().HostsPerToR // of a pod
	dst := fabric.NodeID(hosts + int(flow)%(f.Hosts()-hosts))
	ip := &layers.IPv4{
		Version: 4, IHL: 5, TTL: 64, Protocol: layers.IPProtocolUDP,
		SrcIP: f.HostAddr4(0).AsSlice(), DstIP: f.HostAddr4(dst).AsSlice(),
	}
	udp := &layers.UDP{SrcPort: layers.UDPPort(2000 + int(flow)*7), DstPort: 9999}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	payload := make([]byte, 300) // one size of packet
	binary.BigEndian.PutUint32(payload, number)
	payload[4] = flow
	mac := f.MAC(0)
	buf := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true},
		&layers.Ethernet{SrcMAC: mac[:], DstMAC: mac[:], EthernetType: layers.EthernetTypeIPv4}, ip, udp, gopacket.Payload(payload))
	if err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// waysOf returns the packets of [upward] among what came out.
func waysOf(out map[uint32][][]byte) []taken {
	var choices []taken
	for port, packets := range out {
		for _, p := range packets {
			if len(p) == 342 {
				choices = append(choices, taken{binary.BigEndian.Uint32(p[42:]), p[46], [2]byte(p[31:33]), port})
			}
		}
	}
	return choices
}

// all returns what came out, whatever the port, in an order of its own.
func all(out map[uint32][][]byte) [][]byte {
	var packets [][]byte
	for _, p := range out {
		packets = append(packets, p...)
	}
	slices.SortFunc(packets, bytes.Compare)
	return packets
}

// even: both uplinks carry half, but for so many times the root of the number.
func even(times float64) func([]taken) string {
	return func(choices []taken) string {
		n := map[uint32]int{}
		for _, w := range choices {
			n[w.uplink]++
		}
		if len(n) != 2 || math.Abs(float64(n[3]-n[4])) > times*math.Sqrt(float64(len(choices))) {
			return "uneven: " + describeCounts(n)
		}
		return ""
	}
}

// rotates: packets of one size for one ToR take both uplinks in turn.
func rotates(choices []taken) string {
	last := map[[2]byte]uint32{}
	for _, w := range choices {
		if last[w.dst] == w.uplink {
			return "two packets in a row by one uplink"
		}
		last[w.dst] = w.uplink
	}
	return ""
}

// assigned: a flow stays where it began, and flows are on both uplinks.
func assigned(choices []taken) string {
	of, used := map[byte]uint32{}, map[uint32]int{}
	for _, w := range choices {
		if of[w.flow] != 0 && of[w.flow] != w.uplink {
			return "a flow moves"
		}
		of[w.flow] = w.uplink
	}
	for _, u := range of {
		used[u]++
	}
	if len(used) != 2 {
		return "flows by uplink: " + describeCounts(used)
	}
	return ""
}

func describeCounts(n map[uint32]int) string {
	return fmt.Sprintf("%d by port 3, %d by port 4", n[3], n[4])
}
