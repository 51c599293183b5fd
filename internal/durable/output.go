package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Output is a file that a program writes piece by piece. It replaces an existing file only when Close succeeds, so that
// a full disk does not destroy that.
type Output struct {
	file      *os.File
	finalPath string // which the file replaces when it is closed; empty: it is written in place
	failed    error
	stop      func() bool
}

// pipePoll is how often [Create] looks whether a pipe has a reader, and stalled how long a reader may take after the
// end of ctx.
const (
	pipePoll     = 20 * time.Millisecond
	stallTimeout = time.Second
)

// Create opens a file to be written. An existing regular file is replaced by Close; a new file, and anything but a
// regular file, is written directly. If it is a pipe without a reader, Create waits for one until ctx ends.
func Create(ctx context.Context, path string) (*Output, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.Mode()&os.ModeNamedPipe != 0:
		return createPipe(ctx, path)
	case err == nil && info.Mode().IsRegular() && !isOpenFile(path):
		if o, err := createBeside(path, info.Mode().Perm()); !errors.Is(err, fs.ErrPermission) {
			return o, err
		} // the folder may not be written, but the file may
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &Output{file: file}, nil
}

// isOpenFile reports whether a path names something that is open already, such as /dev/stdout.
func isOpenFile(path string) bool {
	path, err := filepath.Abs(path)
	return err != nil || strings.HasPrefix(path, "/dev/") || strings.HasPrefix(path, "/proc/")
}

// createBeside makes the file that will replace one.
func createBeside(path string, mode os.FileMode) (*Output, error) {
	file, err := os.OpenFile(path, os.O_WRONLY, 0) // may it be written?
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	if file, err = os.CreateTemp(filepath.Dir(real), "."+filepath.Base(real)+"-*"); err != nil {
		return nil, err
	}
	if err := file.Chmod(mode); err != nil {
		return nil, errors.Join(err, file.Close(), os.Remove(file.Name()))
	}
	return &Output{file: file, finalPath: real}, nil
}

// Write implements io.Writer.
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.file.Write(b)
	if e := (*fs.PathError)(nil); o.finalPath != "" && errors.As(err, &e) {
		err = fmt.Errorf("%s, which is as it was: write: %w", o.finalPath, e.Err)
	}
	if err != nil && o.failed == nil {
		o.failed = err
	}
	return n, err
}

// Fail makes Close keep the existing file.
func (o *Output) Fail(err error) { o.failed = errors.Join(o.failed, err) }

// Close completes the file. After an error, here or of Write or Fail, an existing file is unchanged.
func (o *Output) Close() error {
	if o.stop != nil {
		o.stop()
	}
	if o.finalPath == "" {
		return o.file.Close()
	}
	err := o.failed
	if err == nil {
		err = o.file.Sync()
	}
	closed := o.file.Close()
	if err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(o.file.Name(), o.finalPath)
	}
	if err != nil {
		return errors.Join(err, os.Remove(o.file.Name()))
	}
	return nil
}
