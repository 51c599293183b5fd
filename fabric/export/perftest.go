package export

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/ethereal-fabric/ethereal/fabric"
)

// flowLabel returns the flow label from which drivers compute a path's UDP source port: its upper six bits are 1,
// and change the lower six.
func flowLabel(l fabric.Label) uint32 { return 0xFC000 | uint32(l) ^ 0x3F }

// Perftest writes two commands of perftest that send from host src to dst, with one queue pair and flow label per path;
// gid is the RNIC's GID index. The first command is the receiver's, whose answers also use all paths; the second is the
// sender's.
func (p *Plan) Perftest(w io.Writer, src, dst fabric.NodeID, gid int) error {
	paths, back := p.Paths(src, dst), p.Paths(dst, src)
	if len(paths) == 0 {
		return fmt.Errorf("%w: perftest: %s and %s are under one ToR, where no label matters; name hosts of two",
			ErrPlan, p.Fabric.Name(src), p.Fabric.Name(dst))
	}
	command := func(paths []Path) string {
		labels := make([]string, len(paths))
		for i, x := range paths {
			labels[i] = strconv.Itoa(int(flowLabel(x.Label)))
		}
		return fmt.Sprintf("ib_write_bw -F -x %d -q %d --report_gbits --flow_label=%s", gid, len(paths), strings.Join(labels, ","))
	}
	_, err := fmt.Fprintf(w, "# on %s\n%s\n# on %s\n%s %v\n", p.Fabric.Name(dst), command(back), p.Fabric.Name(src),
		command(paths), p.Fabric.HostAddr4(dst))
	return err
}
