package portspeed_test

import (
	"testing"

	"github.com/ethereal-fabric/ethereal/internal/portspeed"
)

func TestName(t *testing.T) {
	for mbps, want := range map[int64]string{
		0: "SPEED_UNKNOWN", 9: "SPEED_UNKNOWN", 10: "SPEED_10MB", 2500: "SPEED_2500MB", 9999: "SPEED_5GB",
		399_999: "SPEED_200GB", 400_000: "SPEED_400GB", 1_600_000: "SPEED_800GB",
	} {
		if got := portspeed.Name(mbps); got != want {
			t.Errorf("%d Mb/s is %s, not %s", mbps, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for name, want := range map[string]int64{"SPEED_400GB": 400_000, "SPEED_2500MB": 2500, "SPEED_UNKNOWN": 0} {
		if got, err := portspeed.Parse(name); err != nil || got != want {
			t.Errorf("%s is %d Mb/s, %v; not %d", name, got, err, want)
		}
	}
	if _, err := portspeed.Parse("SPEED_7GB"); err == nil {
		t.Error("SPEED_7GB is accepted")
	}
}
