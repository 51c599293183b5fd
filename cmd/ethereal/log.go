package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
)

// logFlag is the flag --log-level of a process.
type logFlag struct{ level slog.Level }

func (l *logFlag) register(c *cobra.Command, level slog.Level) {
	l.level = level
	c.Flags().Var(l, "log-level", "`LEVEL`: debug, info, warn or error")
}

// to returns a log at that level.
func (l *logFlag) to(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: l.level}))
}

// String returns the level.
func (l *logFlag) String() string { return strings.ToLower(l.level.String()) }

// Set takes one of the levels.
func (l *logFlag) Set(text string) error {
	if err := l.level.UnmarshalText([]byte(text)); err != nil {
		return fmt.Errorf("%q is none of debug, info, warn, error", text)
	}
	return nil
}

// Type names the value in messages.
func (l *logFlag) Type() string { return "level" }
