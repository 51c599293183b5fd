package p4rt

import (
	"errors"
	"strings"
	"testing"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
)

func TestFits(t *testing.T) {
	s := ethereal(t).Schema()
	for _, es := range someTables(t) {
		if err := s.Fits(es); err != nil {
			t.Error(err)
		}
	}
	ids := s.tables[controller.ECMP]
	if ids.shares == 0 || s.tables[controller.SourceRoute].size == 0 {
		t.Fatal("the program states no limits")
	}
	var wide, many []controller.Entry
	for g := int64(0); g*64 <= ids.shares; g++ {
		e := controller.Entry{Key: controller.Key{Table: controller.ECMP, Value: controller.Value{Lo: uint64(g)}}, Action: controller.TakeUplink}
		for p := range 64 {
			e.Members = append(e.Members, controller.Member{Port: fabric.PortNo(p + 1), Weight: 1})
		}
		wide = append(wide, e)
	}
	for i := int64(0); i <= s.tables[controller.SourceRoute].size; i++ {
		many = append(many, controller.Entry{Key: controller.Key{Table: controller.SourceRoute, Value: controller.Value{Lo: uint64(i)}}})
	}
	for _, tt := range []struct {
		entries []controller.Entry
		want    string
	}{{wide, "shares together"}, {many, "room for"}} {
		if err := s.Fits(tt.entries); !errors.Is(err, ErrEntry) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}
