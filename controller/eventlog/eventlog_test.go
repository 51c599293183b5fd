package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/ethereal-fabric/ethereal/controller"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/durable/durabletest"
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

// records reads a log's links, how many records it says were lost, and its cut lines.
func records(t *testing.T, text []byte) (links, lost, cut int) {
	t.Helper()
	lines, err := Records(bytes.NewReader(text), func(_ int, rec Record) error {
		switch rec.Kind {
		case "link":
			links++
		case "lost":
			lost += rec.Count
		}
		return nil
	})
	if err != nil {
		t.Errorf("%v in\n%s", err, text)
	}
	return links, lost, len(lines)
}

// TestLogUnderFaults puts every fault at every write, once and for three writes: what is
// not written is said, in the controller's log and in the event log, and the rest is read.
func TestLogUnderFaults(t *testing.T) {
	const writes = 8
	tried := 0
	for _, fault := range durabletest.Faults() {
		for at := range writes {
			for _, length := range []int{1, 3} {
				disk := durabletest.New()
				f, err := disk.CreateTemp("d", "log")
				if err != nil {
					t.Fatal(err)
				}
				var said bytes.Buffer
				l := New(f)
				l.Warn(slog.New(slog.NewTextHandler(&said, nil)))
				begin := len(disk.Ops)
				for i := range writes {
					if len(disk.Ops) >= begin+at && len(disk.Ops) < begin+at+length {
						disk.Fault, disk.At, disk.Every = fault, len(disk.Ops), true
					} else if fault != durabletest.PowerLoss {
						disk.Fault = durabletest.None
					}
					l.Add(Record{Time: time.Unix(int64(i), 0).UTC(), Kind: "link", Link: fmt.Sprint("l", i)})
				}
				disk.Fault = durabletest.None
				l.Add(Record{Kind: "end"})
				tried++
				name := fmt.Sprintf("%v at write %d for %d", fault, at, length)
				if l.Err() == nil || !strings.Contains(said.String(), "records are lost") {
					t.Errorf("%s: said %q, %v", name, said.String(), l.Err())
				}
				links, lost, cut := records(t, disk.Now(f.Name()))
				if fault == durabletest.PowerLoss { // the rest never was
					if links != at+1 || lost+cut != 0 {
						t.Errorf("%s: %d links, %d lost, %d cut", name, links, lost, cut)
					}
				} else if links+lost != writes || lost == 0 || cut > length {
					t.Errorf("%s: %d links, %d lost, %d cut:\n%s", name, links, lost, cut, disk.Now(f.Name()))
				}
			}
		}
	}
	t.Logf("%d faults tried", tried)
}

// TestTornLog cuts a log at every byte, as a loss of power does, leaves zeros after it or
// not, and goes on with the file: all whole lines are read, and what comes later.
func TestTornLog(t *testing.T) {
	var whole bytes.Buffer
	l := New(&whole)
	for i := range 3 {
		l.Add(Record{Time: time.Unix(int64(i), 0).UTC(), Kind: "link", Link: fmt.Sprint("l", i)})
	}
	path := filepath.Join(t.TempDir(), "events")
	for at := range whole.Len() + 1 {
		for _, zeros := range []int{0, 1, 600} {
			text := append(bytes.Clone(whole.Bytes()[:at]), make([]byte, zeros)...)
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			l, end, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			l.Add(Record{Kind: "link", Link: "later"})
			if err := errors.Join(l.Err(), end()); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			want := bytes.Count(whole.Bytes()[:at], []byte("\n")) + 1
			links, _, cut := records(t, got)
			if links < want || links > want+1 || cut > 1 { // a line may lack its end alone
				t.Errorf("cut at %d, %d zeros: %d links of %d, %d cut", at, zeros, links, want, cut)
			}
		}
	}
}

// TestReadFault has reading fail after every byte: it is said, not taken for the end.
func TestReadFault(t *testing.T) {
	var whole bytes.Buffer
	l := New(&whole)
	for i := range 3 {
		l.Add(Record{Time: time.Unix(int64(i), 0).UTC(), Kind: "link", Link: fmt.Sprint("l", i)})
	}
	for at := range whole.Len() + 1 {
		r := io.MultiReader(bytes.NewReader(whole.Bytes()[:at]), iotest.ErrReader(syscall.EIO))
		if _, err := Records(r, func(int, Record) error { return nil }); !errors.Is(err, syscall.EIO) {
			t.Errorf("EIO after %d bytes: %v", at, err)
		}
	}
}

// FuzzRecords reads what is no event log, and what was one: it ends, with records in
// order, and says what it left out.
func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"time":"2026-01-01T00:00:00Z","kind":"believed","switch":"tor0","port":1,"up":false}`+"\n"), 20, byte(0))
	f.Add([]byte(`{"kind":"lost","count":-1}`+"\n"+`{"kind":"link","up":null}`), 3, byte('{'))
	f.Fuzz(func(t *testing.T, text []byte, at int, to byte) {
		if len(text) > 0 {
			text[((at%len(text))+len(text))%len(text)] = to
		}
		last := 0
		cut, err := Records(bytes.NewReader(text), func(n int, _ Record) error {
			if n <= last {
				t.Errorf("record %d after %d", n, last)
			}
			last = n
			return nil
		})
		if most := bytes.Count(text, []byte("\n")) + 1; last > most || len(cut) > most {
			t.Errorf("%d records and %d cut ones of %d lines, %v", last, len(cut), most, err)
		}
		fresh := func() (*controller.Core, error) {
			fab, err := fabric.New(fabric.Spec{Kind: fabric.KindLeafSpine, ToRs: 2, Spines: 2, HostsPerToR: 1})
			if err != nil {
				return nil, err
			}
			return controller.New(controller.Config{Fabric: fab, CarrierV4: controller.UDPSourcePort, HashSeed: 1})
		}
		Replay(bytes.NewReader(text), fresh, nil) //nolint:errcheck // it must not panic
	})
}
