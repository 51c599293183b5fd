package export

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// Limits of HCCL's MultiQpSrcPort.cfg.
const (
	hcclLines = 131_072
	hcclPorts = 32
)

// CSV writes a table of all pairs of hosts of different ToRs, one line per path.
func (p *Plan) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	if err := c.Write([]string{
		"src", "dst", "src_ipv4", "dst_ipv4", "src_ipv6", "dst_ipv6", "label", "source_port", "path", "usids",
	}); err != nil {
		return err
	}
	f := p.Fabric
	return p.pairs(func(src, dst fabric.NodeID, paths []Path) error {
		for _, x := range paths {
			var names []string
			for _, id := range x.Nodes[:len(x.Nodes)-1] {
				names = append(names, f.Name(id))
			}
			if err := c.Write([]string{
				f.Name(src), f.Name(dst), f.HostAddr4(src).String(), f.HostAddr4(dst).String(),
				f.HostAddr6(src).String(), f.HostAddr6(dst).String(),
				strconv.Itoa(int(x.Label)), strconv.Itoa(int(x.Port)), strings.Join(names, " "), x.SID.String(),
			}); err != nil {
				return err
			}
		}
		c.Flush()
		return c.Error()
	})
}

// HCCL writes MultiQpSrcPort.cfg, the file that HCCL reads at HCCL_RDMA_QP_PORT_CONFIG_PATH: per pair of hosts, the
// source ports of its queue pairs. Each host begins with a different path, so that pairs with fewer queue pairs
// than paths use different ones.
func (p *Plan) HCCL(w io.Writer) error {
	f, b, lines := p.Fabric, bufio.NewWriter(w), 0
	err := p.pairs(func(src, dst fabric.NodeID, paths []Path) error {
		if lines++; lines > hcclLines {
			return fmt.Errorf("%w: hccl: more than %d pairs of hosts, the most that HCCL reads; export a smaller fabric",
				ErrPlan, hcclLines)
		}
		ports := make([]string, min(len(paths), hcclPorts))
		for i := range ports {
			ports[i] = strconv.Itoa(int(paths[(int(src)+int(dst)+i)%len(paths)].Port))
		}
		_, err := fmt.Fprintf(b, "%v,%v=%s\n", f.HostAddr4(src), f.HostAddr4(dst), strings.Join(ports, ","))
		return err
	})
	if err != nil {
		return err
	}
	return b.Flush()
}

// maxQPs is the most queue pairs that NCCL opens for a connection.
const maxQPs = 128

// NCCL writes the environment of a job with the given number of senders under each ToR in use: as many queue pairs
// per connection as give all paths equal shares, with every message split over them.
func (p *Plan) NCCL(w io.Writer, senders int) error {
	f := p.Fabric
	paths := len(f.PathLabels(f.ToRID(0), f.ToRID(f.ToRs()-1)))
	switch {
	case paths == 0:
		return fmt.Errorf("%w: nccl: a fabric of one ToR has no paths to share", ErrPlan)
	case senders < 1:
		return fmt.Errorf("%w: nccl: %d senders under a ToR; write 1 or more", ErrPlan, senders)
	}
	k := 1 // paths / gcd(senders, paths)
	for senders*k%paths != 0 {
		k++
	}
	if k > maxQPs {
		return fmt.Errorf("%w: nccl: %d senders share %d paths by %d queue pairs each, and NCCL opens %d; "+
			"use a number of senders that divides more of the paths", ErrPlan, senders, paths, k, maxQPs)
	}
	_, err := fmt.Fprintf(w, "NCCL_IB_QPS_PER_CONNECTION=%d\nNCCL_IB_SPLIT_DATA_ON_QPS=1\n", k)
	return err
}

// pairs calls visit for all pairs of hosts that have paths.
func (p *Plan) pairs(visit func(src, dst fabric.NodeID, paths []Path) error) error {
	for s := range p.Fabric.Hosts() {
		for d := range p.Fabric.Hosts() {
			src, dst := fabric.NodeID(s), fabric.NodeID(d)
			if paths := p.Paths(src, dst); len(paths) > 0 {
				if err := visit(src, dst, paths); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
