// Package portspeed has the names that openconfig-if-ethernet gives to the speeds of ports.
package portspeed

import "fmt"

// speeds are the identities of ETHERNET_SPEED, fastest first. Rates are in Mb/s.
var speeds = []struct {
	name string
	mbps int64
}{
	{"SPEED_800GB", 800_000}, {"SPEED_600GB", 600_000}, {"SPEED_400GB", 400_000}, {"SPEED_200GB", 200_000},
	{"SPEED_100GB", 100_000}, {"SPEED_50GB", 50_000}, {"SPEED_40GB", 40_000}, {"SPEED_25GB", 25_000},
	{"SPEED_10GB", 10_000}, {"SPEED_5GB", 5000}, {"SPEED_2500MB", 2500}, {"SPEED_1GB", 1000},
	{"SPEED_100MB", 100}, {"SPEED_10MB", 10},
}

const unknown = "SPEED_UNKNOWN"

// Name returns the OpenConfig name of the fastest port speed up to mbps, in Mb/s, such as SPEED_100GB; SPEED_UNKNOWN if
// there is none.
func Name(mbps int64) string {
	for _, s := range speeds {
		if mbps >= s.mbps {
			return s.name
		}
	}
	return unknown
}

// Parse returns the speed of openconfig's name, in Mb/s, or 0 for SPEED_UNKNOWN. An unknown name is an error.
func Parse(name string) (mbps int64, err error) {
	for _, s := range speeds {
		if s.name == name {
			return s.mbps, nil
		}
	}
	if name == unknown {
		return 0, nil
	}
	return 0, fmt.Errorf("%q is no ETHERNET_SPEED of openconfig-if-ethernet, such as SPEED_400GB", name)
}
