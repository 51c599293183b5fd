package backoff

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWait(t *testing.T) {
	p := Policy{First: time.Second, Most: 10 * time.Second, Factor: 2, Jitter: 0.5}
	for _, tt := range []struct {
		failures int
		chance   float64
		want     time.Duration
	}{
		{0, 0.5, 0}, {1, 0, time.Second}, {1, 0.5, 750 * time.Millisecond},
		{2, 0, 2 * time.Second}, {3, 0, 4 * time.Second}, {4, 0, 8 * time.Second},
		{5, 0, 10 * time.Second}, {1 << 30, 0, 10 * time.Second}, {5, 1, 5 * time.Second},
	} {
		if got := p.Wait(tt.failures, tt.chance); got != tt.want {
			t.Errorf("after %d failures, chance %v: %v, want %v", tt.failures, tt.chance, got, tt.want)
		}
	}
}

func TestWaitBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			First: time.Duration(rapid.Int64Range(1, 1e10).Draw(t, "first")),
			Most:  time.Duration(rapid.Int64Range(1e10, 1e12).Draw(t, "most")), Factor: rapid.Float64Range(1, 10).Draw(t, "factor"),
			Jitter: rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		n := rapid.IntRange(1, 100).Draw(t, "failures")
		w, longest := p.Wait(n, rapid.Float64Range(0, 0.999).Draw(t, "chance")), p.Wait(n, 0)
		if w < 0 || w > p.Most || w > longest || float64(w) < float64(longest)*(1-p.Jitter)-1 {
			t.Fatalf("waits %v; the longest is %v", w, longest)
		}
		if n > 1 && longest < p.Wait(n-1, 0) {
			t.Fatalf("waits %v after %d failures, %v after one fewer", longest, n, p.Wait(n-1, 0))
		}
	})
}

func TestValidate(t *testing.T) {
	if err := (Policy{}).Validate(); err != nil {
		t.Errorf("the zero policy: %v", err)
	}
	for _, p := range []Policy{
		{First: -1, Most: 1, Factor: 1}, {First: 2, Most: 1, Factor: 1}, {First: 1, Most: 1, Factor: 0.5},
		{First: 1, Most: 1, Factor: 1, Jitter: 2},
	} {
		if err := p.Validate(); !errors.Is(err, ErrPolicy) {
			t.Errorf("%+v: %v, want ErrPolicy", p, err)
		}
	}
}
