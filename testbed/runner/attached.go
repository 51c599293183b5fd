package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// Attached carries out runs on a fabric that is already running. Close ends the connections.
type Attached struct{ w wallClockRunner }

// Attach connects to a deployment. dial connects to the switches; nil means with the deployment's TLS.
func Attach(ctx context.Context, d *deployment.File, dial deployment.Dialer) (*Attached, error) {
	_, cfg, err := d.Read()
	if err != nil {
		return nil, err
	}
	files, err := certs.Read(d.CA, d.Cert, d.Key)
	if err != nil {
		return nil, fmt.Errorf("deployment: %w", err)
	}
	if dial == nil {
		dial = func(addr string) (*grpc.ClientConn, error) {
			return grpc.NewClient(addr, append(p4rt.DialOptions(), grpc.WithTransportCredentials(files.Client("")))...)
		}
	}
	actuator := &deployment.Actuator{Interface: d.Interface, Admin: d.Admin, Client: adminhttp.Client{TLS: files.ClientConfig("")}}
	if actuator.Fabric, err = deployment.Open(cfg, dial); err != nil {
		return nil, err
	}
	if d.Token != "" {
		token, err := os.ReadFile(d.Token)
		if err != nil {
			return nil, fmt.Errorf("deployment: admin_token_file: %w", err)
		}
		actuator.Client.Token = strings.TrimSpace(string(token))
	}
	if d.Control != "" {
		actuator.Control = d.Order
	}
	a := &Attached{wallClockRunner{actuator: actuator, eventLog: d.EventLog, unshaped: true}}
	if a.w.session, err = coordinator.Connect(ctx, d.Hosts); err != nil {
		return nil, err
	}
	return a, nil
}

// Close ends the connections, and impairments of links here.
func (a *Attached) Close() error { return errors.Join(a.w.actuator.Close(), a.w.session.Close()) }

// AttachedNotifier returns an error if a running fabric cannot have a notifier.
func AttachedNotifier(n scenario.Notifier) error {
	if n != scenario.NotifyAll && n != scenario.NotifyNone {
		return fmt.Errorf("notifier %s: controller and switches of a fabric that runs already all notify; write notifiers: [all]", n)
	}
	return nil
}

// Run carries out one run on the fabric; see the type [Run].
func (a *Attached) Run(ctx context.Context, run scenario.Run, obs scenario.Observer) (*report.Result, error) {
	return a.run(ctx, run, obs, a.w.session.Run)
}

// Beside is a [Run] in which a program replaces the collective: the run's events happen while it runs, and the hosts'
// RDMA devices send by the run's scheme.
func (a *Attached) Beside(ctx context.Context, run scenario.Run, obs scenario.Observer, program coordinator.Program) (*report.Result, error) {
	a.w.touched = true // by an earlier command, maybe
	return a.run(ctx, run, obs, func(ctx context.Context, run scenario.Run, opt coordinator.Options) (*report.Result, error) {
		return a.w.session.Beside(ctx, run, opt, program)
	})
}

func (a *Attached) run(ctx context.Context, run scenario.Run, obs scenario.Observer, carry runCarrier) (*report.Result, error) {
	if err := AttachedNotifier(run.Notifier); err != nil {
		return nil, err
	}
	f, here := run.Fabric, a.w.actuator.Fabric
	if f.Hosts() != here.Hosts() || f.Switches() != here.Switches() || f.Links() != here.Links() {
		return nil, fmt.Errorf("the scenario's fabric has %d hosts and %d switches, this one %d and %d",
			f.Hosts(), f.Switches(), here.Hosts(), here.Switches())
	}
	if err := a.w.session.Ended(); err != nil {
		return nil, err
	}
	return a.w.run(ctx, run, obs, carry)
}
