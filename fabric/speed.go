package fabric

import "fmt"

// speeds are the identities of openconfig-if-ethernet's ETHERNET_SPEED, fastest first.
var speeds = []struct {
	name string
	rate Rate
}{
	{"SPEED_800GB", 800 * Gbps}, {"SPEED_600GB", 600 * Gbps}, {"SPEED_400GB", 400 * Gbps},
	{"SPEED_200GB", 200 * Gbps}, {"SPEED_100GB", 100 * Gbps}, {"SPEED_50GB", 50 * Gbps},
	{"SPEED_40GB", 40 * Gbps}, {"SPEED_25GB", 25 * Gbps}, {"SPEED_10GB", 10 * Gbps},
	{"SPEED_5GB", 5 * Gbps}, {"SPEED_2500MB", 2500 * Mbps}, {"SPEED_1GB", Gbps},
	{"SPEED_100MB", 100 * Mbps}, {"SPEED_10MB", 10 * Mbps},
}

const unknownSpeed = "SPEED_UNKNOWN"

// SpeedName returns the identity of the fastest speed up to rate.
func SpeedName(rate Rate) string {
	for _, s := range speeds {
		if rate >= s.rate {
			return s.name
		}
	}
	return unknownSpeed
}

// ParseSpeed returns the rate of a speed's identity, or 0 for SPEED_UNKNOWN. An identity that is not in the list is
// an error, since a wrong rate would unload a link, or overload it.
func ParseSpeed(name string) (Rate, error) {
	for _, s := range speeds {
		if s.name == name {
			return s.rate, nil
		}
	}
	if name == unknownSpeed {
		return 0, nil
	}
	return 0, fmt.Errorf("%q is no ETHERNET_SPEED of openconfig-if-ethernet, such as SPEED_400GB", name)
}
