package bench

import "github.com/ethereal-fabric/ethereal/fabric"

// FatTree returns the fabric on which the growth of time and memory with the number of GPUs is measured, for 64 GPUs or
// a multiple of 128 up to 32,768: a fat-tree with 16 GPUs per ToR, 16 paths between pods, no oversubscription, and
// links of 400 Gb/s. ok is false for other numbers.
func FatTree(gpus int) (spec fabric.Spec, ok bool) {
	spec = fabric.Spec{Kind: fabric.KindFatTree, Pods: gpus / 64, ToRsPerPod: 4, AggsPerPod: 4, Cores: 16, HostsPerToR: 16}
	link := func(r fabric.Rate) fabric.LinkSpec {
		return fabric.LinkSpec{Rate: r, Delay: 500 * fabric.Nanosecond}
	}
	spec.HostLink, spec.ToRUplink, spec.AggUplink = link(400e9), link(1600e9), link(1600e9)
	switch {
	case gpus == 64:
		spec.Pods, spec.ToRsPerPod, spec.AggUplink = 2, 2, link(800e9)
	case gpus > 8192:
		spec.Pods, spec.ToRsPerPod, spec.AggUplink = gpus/128, 8, link(3200e9)
	}
	return spec, gpus >= 64 && (gpus == 64 || gpus%128 == 0) && gpus <= 32768
}
