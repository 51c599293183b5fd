package rpc

import (
	"errors"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// opError is the error of one update or one read request: a canonical code and a sentence that names the object and
// the remedy.
type opError struct {
	code codes.Code
	msg  string
}

func (e *opError) Error() string { return e.msg }

// GRPCStatus converts an opError to a gRPC status.
func (e *opError) GRPCStatus() *status.Status { return status.New(e.code, "switch: "+e.msg) }

// Errorf returns an error with a gRPC code. The text names the object and the remedy.
func Errorf(code codes.Code, format string, args ...any) error {
	return &opError{code: code, msg: fmt.Sprintf(format, args...)}
}

// Invalidf returns an error with the code INVALID_ARGUMENT.
func Invalidf(format string, args ...any) error {
	return Errorf(codes.InvalidArgument, format, args...)
}

// NotFoundf returns an error with the code NOT_FOUND.
func NotFoundf(format string, args ...any) error {
	return Errorf(codes.NotFound, format, args...)
}

// Status converts an error of the package to a gRPC status error.
func Status(err error) error {
	if err == nil {
		return nil
	}
	if op, ok := errors.AsType[*opError](err); ok {
		return op.GRPCStatus().Err()
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Error(codes.Internal, "switch: "+err.Error())
}

// PrefixError prefixes an error with the object's name and keeps its code.
func PrefixError(what string, err error) error {
	if err == nil {
		return nil
	}
	if op, ok := errors.AsType[*opError](err); ok {
		return &opError{code: op.code, msg: what + ": " + op.msg}
	}
	return fmt.Errorf("%s: %w", what, err)
}
