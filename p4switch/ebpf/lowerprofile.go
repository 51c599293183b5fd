package ebpf

import (
	"fmt"

	"github.com/cilium/ebpf/asm"

	"github.com/ethereal-fabric/ethereal/p4switch/program"
)

// loweredProfile is an action profile that the kernel looks up, in three maps: members by place, with the action's id
// plus one and the arguments; groups by place, with the number of a list and how long it is; and the lists, with the
// place of a member by number and position. A list does not change: a group gets another.
type loweredProfile struct {
	ID        program.ProfileID
	ValueSize int // of a member, bytes
}

// Actions of entries in tables with a profile: which member or group, in the upper half of the word.
const (
	targetMember = 1 << 21
	targetGroup  = 1 << 22
)

// maxMembers is how many members, groups, and members of groups a profile may have.
const maxMembers = 1 << 20

func (l *lowering) profileLayout() {
	for i := range l.p.Profiles {
		words := 0
		for _, a := range l.p.Profiles[i].Actions {
			words = max(words, l.p.Actions[a].Words)
		}
		l.out.Profiles = append(l.out.Profiles, loweredProfile{program.ProfileID(i), 8 + 8*words})
	}
}

// lookupUint32 emits a map lookup of the 32-bit key in R0; R0 is then the address of the value.
func (l *lowering) lookupUint32(name string, missing string) {
	l.emit(
		asm.StoreMem(asm.R10, -4, asm.R0, asm.Word),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -4),
		asm.LoadMapPtr(asm.R1, 0).WithReference(name),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, missing),
	)
}

// lowerActionProfile replaces an entry's member or group by the member's action and arguments. A group without live
// members goes on at empty, as if no entry had been found.
func (l *lowering) lowerActionProfile(t *program.Table, empty string) {
	id := t.Info.Profile
	member, found, done, selector := l.newLabel(), l.newLabel(), l.newLabel(), l.p.Profiles[id].Calculation
	changing := l.interpreterLabel(missingMember)
	l.loadScratch(asm.R0, l.act)
	l.emit(
		asm.Mov.Reg32(asm.R1, asm.R0),
		asm.JEq.Imm(asm.R1, targetMember, member),
	)
	if selector < 0 { // there are no groups
		l.emitJump(done)
	} else {
		l.selectMember(id, selector, found, empty, done)
	}
	l.placeLabel(member)
	l.emit(asm.RSh.Imm(asm.R0, 32))
	l.placeLabel(found)
	l.lookupUint32(fmt.Sprintf("pm%d", id), changing)
	for i := range t.ArgMax {
		l.emit(asm.LoadMem(asm.R1, asm.R0, int16(8+8*i), asm.DWord))
		l.storeScratch((int(l.p.Args)+i)*8, asm.R1)
	}
	l.emit(asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord))
	for k, a := range t.Info.Actions {
		other := l.newLabel()
		l.emit(asm.JNE.Imm(asm.R1, int32(a.ID)+1, other))
		l.putImm(l.act, int32(k)+1)
		l.emitJump(done)
		l.placeLabel(other)
	}
	l.emitJump(l.interpreterLabel("a member whose action is not the table's"))
	l.placeLabel(done)
}

const missingMember = "a member or group that is not there yet"

// selectMember emits code that puts the index of a group's selected member into R0, and jumps to found.
func (l *lowering) selectMember(id program.ProfileID, selector int, found, empty, done string) {
	changing := l.interpreterLabel(missingMember)
	l.emit(
		asm.JNE.Imm(asm.R1, targetGroup, done),
		asm.RSh.Imm(asm.R0, 32),
	)
	l.lookupUint32(fmt.Sprintf("pg%d", id), changing)
	l.emit(
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Mov.Reg32(asm.R2, asm.R1),
		asm.JEq.Imm(asm.R2, 0, empty),
	)
	l.storeScratch(l.key, asm.R1)
	one := l.newLabel()
	l.emit(asm.Mov.Imm(asm.R0, 0), asm.JEq.Imm(asm.R2, 1, one))
	l.lowerCalculation(selector)
	l.placeLabel(one)
	l.loadScratch(asm.R1, l.key)
	l.emit(
		asm.Mov.Reg32(asm.R2, asm.R1),
		asm.Mod.Reg(asm.R0, asm.R2),
		asm.RSh.Imm(asm.R1, 32), asm.LSh.Imm(asm.R1, 32),
		asm.Or.Reg(asm.R0, asm.R1),
		asm.StoreMem(asm.R10, -16, asm.R0, asm.DWord),
		asm.Mov.Reg(asm.R2, asm.R10),
		asm.Add.Imm(asm.R2, -16),
		asm.LoadMapPtr(asm.R1, 0).WithReference(fmt.Sprintf("pl%d", id)),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, changing),
		asm.LoadMem(asm.R0, asm.R0, 0, asm.Word),
	)
	l.emitJump(found)
}
