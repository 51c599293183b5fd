package p4runtime

import (
	"errors"
	"fmt"

	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"

	"github.com/ethereal-fabric/ethereal/p4switch/interp"
	"github.com/ethereal-fabric/ethereal/p4switch/program"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

// fromSwitch converts an error of the data plane to its canonical code.
func fromSwitch(err error) error {
	if err == nil {
		return nil
	}
	code := codes.Internal
	switch {
	case errors.Is(err, interp.ErrNotFound):
		code = codes.NotFound
	case errors.Is(err, interp.ErrExists):
		code = codes.AlreadyExists
	case errors.Is(err, interp.ErrFull):
		code = codes.ResourceExhausted
	case errors.Is(err, interp.ErrConst):
		code = codes.PermissionDenied
	case errors.Is(err, interp.ErrInUse):
		code = codes.FailedPrecondition
	case errors.Is(err, interp.ErrInvalid):
		code = codes.InvalidArgument
	case errors.Is(err, program.ErrUnsupported):
		code = codes.Unimplemented
	}
	return rpc.Errorf(code, "%s", err.Error())
}

// maxMessage is the largest text about one element, in bytes.
const maxMessage = 512

// toP4Error returns the p4.Error of one element of a batch; nil means OK.
func toP4Error(err error) *p4.Error {
	if err == nil {
		return &p4.Error{CanonicalCode: int32(codes.OK)}
	}
	st, _ := status.FromError(rpc.Status(err))
	return &p4.Error{CanonicalCode: int32(st.Code()), Message: st.Message()[:min(len(st.Message()), maxMessage)]}
}

// maxMessages is the number of failed elements of a batch that have a text. The others have only their code: the
// texts travel in the answer's trailer, whose size clients limit.
const maxMessages = 64

// batchError returns the status of a batch with one p4.Error per element, or nil if no element failed. Elements
// above the budget are not described.
func (c *Core) batchError(what string, errs []error) error {
	failed, n := 0, len(errs)
	var first error
	for _, err := range errs {
		if err != nil {
			failed++
			if first == nil || status.Code(rpc.Status(first)) == codes.Aborted { // because of another
				first = err
			}
		}
	}
	if failed == 0 {
		return nil
	}
	note := ""
	if len(errs) > c.budget.ListedErrors {
		note = fmt.Sprintf(" (the first %d are described, the budget details)", c.budget.ListedErrors)
		errs = errs[:c.budget.ListedErrors]
	}
	st := status.Newf(codes.Unknown, "switch: %d of %d %s failed%s, the first: %v", failed, n, what, note, first)
	details := make([]protoadapt.MessageV1, len(errs))
	described := 0
	for i, err := range errs {
		e := toP4Error(err)
		if err != nil {
			if described++; described > maxMessages {
				e.Message = ""
			}
		}
		details[i] = protoadapt.MessageV1Of(e)
	}
	withDetails, err := st.WithDetails(details...)
	if err != nil {
		return st.Err()
	}
	return withDetails.Err()
}
