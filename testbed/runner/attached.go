package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/internal/adminhttp"
	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
)

// Attached is a world on an existing fabric. Close ends the connections.
type Attached struct {
	d *deployment.File
	w wall
}

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
		actuator.Control = func(ctx context.Context, o deployment.Order) error {
			_, err := d.Ask(ctx, o)
			return err
		}
	}
	a := &Attached{d: d, w: wall{actuator: actuator, eventLog: d.EventLog, unshaped: true}}
	if a.w.session, err = coordinator.Connect(ctx, d.Hosts); err != nil {
		return nil, a.blame(ctx, err)
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

// Run is a [Run].
func (a *Attached) Run(ctx context.Context, run scenario.Run, obs scenario.Observer) (result *report.Result, err error) {
	if err := AttachedNotifier(run.Notifier); err != nil {
		return nil, err
	}
	f, here := run.Fabric, a.w.actuator.Fabric
	if f.Hosts() != here.Hosts() || f.Switches() != here.Switches() || f.Links() != here.Links() {
		return nil, fmt.Errorf("the scenario's fabric has %d hosts and %d switches, this one %d and %d",
			f.Hosts(), f.Switches(), here.Hosts(), here.Switches())
	}
	if err := a.w.session.Ended(); err != nil {
		return nil, a.blame(ctx, err)
	}
	if result, err = a.w.run(ctx, run, obs); err != nil && a.w.session.Ended() != nil {
		err = a.blame(ctx, err)
	}
	return result, err
}

// blameLimit is the time allowed for the fabric's maker to find that a machine is lost, when its hosts' connections
// end.
const blameLimit = 3 * time.Second

// blame adds to the error of a host that has ended the lost machines, if the fabric's maker knows them.
func (a *Attached) blame(ctx context.Context, err error) error {
	if a.d.Control == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), blameLimit)
	defer cancel()
	for {
		answer, asked := a.d.Ask(ctx, deployment.Order{Do: "status"})
		if asked != nil || len(answer.Machines) == 0 {
			return err // not a fabric on several machines
		}
		for _, m := range answer.Machines {
			if m.Lost != "" {
				err = fmt.Errorf("%w; machine %s is lost: %s; when it is back: ethereal live rejoin %s", err, m.Name, m.Lost, m.Name)
			}
		}
		if slices.ContainsFunc(answer.Machines, func(m deployment.Machine) bool { return m.Lost != "" }) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
