//go:build linux

package live_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// BenchmarkGreedyProcess measures what a program sends to a host, alone and beside one process that sends to the same host
// on 1 and 16 queue pairs, in turn. A process is one share, so that the program keeps about half of what both send.
func BenchmarkGreedyProcess(b *testing.B) {
	if _, err := exec.LookPath("ib_write_bw"); err != nil {
		b.Skip("no ib_write_bw (Debian: perftest)")
	}
	command, _ := exploring(b, strings.ReplaceAll(leafSpine(2, 1), "100Mb/s", "200Mb/s"))
	port := 18600
	for b.Loop() {
		for _, pairs := range []int{0, 1, 16} {
			port += 2
			var greedy *sender
			if pairs > 0 {
				greedy = sends(b, command, port, 30, pairs)
				<-greedy.begun
			}
			rate := sends(b, command, port+1, 3, 1).wait(b)
			if greedy == nil {
				b.Logf("alone: %.1f MB/s", rate)
				continue
			}
			select {
			case <-greedy.over:
				b.Logf("beside %d queue pairs of a process: it ended first: %s", pairs, greedy.said.String())
			default:
				b.Logf("beside %d queue pairs of a process: %.1f MB/s", pairs, rate)
			}
			greedy.wait(b)
		}
	}
}

// sender is an ib_write_bw from h1 to h0, with its server.
type sender struct {
	client, server *exec.Cmd
	begun, over    chan struct{} // it is connected; it has ended
	rate           float64       // MB/s
	said           strings.Builder
}

// wait waits for its end, and returns its rate.
func (s *sender) wait(t testing.TB) float64 {
	t.Helper()
	<-s.over
	if err := s.client.Wait(); err != nil {
		t.Fatalf("%v: %s", err, s.said.String())
	}
	return s.rate
}

// sends starts a program that sends for some seconds on a number of queue pairs.
func sends(t testing.TB, command func(args ...string) *exec.Cmd, port, seconds, pairs int) *sender {
	t.Helper()
	words := strings.Fields(fmt.Sprintf("ib_write_bw -F -D %d -s 65536 -q %d -p %d", seconds, pairs, port))
	s := &sender{begun: make(chan struct{}), over: make(chan struct{})}
	s.server = command(append([]string{"exec", "h0", "--"}, words...)...)
	if err := s.server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.server.Process.Kill() //nolint:errcheck // it has ended
		s.server.Wait()         //nolint:errcheck // as above
	})
	listens := command("exec", "h0", "--", "timeout", "60", "sh", "-c", fmt.Sprintf("until ss -ltn | grep -q :%d; do sleep 0.1; done", port))
	if out, err := listens.CombinedOutput(); err != nil {
		t.Fatalf("the server does not listen: %v %s", err, out)
	}
	s.client = command(append(append([]string{"exec", "h1", "--"}, words...), "h0")...)
	out, err := s.client.StdoutPipe()
	s.client.Stderr = s.client.Stdout
	if err == nil {
		err = s.client.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.over)
		begun := false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.said.WriteString(lines.Text() + "\n")
			fields := strings.Fields(lines.Text())
			if strings.Contains(lines.Text(), "#bytes") {
				begun = true
				time.AfterFunc(time.Second, func() { close(s.begun) }) // it is at its pace
			} else if begun && len(fields) == 5 {
				s.rate, _ = strconv.ParseFloat(fields[3], 64) // MiB/s
				s.rate *= 1.048576
			}
		}
		if !begun {
			close(s.begun)
		}
	}()
	return s
}
