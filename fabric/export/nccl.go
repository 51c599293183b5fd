package export

import (
	"fmt"
	"io"

	"github.com/ethereal-fabric/ethereal/internal/ratio"
)

// maxQPs is the most queue pairs that NCCL opens for a connection.
const maxQPs = 128

// NCCL writes environment variables for a job of NCCL with the given number of senders under each ToR: as many queue
// pairs per connection as give all paths equal shares, with every message split over them.
func (p *Plan) NCCL(w io.Writer, senders int) error {
	f := p.Fabric
	paths := len(f.PathLabels(f.ToRID(0), f.ToRID(f.ToRs()-1)))
	switch {
	case paths == 0:
		return fmt.Errorf("%w: nccl: a fabric of one ToR has no paths to share", ErrPlan)
	case senders < 1:
		return fmt.Errorf("%w: nccl: %d senders under a ToR; write 1 or more", ErrPlan, senders)
	}
	k := paths / ratio.GCD(senders, paths)
	if k > maxQPs {
		return fmt.Errorf("%w: nccl: %d senders share %d paths by %d queue pairs each, and NCCL opens %d; "+
			"use a number of senders that divides more of the paths", ErrPlan, senders, paths, k, maxQPs)
	}
	_, err := fmt.Fprintf(w, "NCCL_IB_QPS_PER_CONNECTION=%d\nNCCL_IB_SPLIT_DATA_ON_QPS=1\n", k)
	return err
}
