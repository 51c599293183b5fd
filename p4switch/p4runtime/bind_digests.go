package p4runtime

import (
	"slices"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

func (b *binder) bindDigests() error {
	for _, d := range b.info.GetDigests() {
		o, err := b.object("digest", d.GetPreamble())
		if err != nil {
			return err
		}
		ds := &digestSchema{object: o, spec: d.GetTypeSpec()}
		ds.leaves, ds.err = b.leaves(nil, ds.spec, 0)
		for id := range b.prog.Digests {
			if b.prog.Digests[id].Name == o.name {
				if ds.err == nil && !ds.fits(b.prog.Digests[id].Widths) {
					ds.err = missing("another type of digest", o.name)
				}
				ds.dids = append(ds.dids, program.DigestID(id))
			}
		}
		b.digestList = append(b.digestList, ds)
	}
	b.bindUnnamedDigests()
	b.digestList = slices.DeleteFunc(b.digestList, func(ds *digestSchema) bool {
		if len(ds.dids) > 0 {
			b.digests[ds.id] = ds
			return false
		}
		b.absent[ds.id] = "digest " + ds.name
		return true
	})
	return nil
}

// bindUnnamedDigests pairs digests of tuples and single values, for which the compiler invents different names in
// the P4Info (digest_0) and in the JSON (tuple_0), by type and order.
func (b *binder) bindUnnamedDigests() {
	taken := map[program.DigestID]bool{}
	for _, ds := range b.digestList {
		for _, id := range ds.dids {
			taken[id] = true
		}
	}
	for _, ds := range b.digestList {
		if len(ds.dids) > 0 {
			continue
		}
		for i := range b.prog.Digests {
			if id := program.DigestID(i); !taken[id] && ds.fits(b.prog.Digests[i].Widths) {
				ds.dids, taken[id] = []program.DigestID{id}, true
				break
			}
		}
	}
}

// fits reports whether a digest of the program has the type's scalars. A translated type has the program's width.
func (ds *digestSchema) fits(widths []int) bool {
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
			l.named.narrow(l.width)
		}
	}
	return true
}
