package bench

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// peerOf names, in the environment of the benchmark's second process, the address at which the first waits for it.
const peerOf = "ETHEREAL_BENCH_PEER"

// BenchmarkWindow measures what two processes that simulate one run together would pay for each window of one link
// delay: both send the packets that cross between them, and go on when they have the other's. docs/clusters.md says
// what follows.
func BenchmarkWindow(b *testing.B) {
	if addr := os.Getenv(peerOf); addr != "" {
		peer(b, addr)
		return
	}
	for _, size := range []int{64, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close() //nolint:errcheck // it was only listened at
			c := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkWindow$", "-test.benchtime=1x")
			c.Env = append(os.Environ(), peerOf+"="+l.Addr().String(), fmt.Sprintf("ETHEREAL_BENCH_BYTES=%d", size))
			if err := c.Start(); err != nil {
				b.Fatal(err)
			}
			conn, err := l.Accept()
			if err != nil {
				b.Fatal(err)
			}
			x := newExchange(conn, size)
			var took []time.Duration
			b.SetBytes(2 * int64(size))
			b.ResetTimer()
			for range b.N {
				began := time.Now()
				if err := x.window(); err != nil {
					b.Fatal(err)
				}
				took = append(took, time.Since(began))
			}
			b.StopTimer()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1000, "p99-us")
			_ = conn.Close() // the other ends by it
			_ = c.Wait()
		})
	}
}

// peer is the second process: it exchanges windows until the first hangs up.
func peer(b *testing.B, addr string) {
	var size int
	if _, err := fmt.Sscan(os.Getenv("ETHEREAL_BENCH_BYTES"), &size); err != nil {
		b.Fatal(err)
	}
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		b.Fatal(err)
	}
	for x := newExchange(conn, size); x.window() == nil; {
	}
	os.Exit(0) // the runtime of tests would count this as a benchmark
}

// exchange sends and receives so many bytes a window.
type exchange struct {
	conn    net.Conn
	in, out []byte
	send    chan struct{}
	sent    chan error
}

func newExchange(conn net.Conn, size int) *exchange {
	x := &exchange{conn: conn, in: make([]byte, size), out: make([]byte, size), send: make(chan struct{}), sent: make(chan error)}
	go func() {
		for range x.send {
			_, err := conn.Write(x.out)
			x.sent <- err
		}
	}()
	return x
}

func (x *exchange) window() error {
	x.send <- struct{}{}
	_, err := io.ReadFull(x.conn, x.in)
	if e := <-x.sent; err == nil {
		err = e
	}
	return err
}
