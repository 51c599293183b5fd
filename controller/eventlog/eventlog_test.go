package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// fullDisk takes so many bytes.
type fullDisk struct {
	bytes.Buffer
	room int
}

func (d *fullDisk) Write(b []byte) (int, error) {
	if len(b) > d.room {
		n, _ := d.Buffer.Write(b[:d.room])
		d.room = 0
		return n, syscall.ENOSPC
	}
	d.room -= len(b)
	return d.Buffer.Write(b)
}

// An event log on a disk that fills says so, goes on when there is room, and is
// read but for what was cut off, wherever the disk became full.
func TestFullDisk(t *testing.T) {
	for room := range 400 {
		disk := &fullDisk{room: room}
		var said bytes.Buffer
		l := New(disk)
		l.Warn(slog.New(slog.NewTextHandler(&said, nil)))
		for i := range 5 {
			l.Add(Record{Time: time.Unix(int64(i), 0).UTC(), Kind: "link", Link: fmt.Sprint("l", i)})
		}
		lost := l.Err() != nil
		disk.room = 1 << 20
		for i := 5; i < 8; i++ {
			l.Add(Record{Time: time.Unix(int64(i), 0).UTC(), Kind: "link", Link: fmt.Sprint("l", i)})
		}
		links, missing := 0, 0
		cut, err := Records(bytes.NewReader(disk.Bytes()), func(_ int, rec Record) error {
			switch rec.Kind {
			case "link":
				links++
			case "lost":
				missing += rec.Count
			}
			return nil
		})
		if err != nil || len(cut) > 1 || links+missing != 8 {
			t.Fatalf("with room for %d bytes: %d records, %d said to be lost, cut %v, %v\n%s", room, links, missing, cut, err, disk.Bytes())
		}
		if loud := strings.Contains(said.String(), "no space left"); loud != lost || lost != (missing > 0) || lost && l.Err() == nil {
			t.Fatalf("with room for %d bytes: lost %v, said %q, %v", room, missing, said.String(), l.Err())
		}
	}
}

// A log whose last line a crash cut off is read without it, and goes on after it.
func TestAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	text := `{"time":"2026-01-01T00:00:00Z","kind":"start"}` + "\n" + `{"time":"2026-01-01T00:00:01Z","kind":"set`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l, end, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Add(Record{Kind: "start"})
	if err := errors.Join(l.Err(), end()); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	var kinds []string
	cut, err := Records(f, func(_ int, rec Record) error { kinds = append(kinds, rec.Kind); return nil })
	if err != nil || fmt.Sprint(kinds, cut) != "[start start] [2]" {
		t.Errorf("%v, cut %v, %v", kinds, cut, err)
	}
	// What is no record is not passed over.
	if _, err := Records(strings.NewReader(text+"\n{]}\n"), func(int, Record) error { return nil }); err == nil {
		t.Error("garbage was passed over")
	}
}
