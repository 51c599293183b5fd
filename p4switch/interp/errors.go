package interp

import "errors"

// Errors of the control plane. They come wrapped with the object's name and
// what would be right; test for them with errors.Is.
var (
	// ErrNotFound: no such table, entry, member, group, session or index.
	ErrNotFound = errors.New("not found")
	// ErrExists: an entry with the same match and priority is in the table.
	ErrExists = errors.New("already exists")
	// ErrFull: the table, profile or group holds as many as it may.
	ErrFull = errors.New("full")
	// ErrConst: the entries or the default action are constant in the P4 program.
	ErrConst = errors.New("constant")
	// ErrInvalid: the argument does not fit the object, such as a value wider
	// than its field.
	ErrInvalid = errors.New("invalid argument")
	// ErrInUse: the member or group is still referred to by an entry or group.
	ErrInUse = errors.New("in use")
)
