//go:build unix

package durable

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// createPipe opens a named pipe. A reader that stops reading holds up a program for a second after the end of ctx.
func createPipe(ctx context.Context, path string) (*Output, error) {
	for {
		file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			end := func() { file.SetWriteDeadline(time.Now().Add(stallTimeout)) } //nolint:errcheck // a pipe has deadlines
			return &Output{file: file, stop: context.AfterFunc(ctx, end)}, nil
		}
		if !errors.Is(err, syscall.ENXIO) {
			return nil, err
		}
		select { // no reader yet
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pipePoll):
		}
	}
}
