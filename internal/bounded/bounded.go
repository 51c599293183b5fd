// Package bounded reads files from outside: the reader ends with its context and at a number of bytes.
package bounded

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// ErrTooLong is wrapped by the error of a reader that has reached its limit.
var ErrTooLong = errors.New("too long")

// Reader returns r limited to most bytes. Further reads return an error: [ErrTooLong], or after the end of ctx its
// error.
func Reader(ctx context.Context, r io.Reader, most int64) io.Reader {
	return &reader{ctx: ctx, r: r, left: most, most: most}
}

type reader struct {
	ctx        context.Context
	r          io.Reader
	left, most int64
}

// Read implements io.Reader.
func (b *reader) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.left <= 0 {
		var one [1]byte
		if n, err := b.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, fmt.Errorf("%w: more than %d bytes", ErrTooLong, b.most)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
