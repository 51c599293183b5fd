package hostagent

import "github.com/ethereal-fabric/ethereal/fabric"

// dueQuestion is an entry of the heap of questions; it is as old as the last push of its question or older.
type dueQuestion struct {
	at  fabric.Time
	seq uint64
	q   *question
}

// Before orders questions by time, then as they came.
func (d dueQuestion) Before(o dueQuestion) bool { return d.at < o.at || d.at == o.at && d.seq < o.seq }
