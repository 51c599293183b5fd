package p4rt

import (
	"fmt"
	"slices"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"

	"github.com/ethereal-fabric/ethereal/controller"
)

// Writer is the sender's identity in write requests: device, role, election ID.
type Writer struct {
	DeviceID   uint64
	ElectionID *p4.Uint128
	// BatchSize is the largest number of updates in one request; 0 means no limit.
	BatchSize int
}

// Batch is a write request and its updates, in the same order, so that errors of the answer can be matched to updates.
type Batch struct {
	Request *p4.WriteRequest
	Updates []controller.Update
}

// WriteRequests returns the updates as requests to be sent one after the other. A request carries updates of one
// phase only (controller.Update.Phase), since a server need not keep their order. Batches are CONTINUE_ON_ERROR,
// the only kind that every target supports.
func (s *Schema) WriteRequests(w Writer, updates []controller.Update) ([]Batch, error) {
	if w.BatchSize < 0 {
		return nil, fmt.Errorf("p4rt: batch size %d is below 0", w.BatchSize)
	}
	var out []Batch
	for _, phase := range controller.Phases(s.SupportedUpdates(updates)) {
		size := len(phase)
		if w.BatchSize > 0 {
			size = w.BatchSize
		}
		for us := range slices.Chunk(phase, size) {
			b := Batch{
				Request: &p4.WriteRequest{
					DeviceId: w.DeviceID, ElectionId: w.ElectionID,
					Atomicity: p4.WriteRequest_CONTINUE_ON_ERROR,
				},
				Updates: us,
			}
			for _, u := range us {
				encoded, err := s.Encode(u)
				if err != nil {
					return nil, err
				}
				b.Request.Updates = append(b.Request.Updates, encoded)
			}
			out = append(out, b)
		}
	}
	return out, nil
}

// DeleteRequest returns the request that deletes entities as they were read.
func DeleteRequest(w Writer, entities []*p4.Entity) *p4.WriteRequest {
	req := &p4.WriteRequest{DeviceId: w.DeviceID, ElectionId: w.ElectionID}
	for _, e := range entities {
		req.Updates = append(req.Updates, &p4.Update{Type: p4.Update_DELETE, Entity: e})
	}
	return req
}

// ReadAll returns the request for everything that [Schema.Decode] understands.
func (s *Schema) ReadAll(deviceID uint64) *p4.ReadRequest {
	req := &p4.ReadRequest{DeviceId: deviceID}
	for _, t := range controller.Tables() {
		if t == controller.MulticastGroup {
			if !s.lacksTable(t) { // as below
				req.Entities = append(req.Entities, groupEntity(&p4.MulticastGroupEntry{}))
			}
			continue
		}
		if t == controller.CloneSession {
			// Session 0 does not exist: it means all sessions.
			req.Entities = append(req.Entities, &p4.Entity{Entity: &p4.Entity_PacketReplicationEngineEntry{
				PacketReplicationEngineEntry: &p4.PacketReplicationEngineEntry{
					Type: &p4.PacketReplicationEngineEntry_CloneSessionEntry{CloneSessionEntry: &p4.CloneSessionEntry{}},
				},
			}})
			continue
		}
		ids, ok := s.tables[t]
		if !ok { // an optional table
			continue
		}
		te := &p4.TableEntry{TableId: ids.id, IsDefaultAction: t.Layout().Match == controller.Keyless}
		req.Entities = append(req.Entities, &p4.Entity{Entity: &p4.Entity_TableEntry{TableEntry: te}})
	}
	return req
}
