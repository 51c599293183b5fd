package balance

import (
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/roce/frame"
	"github.com/ethereal-fabric/ethereal/roce/transport"
)

// Values of the parameter entropy: the set from which random choices are made.
const (
	byPath = "path" // the labels of the paths: switches follow them
	byPort = "port" // source ports that name no path: switches hash
)

// pathLabels returns the labels of the paths to a host; nil if it is under this
// host's ToR, where there is no choice.
func (s *pieces) pathLabels(dst fabric.NodeID) []fabric.Label {
	return s.f.PathLabels(s.f.ToROf(s.host), s.f.ToROf(dst))
}

// randomLabel returns a random choice: among paths, or ports if there are none.
func (s *pieces) randomLabel(paths []fabric.Label) fabric.Label {
	if len(paths) == 0 {
		return s.randomPort()
	}
	return paths[s.rng.IntN(len(paths))]
}

// wireLengths is the length of a full packet and of an ACK on the wire, in bytes. IPv6's additional bytes do not matter
// for its use.
type wireLengths struct{ data, ack int64 }

func wireOf(c Config) wireLengths {
	mtu := c.MTU
	if mtu == 0 {
		mtu = transport.DefaultMTU
	}
	const headers = 14 + 20 + 8 + frame.BTHSize + frame.ICRCSize
	return wireLengths{int64(mtu) + headers, headers + frame.AETHSize}
}

// baseRTT returns the time of a full packet to a host and its ACK in an otherwise idle network.
func (s *pieces) baseRTT(dst fabric.NodeID, w wireLengths) fabric.Time {
	one := func(id fabric.LinkID) fabric.Time {
		l := s.f.Link(id)
		return 2*l.Delay + l.Rate.TimeFor(w.data) + l.Rate.TimeFor(w.ack)
	}
	rtt := one(s.f.Node(s.host).Link(1)) + one(s.f.Node(dst).Link(1))
	src, to := s.f.ToROf(s.host), s.f.ToROf(dst)
	if labels := s.f.PathLabels(src, to); len(labels) > 0 {
		hops, _ := s.f.Path(nil, src, to, labels[0])
		for _, h := range hops {
			rtt += one(h.Link)
		}
	}
	return rtt
}

// drawLabels returns up to n different labels of paths to a host, or n ports, in random order. It has at least one.
func (s *pieces) drawLabels(dst fabric.NodeID, n int, ports bool) []fabric.Label {
	labels := s.pathLabels(dst)
	if len(labels) == 0 {
		return []fabric.Label{s.randomPort()}
	}
	if ports {
		labels = make([]fabric.Label, n)
		for i := range labels {
			labels[i] = s.randomPort()
		}
		return labels
	}
	s.rng.Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
	return labels[:min(n, len(labels))]
}
