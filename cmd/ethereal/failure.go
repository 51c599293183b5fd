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

// failedf is like fmt.Errorf, for errors that are not caused by the user's input.
func failedf(format string, args ...any) error { return failedError{fmt.Errorf(format, args...)} }
