package p4rt

import (
	"context"
	"errors"
	"fmt"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/controller/targets"
)

// Tables is the content read from a switch's tables.
type Tables struct {
	Entries []controller.Entry // sorted by controller.Key.Compare
	// Stray are entities in the controller's tables that none of its updates produces. They must be deleted before
	// anything is inserted.
	Stray []*p4.Entity
	// StrayReasons is the reason for each stray entity, as an error.
	StrayReasons []error
}

// Fetch reads the tables of a switch. It needs no stream: any client may read.
func Fetch(ctx context.Context, client p4.P4RuntimeClient, schema *Schema, device uint64) (Tables, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends an abandoned stream
	stream, err := client.Read(ctx, schema.ReadAll(device))
	if err != nil {
		return Tables{}, fmt.Errorf("p4rt: reading the tables: %w", err)
	}
	var entities []*p4.Entity
	if err := targets.ReadEntities(stream, func(es []*p4.Entity) { entities = append(entities, es...) }); err != nil {
		return Tables{}, fmt.Errorf("p4rt: reading the tables: %w", err)
	}
	return Collect(schema, entities), nil
}

func (h *Tables) addEntity(s *Schema, e *p4.Entity) {
	entry, err := s.Decode(e)
	if err == nil {
		// An entry that cannot be written cannot be deleted either: its bytes are sent back unchanged.
		_, err = s.EncodeEntry(entry, true)
	}
	switch {
	case errors.Is(err, ErrForeign):
	case err != nil:
		if e.GetTableEntry().GetIsDefaultAction() {
			return // it is overwritten
		}
		h.Stray, h.StrayReasons = append(h.Stray, e), append(h.StrayReasons, err)
	case entry.Table.Layout().Match == controller.Keyless && entry.Action == controller.NoAction:
		// A default action that was never set.
	default:
		h.Entries = append(h.Entries, entry)
	}
}
