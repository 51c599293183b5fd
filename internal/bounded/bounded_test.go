package bounded

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestReader(t *testing.T) {
	for most, want := range map[int64]error{2: ErrTooLong, 3: nil, 4: nil} {
		got, err := io.ReadAll(Reader(t.Context(), strings.NewReader("abc"), most))
		if !errors.Is(err, want) || int64(len(got)) != min(most, 3) {
			t.Errorf("at most %d bytes: %q, %v; want %v", most, got, err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := io.ReadAll(Reader(ctx, strings.NewReader("abc"), 9)); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context's end: %v", err)
	}
}
