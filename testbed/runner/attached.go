package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"github.com/ethereal-fabric/ethereal/controller/p4rt"
	"github.com/ethereal-fabric/ethereal/fabric"
	"github.com/ethereal-fabric/ethereal/internal/certs"
	"github.com/ethereal-fabric/ethereal/internal/monotonic"
	"github.com/ethereal-fabric/ethereal/testbed/deployment"
	"github.com/ethereal-fabric/ethereal/testbed/report"
	"github.com/ethereal-fabric/ethereal/testbed/scenario"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/coordinator"
	"github.com/ethereal-fabric/ethereal/testbed/worlds/gray"
)

// Attached is a world that somebody else has made. Close ends the connections.
type Attached struct {
	name    string
	d       *deployment.File
	f       *deployment.Fabric
	session *coordinator.Session
	files   *certs.Files
	gray    gray.Losses
	rates   limiter
	ran     bool // an experiment was carried out
}

// Attach connects to a deployment. name is scenario.WorldMininet or WorldLab; dial connects to the
// switches, nil being with the deployment's TLS.
func Attach(ctx context.Context, name string, d *deployment.File, dial deployment.Dialer) (*Attached, error) {
	_, cfg, err := d.Read()
	if err != nil {
		return nil, err
	}
	a := &Attached{name: name, d: d}
	if a.files, err = certs.Read(d.CA, d.Cert, d.Key); err != nil {
		return nil, fmt.Errorf("deployment: %w", err)
	}
	if dial == nil {
		dial = func(addr string) (*grpc.ClientConn, error) {
			return grpc.NewClient(addr, append(p4rt.DialOptions(), grpc.WithTransportCredentials(a.files.Client("")))...)
		}
	}
	if a.f, err = deployment.Open(cfg, dial); err != nil {
		return nil, err
	}
	if a.session, err = coordinator.Connect(ctx, d.Hosts); err != nil {
		return nil, err
	}
	return a, nil
}

// Name implements [World].
func (a *Attached) Name() string { return a.name }

// Close ends the connections, and what was done to links here.
func (a *Attached) Close() error {
	return errors.Join(a.gray.Heal(""), a.rates.heal(""), a.session.Close())
}

// Run implements [World]. What its steps did is undone at the end.
func (a *Attached) Run(ctx context.Context, run scenario.Run, obs scenario.Observer) (result *report.Result, err error) {
	if run.Notifier != scenario.NotifyAll && run.Notifier != scenario.NotifyNone {
		return nil, fmt.Errorf("notifier %s: this fabric's controller and switches all speak; write all", run.Notifier)
	}
	if f := run.Fabric; f.Hosts() != a.f.Hosts() || f.Switches() != a.f.Switches() || f.Links() != a.f.Links() {
		return nil, fmt.Errorf("the scenario's fabric has %d hosts and %d switches, this one %d and %d",
			run.Fabric.Hosts(), run.Fabric.Switches(), a.f.Hosts(), a.f.Switches())
	}
	if err := a.session.Ended(); err != nil {
		return nil, a.blame(ctx, err)
	}
	h := &attachedHands{a: a}
	defer func() {
		undone := h.undo(context.WithoutCancel(ctx))
		if err == nil {
			err = undone
		}
	}()
	// A controller remembers: it goes on damping a link that flapped.
	if a.ran && a.d.Control != "" {
		if err := errors.Join(h.Controller(ctx, false), h.Controller(ctx, true)); err != nil {
			return nil, fmt.Errorf("a fresh controller: %w", err)
		}
	}
	a.ran = true
	w := &wall{actuator: h, session: a.session, fabric: a.f, clock: monotonic.Now, eventLog: a.d.EventLog, unshaped: true}
	if result, err = w.run(ctx, run, obs); err != nil && a.session.Ended() != nil {
		err = a.blame(ctx, err)
	}
	return result, err
}

// blameLimit is how long whoever made the fabric may take to find that a machine is lost, when its hosts' connections end.
const blameLimit = 3 * time.Second

// blame adds to the error of a host that has ended which machines are lost, if whoever made the fabric knows.
func (a *Attached) blame(ctx context.Context, err error) error {
	if a.d.Control == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), blameLimit)
	defer cancel()
	for {
		answer, asked := a.ask(ctx, order{Do: "status"})
		if asked != nil || len(answer.Machines) == 0 {
			return err // not a fabric on several machines
		}
		for _, m := range answer.Machines {
			if m.Lost != "" {
				err = fmt.Errorf("%w; machine %s is lost: %s; when it is back: ethereal live rejoin %s", err, m.Name, m.Lost, m.Name)
			}
		}
		if slices.ContainsFunc(answer.Machines, func(m machine) bool { return m.Lost != "" }) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// attachedHands act on a deployment, and remember how to undo it.
type attachedHands struct {
	a     *Attached
	after []undoing
}

// undoing takes back what was done, under a name.
type undoing struct {
	what string
	do   func(context.Context) error
}

// did notes how something is undone; up says that it undid something itself.
func (h *attachedHands) did(what string, up bool, do func(context.Context) error) {
	h.after = slices.DeleteFunc(h.after, func(u undoing) bool { return u.what == what })
	if !up {
		h.after = append(h.after, undoing{what, do})
	}
}

// healLimit bounds how long a fabric may take to be whole again.
const healLimit = 30 * time.Second

// undo takes back what is left, the last first, and waits until all ports are up.
func (h *attachedHands) undo(ctx context.Context) error {
	if len(h.after) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, healLimit)
	defer cancel()
	for _, u := range slices.Backward(slices.Clone(h.after)) {
		if err := u.do(ctx); err != nil {
			return fmt.Errorf("undo %s: %w", u.what, err)
		}
	}
	h.after = nil
	if h.a.session.Ended() != nil {
		return nil // it will not be whole
	}
	for {
		down, err := h.a.f.NotUp(ctx)
		if err == nil && len(down) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the fabric is not whole again after %v: ports not up: %v; %w", healLimit, down, errors.Join(err, ctx.Err()))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (h *attachedHands) Link(ctx context.Context, id fabric.LinkID, up bool) error {
	err := h.a.f.SetEnabled(ctx, id, up)
	if err == nil {
		h.did("link "+h.a.f.LinkName(id), up, func(ctx context.Context) error { return h.Link(ctx, id, true) })
	}
	return err
}

// ends returns the interfaces of a link between switches.
func (a *Attached) ends(id fabric.LinkID) ([]string, error) {
	if a.d.Interface == "" {
		return nil, errors.New("the switches' interfaces are not on this machine")
	}
	l := a.f.Link(id)
	var names []string
	for _, e := range []fabric.End{l.A, l.B} {
		if int(e.Node) < a.f.Hosts() {
			return nil, fmt.Errorf("%s is a host's, with an end elsewhere; name a link between switches", a.f.LinkName(id))
		}
		names = append(names, fmt.Sprintf(a.d.Interface, a.f.Name(e.Node), e.Port))
	}
	return names, nil
}

func (h *attachedHands) Gray(ctx context.Context, id fabric.LinkID, loss float64) error {
	name := h.a.f.LinkName(id)
	if h.asksForLinks() {
		return h.order(ctx, order{Do: "gray", Name: name, Loss: loss}, loss == 0, order{Do: "gray", Name: name})
	}
	names, err := h.a.ends(id)
	if err != nil {
		return err
	}
	if err = h.a.gray.Set(name, names, loss); err == nil {
		h.did("gray "+name, loss == 0, func(context.Context) error { return h.a.gray.Heal(name) })
	}
	return err
}

func (h *attachedHands) Rate(ctx context.Context, id fabric.LinkID, rate fabric.Rate) error {
	name := h.a.f.LinkName(id)
	if h.asksForLinks() {
		return h.order(ctx, order{Do: "rate", Name: name, Rate: int64(rate)}, rate == 0, order{Do: "rate", Name: name})
	}
	names, err := h.a.ends(id)
	if err != nil {
		return err
	}
	if err = h.a.rates.set(name, names, rate); err == nil {
		h.did("rate "+name, rate == 0, func(context.Context) error { return h.a.rates.heal(name) })
	}
	return err
}

func (h *attachedHands) Node(ctx context.Context, id fabric.NodeID, up bool) error {
	return h.control(ctx, "node", h.a.f.Name(id), up)
}

func (h *attachedHands) Controller(ctx context.Context, up bool) error {
	return h.control(ctx, "controller", "", up)
}

func (h *attachedHands) Agent(ctx context.Context, id fabric.NodeID, up bool) error {
	return h.control(ctx, "agent", h.a.f.Name(id), up)
}

// order is what whoever made the fabric is asked to do: a line of JSON, answered
// by another.
type order struct {
	Do   string  `json:"do"` // node-down, node-up, controller-down, ..., gray, rate
	Name string  `json:"name"`
	Loss float64 `json:"loss,omitempty"` // of gray, a share; 0: no more
	Rate int64   `json:"rate,omitempty"` // of rate, bits/s; 0: the link's own
}

// asksForLinks reports whether somebody else has the links' interfaces.
func (h *attachedHands) asksForLinks() bool { return h.a.d.Interface == "" && h.a.d.Control != "" }

func (h *attachedHands) control(ctx context.Context, what, name string, up bool) error {
	do := what + "-down"
	if up {
		do = what + "-up"
	}
	return h.order(ctx, order{Do: do, Name: name}, up, order{Do: what + "-up", Name: name})
}

// answered is what whoever made the fabric says to an order.
type answered struct {
	Error    string    `json:"error"`
	Machines []machine `json:"machines"` // to status, of a fabric on several
}

type machine struct {
	Name string `json:"name"`
	Lost string `json:"lost"` // why; empty: it is not
}

// ask has an order carried out.
func (a *Attached) ask(ctx context.Context, o order) (answer answered, err error) {
	if a.d.Control == "" {
		return answer, fmt.Errorf("nobody here can end and start processes: the deployment names no control socket")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", a.d.Control)
	if err != nil {
		return answer, err
	}
	defer conn.Close() //nolint:errcheck // the answer was read
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return answer, err
		}
	}
	if err := json.NewEncoder(conn).Encode(o); err != nil {
		return answer, err
	}
	line, err := bufio.NewReader(io.LimitReader(conn, 1<<20)).ReadBytes('\n')
	if err != nil {
		return answer, fmt.Errorf("no answer: %w", err)
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return answer, fmt.Errorf("the answer is not understood: %w", err)
	}
	if answer.Error != "" {
		return answer, errors.New(answer.Error)
	}
	return answer, nil
}

// order has an order carried out, and remembers the one that undoes it unless it is itself one that undoes.
func (h *attachedHands) order(ctx context.Context, o order, undoes bool, undo order) error {
	if _, err := h.a.ask(ctx, o); err != nil {
		return err
	}
	h.did(strings.TrimSpace(undo.Do+" "+undo.Name), undoes, func(ctx context.Context) error { return h.order(ctx, undo, true, undo) })
	return nil
}

func (h *attachedHands) Drain(ctx context.Context, name string, drained bool) error {
	if h.a.d.Admin == "" || h.a.d.Token == "" {
		return errors.New("drains take admin and admin_token_file in the deployment")
	}
	token, err := os.ReadFile(h.a.d.Token)
	if err != nil {
		return err
	}
	query := url.Values{"name": {name}}
	if !drained {
		query.Set("undo", "true")
	}
	scheme, tls := "http://", h.a.files.ClientConfig("")
	if tls != nil {
		scheme = "https://"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+h.a.d.Admin+"/drain?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	client := http.Client{Timeout: healLimit, Transport: &http.Transport{TLSClientConfig: tls}}
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(body)))
	}
	h.did("drain "+name, !drained, func(ctx context.Context) error { return h.Drain(ctx, name, false) })
	return nil
}
