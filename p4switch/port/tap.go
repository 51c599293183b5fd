package port

import (
	"context"
	"errors"
	"time"
)

// TapOptions says what a [Tap] does with the frames of an interface.
type TapOptions struct {
	Hidden uint32                        // frames with this packet mark (skb->mark) are not captured; 0: all are
	Dir    string                        // folder for pcap files as [Capture] writes them; "": none
	Show   func(sent bool, frame []byte) // called for each frame; nil: not called
}

// Tap captures all frames that network interfaces receive and send, the kernel's own included.
type Tap struct {
	poller *Poller
	ports  []*tappedPort
}

type tappedPort struct {
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

// Add captures the frames of an interface from now on, while Run runs. It requires CAP_NET_RAW.
func (t *Tap) Add(name string, opt TapOptions) error {
	i, err := OpenInterface(name, InterfaceOptions{Sent: true})
	if err != nil {
		return err
	}
	x := &tappedPort{Interface: i}
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

// Run captures frames until ctx ends, and returns ctx's error.
func (t *Tap) Run(ctx context.Context) error {
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { t.poller.Wake(); close(woken) })
	defer func() {
		if !stop() {
			<-woken
		}
	}()
	for i := range t.ports {
		t.drainInterface(i)
	}
	var events []Event
	for ctx.Err() == nil {
		var err error
		if events, err = t.poller.Wait(-1, events[:0]); err != nil {
			return err
		}
		for _, e := range events {
			t.drainInterface(e.ID)
		}
	}
	for i := range t.ports { // what came just before the end
		t.drainInterface(i)
	}
	return ctx.Err()
}

func (t *Tap) drainInterface(i int) {
	const burst = 64
	x := t.ports[i]
	for n := burst; n == burst; {
		if n = x.Receive(burst, x.show); n > 0 && x.files != nil {
			x.files.flush()
		}
	}
}

// Lost returns the number of frames that were not captured because they came too fast.
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

func (x *tappedPort) close() error {
	err := x.Close()
	if x.files != nil {
		err = errors.Join(err, x.files.close())
	}
	return err
}
