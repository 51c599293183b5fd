package hostcheck

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/ethereal-fabric/ethereal/internal/checklist"
)

// rdma checks the RNIC of the interface and its RoCEv2 GIDs.
func (h *host) rdma() {
	device := ""
	found, _ := filepath.Glob(filepath.Join(h.Sys, "class/infiniband/*/ports/*/gid_attrs/ndevs/*"))
	var gids []string // paths of the interface's GIDs
	for _, path := range found {
		if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == h.Interface {
			device = strings.Split(strings.TrimPrefix(path, filepath.Join(h.Sys, "class/infiniband")+"/"), "/")[0]
			gids = append(gids, path)
		}
	}
	if device == "" {
		h.add(checklist.Unseen, "rnic", "no RDMA device on "+h.Interface+": labels are for the soft endpoint, or ethereal host tag",
			"for an RNIC, load its driver (rdma link lists devices)")
		return
	}
	h.add(checklist.Green, "rnic", device, "")
	v4 := h.Fabric.HostAddr4(h.Host)
	mapped := netip.AddrFrom16(v4.As16())
	v6 := h.Fabric.HostAddr6(h.Host)
	var indices []string
	for _, path := range gids {
		port := filepath.Dir(filepath.Dir(filepath.Dir(path)))
		index := filepath.Base(path)
		kind, err := os.ReadFile(filepath.Join(port, "gid_attrs/types", index))
		if err != nil || strings.TrimSpace(string(kind)) != "RoCE v2" {
			continue
		}
		gid, err := os.ReadFile(filepath.Join(port, "gids", index))
		if err != nil {
			continue
		}
		if a, err := netip.ParseAddr(strings.TrimSpace(string(gid))); err == nil && (a == mapped || a == v6) {
			indices = append(indices, index)
		}
	}
	if len(indices) == 0 {
		h.add(checklist.Red, "gid", fmt.Sprintf("%s has no RoCE v2 GID of %v or %v", device, v4, v6), "give the interface the address, from which the kernel makes the GID")
		return
	}
	h.add(checklist.Green, "gid", "RoCE v2 at index "+strings.Join(indices, ", "), "")
}

// qos checks the settings of congestion control that drivers show in sysfs. Priority flow control and the trust in
// DSCP need vendors' tools.
func (h *host) qos() {
	for _, side := range []string{"np", "rp"} {
		switches, _ := filepath.Glob(filepath.Join(h.Sys, "class/net", h.Interface, "ecn/roce_"+side, "enable/*"))
		on := 0
		for _, path := range switches {
			if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == "1" {
				on++
			}
		}
		check := "dcqcn, " + map[string]string{"np": "notifying", "rp": "reacting"}[side]
		switch {
		case len(switches) == 0:
			h.add(checklist.Unseen, check, "the driver does not show it", "mlnx_qos or the vendor's tool; docs/lab.md lists what to set")
		case on == 0:
			h.add(checklist.Yellow, check, "off for every priority", fmt.Sprintf("echo 1 > /sys/class/net/%s/ecn/roce_%s/enable/PRIORITY", h.Interface, side))
		default:
			h.add(checklist.Green, check, fmt.Sprintf("on for %d of %d priorities", on, len(switches)), "")
		}
	}
	h.add(checklist.Unseen, "pfc, dscp", "not in sysfs", "dcb pfc show dev "+h.Interface+"; dcb app show dev "+h.Interface+": the priority of RoCEv2's DSCP must be the one that switches pause, if any")
}
