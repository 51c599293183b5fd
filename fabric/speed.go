package fabric

import "github.com/ethereal-fabric/ethereal/internal/portspeed"

// SpeedName returns openconfig's name of the fastest port speed up to rate: [portspeed.Name].
func SpeedName(rate Rate) string { return portspeed.Name(int64(rate / Mbps)) }

// ParseSpeed returns the rate of a port speed by openconfig's name, or 0 for SPEED_UNKNOWN: [portspeed.Parse].
func ParseSpeed(name string) (Rate, error) {
	mbps, err := portspeed.Parse(name)
	return Rate(mbps) * Mbps, err
}
