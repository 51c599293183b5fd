package loglimit

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOneWarningPerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		l := New(slog.New(slog.NewTextHandler(&out, nil)), time.Second)
		for range 10_000 {
			l.Warn("refused")
		}
		time.Sleep(time.Second)
		l.Warn("refused")
		if lines := strings.Count(out.String(), "\n"); lines != 2 || !strings.Contains(out.String(), "not_logged_before=9999") {
			t.Errorf("logged:\n%s", out.String())
		}
	})
}
