package p4runtime

import (
	"slices"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

func (b *schemaBuilder) bindDigests() error {
	err := bindAll(b, &b.digests, b.info.GetDigests(), declaredInP4Info, func(o object, _ struct{}, d *p4config.Digest) (*digestSchema, error) {
		ds := &digestSchema{object: o, spec: d.GetTypeSpec()}
		ds.leaves, ds.err = b.scalarsOf(nil, ds.spec, 0)
		for id := range b.prog.Digests {
			if b.prog.Digests[id].Name == o.name {
				if ds.err == nil && !ds.fitsWidths(b.prog.Digests[id].Widths) {
					ds.err = missingInProgram("another type of digest", o.name)
				}
				ds.dids = append(ds.dids, program.DigestID(id))
			}
		}
		return ds, nil
	})
	b.bindUnnamedDigests()
	b.digests.list = slices.DeleteFunc(b.digests.list, func(ds *digestSchema) bool {
		if len(ds.dids) > 0 {
			return false
		}
		delete(b.digests.byID, ds.id)
		b.absent[ds.id] = "digest " + ds.name
		return true
	})
	return err
}

// bindUnnamedDigests pairs digests of tuples and single values, for which the compiler invents different names in
// the P4Info (digest_0) and in the JSON (tuple_0), by type and order.
func (b *schemaBuilder) bindUnnamedDigests() {
	taken := map[program.DigestID]bool{}
	for _, ds := range b.digests.list {
		for _, id := range ds.dids {
			taken[id] = true
		}
	}
	for _, ds := range b.digests.list {
		if len(ds.dids) > 0 {
			continue
		}
		for i := range b.prog.Digests {
			if id := program.DigestID(i); !taken[id] && ds.fitsWidths(b.prog.Digests[i].Widths) {
				ds.dids, taken[id] = []program.DigestID{id}, true
				break
			}
		}
	}
}

// fitsWidths reports whether a digest of the program has the type's scalars. A translated type has the program's width.
func (ds *digestSchema) fitsWidths(widths []int) bool {
	if ds.err != nil || len(widths) != len(ds.leaves) {
		return false
	}
	for i, l := range ds.leaves {
		if l.width != widths[i] && !l.translated {
			return false
		}
	}
	for i := range ds.leaves {
		if l := &ds.leaves[i]; l.named != nil {
			l.width = widths[i]
			l.named.narrowTo(l.width)
		}
	}
	return true
}
