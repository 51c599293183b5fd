//go:build !unix

package durable

import (
	"context"
	"os"
)

// createPipe opens a named pipe.
func createPipe(_ context.Context, path string) (*Output, error) {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return &Output{file: file}, nil
}
