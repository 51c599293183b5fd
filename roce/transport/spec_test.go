package transport

import (
	"errors"
	"slices"
	"testing"
)

// TestSpecs: what a transport or a rate control declares is what it is made of.
func TestSpecs(t *testing.T) {
	f := newWorld(t, 2, nil).f
	names := map[string]bool{}
	for _, s := range Specs() {
		t.Run(s.Name, func(t *testing.T) {
			if names[s.Name] || s.Summary == "" {
				t.Errorf("its name is another's, or it has no summary: %q", s.Summary)
			}
			names[s.Name] = true
			if found, err := Find(s.Kind, s.Name); err != nil || found.Name != s.Name || found.Kind != s.Kind {
				t.Errorf("found %v, %v", found, err)
			}
			if s.Kind == Transport {
				if _, err := New(Config{Fabric: f, Receiver: Receiver(s.Name)}, nil); err != nil {
					t.Error(err)
				}
				return
			}
			n := s.Needs
			if n.DataField < 0 || n.DataField > MaxField || n.AckField < 0 || n.AckField > MaxField || n.Stamp != nil && n.DataField == 0 {
				t.Errorf("needs %+v; fields have up to %d bytes, and switches write into one", n, MaxField)
			}
			e, err := New(Config{Fabric: f, Receiver: Ideal, Control: Control(s.Name)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if e.control.pacer == nil || (n.AckField > 0) != (e.control.ack != nil) || (e.control.credit != nil) != n.OneLink {
				t.Errorf("parts %+v for needs %+v", e.control, n)
			}
			for _, p := range s.Params {
				if err := s.Check(map[string]string{p.Name: "much"}); !errors.Is(err, ErrConfig) || p.Meaning == "" {
					t.Errorf("%s, with %q: it takes %q: %v", p.Name, p.Meaning, "much", err)
				}
			}
			if err := s.Check(map[string]string{"colour": "red"}); !errors.Is(err, ErrConfig) {
				t.Errorf("takes any parameter: %v", err)
			}
			_, err = New(Config{Fabric: f, Receiver: GoBackN, Control: Control(s.Name)}, nil)
			if n.AnyOrder != errors.Is(err, ErrConfig) {
				t.Errorf("with %s: %v", GoBackN, err)
			}
		})
	}
	for k, first := range map[Kind]string{Transport: string(GoBackN), RateControl: string(DCTCP)} {
		if s, err := Find(k, ""); err != nil || s.Name != first || slices.Index(Names(k), first) != 0 {
			t.Errorf("the default %v is %v, %v", k, s.Name, err)
		}
	}
}
