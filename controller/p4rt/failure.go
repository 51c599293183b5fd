package p4rt

import (
	"errors"
	"fmt"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/ethereal-fabric/ethereal/controller"
)

// ErrRefused is wrapped if a switch refused updates; see [WriteError].
var ErrRefused = errors.New("p4rt: refused")

// ErrNotServing is returned for updates if the session is not primary, or no longer knows the switch's tables.
var ErrNotServing = errors.New("p4rt: the session does not serve")

// UpdateError is one update that a switch refused.
type UpdateError struct {
	Update  controller.Update
	Code    codes.Code
	Message string
}

func (e UpdateError) String() string {
	return fmt.Sprintf("%v: %v: %s", e.Update, e.Code, e.Message)
}

// WriteError lists the updates of a batch that a switch refused. It wraps
// [ErrRefused].
type WriteError struct {
	Updates []UpdateError // the refused updates, at least one
	Total   int           // number of updates in the batch
}

func (e *WriteError) Error() string {
	return fmt.Sprintf("%v: %d of %d updates; the first: %v", ErrRefused, len(e.Updates), e.Total, e.Updates[0])
}

func (e *WriteError) Unwrap() error { return ErrRefused }

// attributeErrors assigns the errors of an answer to a batch to its updates. It returns err itself if the batch as a
// whole failed.
func attributeErrors(err error, updates []controller.Update) error {
	st, ok := status.FromError(err)
	if !ok || st.Code() != codes.Unknown || len(st.Details()) != len(updates) {
		return err
	}
	w := &WriteError{Total: len(updates)}
	for i, d := range st.Details() {
		e, ok := d.(*p4.Error)
		if !ok {
			return err
		}
		if c := codes.Code(e.GetCanonicalCode()); c != codes.OK {
			w.Updates = append(w.Updates, UpdateError{Update: updates[i], Code: c, Message: e.GetMessage()})
		}
	}
	if len(w.Updates) == 0 {
		return err
	}
	return w
}
