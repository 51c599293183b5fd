package main

import (
	"errors"
	"fmt"

	"github.com/ethereal-fabric/ethereal/testbed/runner"
)

// Matched by errors that are not about the input: exit code 1, not 2.
var (
	errRun         = errors.New("run failed")
	errInterrupted = runner.ErrInterrupted
)

// failedError is an error that matches errRun. Its text is the cause alone.
type failedError struct{ error }

func (e failedError) Unwrap() error        { return e.error }
func (e failedError) Is(target error) bool { return target == errRun }

// failure is fmt.Errorf for what went wrong although the input is right.
func failure(format string, args ...any) error { return failedError{fmt.Errorf(format, args...)} }
