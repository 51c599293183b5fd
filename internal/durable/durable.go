// Package durable replaces files safely: after success the new content is on disk; after a crash either the old
// content or the new one is there.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// FS is the interface to the file system that [Replace] uses, into which tests inject faults.
type FS interface {
	// CreateTemp makes a file with a new name, as os.CreateTemp does.
	CreateTemp(dir, pattern string) (File, error)
	Rename(from, to string) error
	Remove(name string) error
	// SyncDir makes a folder's entries durable.
	SyncDir(dir string) error
}

// File is a file that is being written.
type File interface {
	Name() string
	Write(b []byte) (int, error)
	Sync() error
	Close() error
}

// OS is the operating system's file system.
var OS FS = system{}

// ErrUnsure is wrapped by an error after which the file has the new content, but a crash might restore the old one.
var ErrUnsure = errors.New("durable: the new content may not last")

// Replace writes data to the file at path, which need not exist. Only its owner can read the file. After an error
// that does not wrap [ErrUnsure] the file is unchanged.
func Replace(fs FS, path string, data []byte) error {
	tmp, err := fs.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = fs.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, fs.Remove(tmp.Name()))
	}
	if err := fs.SyncDir(filepath.Dir(path)); err != nil {
		return errors.Join(ErrUnsure, err)
	}
	return nil
}

type system struct{}

func (system) CreateTemp(dir, pattern string) (File, error) { return os.CreateTemp(dir, pattern) }
func (system) Rename(from, to string) error                 { return os.Rename(from, to) }
func (system) Remove(name string) error                     { return os.Remove(name) }

func (system) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
