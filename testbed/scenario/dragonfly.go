package scenario

import "fmt"

// checkDragonfly refuses settings that need a Clos fabric.
func (s *Scenario) checkDragonfly(bad reportError) {
	kind := s.Fabric.Kind
	if s.FlowControl().Enabled() {
		bad("switch.pfc", "lossless switches could deadlock in a "+kind+", since all data has one class", "leave it out")
	}
	if s.Host.Carrier == SRv6USID {
		bad("host.carrier", "paths of a "+kind+" have more switches than an address has micro segments", "use udp-sport or ipv6-flowlabel")
	}
	for i, c := range s.Schemes {
		path := fmt.Sprintf("schemes[%d]", i)
		spec, err := c.Spec()
		switch {
		case err != nil: // reported elsewhere
		case spec.InSwitches():
			bad(path, c.Name+" balances among a switch's uplinks, and a switch of a "+kind+" has one minimal path", "use a scheme of hosts, or ugal")
		case spec.SharesSuspicion(c.Params):
			bad(path+".params.suspicion", "controllers do not probe the links of a "+kind, "leave it out")
		case c.Params["uplinks"] != "":
			bad(path+".params.uplinks", "hosts of a "+kind+" use all paths", "leave it out")
		}
	}
}
