//go:build !linux

package ebpf

type claim struct{}

func claimInterface(int) (c claim, _ error) { return c, nil }

func (claim) releaseName() {}
