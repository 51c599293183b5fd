package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
)

// logFlag is the flags --log-level and --log-format of a process.
type logFlag struct {
	level  slog.Level
	format logFormat
}

// logFormat is the format of log lines: text or JSON.
type logFormat string

const (
	logText logFormat = "text" // log lines of key=value pairs
	logJSON logFormat = "json"
)

// handler returns what writes lines of that format.
func (l logFormat) handler(w io.Writer, o *slog.HandlerOptions) slog.Handler {
	if l == logJSON {
		return slog.NewJSONHandler(w, o)
	}
	return slog.NewTextHandler(w, o)
}

// String returns the format.
func (l *logFormat) String() string { return string(*l) }

// Set takes one of the formats.
func (l *logFormat) Set(text string) error {
	if *l = logFormat(text); *l != logText && *l != logJSON {
		return fmt.Errorf("%q is none of text, json", text)
	}
	return nil
}

// Type names the value in messages.
func (l *logFormat) Type() string { return "format" }

func (l *logFlag) register(c *cobra.Command, level slog.Level) {
	l.level = level
	l.format = logText
	c.Flags().Var(l, "log-level", "`LEVEL`: debug, info, warn or error")
	c.Flags().Var(&l.format, "log-format", "write the log as `FORMAT`: text or json, a line for each record")
}

// logger returns a log at that level.
func (l *logFlag) logger(w io.Writer) *slog.Logger {
	return slog.New(l.format.handler(w, &slog.HandlerOptions{Level: l.level}))
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
