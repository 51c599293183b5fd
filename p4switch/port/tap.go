package port

import (
	"context"
	"errors"
	"time"
)

// TapOptions say what a Tap does with the frames of an interface.
type TapOptions struct {
	Hidden uint32                        // frames that the kernel has marked so are not shown; 0: none
	Dir    string                        // of pcap files as [Capture] writes them; "": none
	Show   func(sent bool, frame []byte) // nil: none
}

// Tap captures the frames that interfaces receive and send, the kernel's too.
type Tap struct {
	poller *Poller
	ports  []*tapped
}

type tapped struct {
	*Interface
	files *pcapFiles
	show  func([]byte)
}

// OpenTap makes a tap without interfaces.
func OpenTap() (*Tap, error) {
	p, err := NewPoller()
	if err != nil {
		return nil, err
	}
	return &Tap{poller: p}, nil
}

// Add shows the frames of an interface from now on, once Run runs. It needs CAP_NET_RAW.
func (t *Tap) Add(name string, opt TapOptions) error {
	i, err := OpenInterface(name, InterfaceOptions{Sent: true})
	if err != nil {
		return err
	}
	x := &tapped{Interface: i}
	x.show = func(frame []byte) {
		if x.files != nil {
			x.files.write(i.Outgoing(), time.Unix(0, i.Stamp()), frame)
		}
		if opt.Show != nil {
			opt.Show(i.Outgoing(), frame)
		}
	}
	if opt.Hidden != 0 {
		err = i.Unmarked(opt.Hidden)
	}
	if err == nil && opt.Dir != "" {
		x.files, err = createPcaps(opt.Dir, name)
	}
	if err == nil {
		err = t.poller.Add(i, len(t.ports))
	}
	if err != nil {
		return errors.Join(err, x.close())
	}
	t.ports = append(t.ports, x)
	return nil
}

// Run shows frames until ctx ends, and returns its error.
func (t *Tap) Run(ctx context.Context) error {
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { t.poller.Wake(); close(woken) })
	defer func() {
		if !stop() {
			<-woken
		}
	}()
	for i := range t.ports {
		t.drain(i)
	}
	var events []Event
	for ctx.Err() == nil {
		var err error
		if events, err = t.poller.Wait(-1, events[:0]); err != nil {
			return err
		}
		for _, e := range events {
			t.drain(e.ID)
		}
	}
	for i := range t.ports { // what came just before the end
		t.drain(i)
	}
	return ctx.Err()
}

func (t *Tap) drain(i int) {
	const burst = 64
	x := t.ports[i]
	for n := burst; n == burst; {
		if n = x.Receive(burst, x.show); n > 0 && x.files != nil {
			x.files.flush()
		}
	}
}

// Lost is how many frames came faster than they were shown.
func (t *Tap) Lost() (n uint64) {
	for _, x := range t.ports {
		n += x.Counters().InLost
	}
	return n
}

// Close frees the tap, after Run has returned. Its error names files that could not be written.
func (t *Tap) Close() error {
	var errs []error
	for _, x := range t.ports {
		errs = append(errs, x.close())
	}
	return errors.Join(append(errs, t.poller.Close())...)
}

func (x *tapped) close() error {
	err := x.Close()
	if x.files != nil {
		err = errors.Join(err, x.files.close())
	}
	return err
}
