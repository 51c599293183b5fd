package p4rt

import (
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller"
)

// Collect splits the entities of a switch's answer to [Schema.ReadAll] into the controller's entries and stray ones.
func Collect(schema *Schema, entities []*p4.Entity) Tables {
	var h Tables
	for _, e := range entities {
		h.addEntity(schema, e)
	}
	h.Entries = schema.addLackingEntries(h.Entries)
	slices.SortStableFunc(h.Entries, func(a, b controller.Entry) int { return a.Compare(b.Key) })
	// A switch whose tables change meanwhile may report an entry twice. The duplicate must not be deleted.
	h.Entries = slices.CompactFunc(h.Entries, func(a, b controller.Entry) bool { return a.Key == b.Key })
	return h
}
