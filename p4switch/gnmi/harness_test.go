package gnmi

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	gnmipb "github.com/openconfig/gnmi/proto/gnmi"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/ethereal-fabric/ethereal/p4switch/portstate"
	"github.com/ethereal-fabric/ethereal/p4switch/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// device is a switch's gNMI side as its clients see it: called directly, or
// served over gRPC. The tests of the protocol run on both.
type device struct {
	t     *testing.T
	gn    *Core
	ports *portstate.Ports
	mu    sync.Mutex // around gn
	now   int64

	gnmi gnmipb.GNMIClient // nil: direct
}

// newDevice makes a switch with four ports, Ethernet1 to Ethernet4.
func newDevice(t *testing.T, change func(*Config)) *device {
	t.Helper()
	d := &device{t: t, now: 1000}
	ports, err := portstate.New([]portstate.Config{
		{Name: "Ethernet1", Number: 1}, {Name: "Ethernet2", Number: 2},
		{Name: "Ethernet3", Number: 3}, {Name: "Ethernet4", Number: 4},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Ports: ports, Now: func() int64 { return d.now }}
	if change != nil {
		change(&cfg)
	}
	if d.gn, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	d.ports = ports
	return d
}

// overBufconn puts the device behind gRPC, over an in-memory pipe.
func (d *device) overBufconn() *device {
	t := d.t
	t.Helper()
	lis := bufconn.Listen(1 << 16)
	srv := grpc.NewServer(rpc.Options(rpc.Budget{}, nil)...)
	shell := NewServer(&d.mu, d.gn)
	shell.Register(srv)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := shell.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	wg.Go(func() {
		if err := srv.Serve(lis); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	conn, err := grpc.NewClient("passthrough:switch", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	d.gnmi = gnmipb.NewGNMIClient(conn)
	t.Cleanup(func() {
		conn.Close() //nolint:errcheck // the test is over
		cancel()
		srv.Stop()
		wg.Wait()
	})
	return d
}

// onBoth runs a test on a device called directly and on one behind gRPC.
func onBoth(t *testing.T, test func(*testing.T, *device)) {
	t.Helper()
	t.Run("direct", func(t *testing.T) { test(t, newDevice(t, nil)) })
	t.Run("grpc", func(t *testing.T) { test(t, newDevice(t, nil).overBufconn()) })
}

// locked runs f with the core's lock, as the owner of the ports does.
func (d *device) locked(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("got %v (%v), want %v", got, err, want)
	}
}
