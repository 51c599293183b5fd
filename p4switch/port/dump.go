package port

// Dumped is a port whose frames are also passed to a function.
type Dumped struct {
	Port
	show func(sent bool, frame []byte)
}

// Dump returns a port that calls show, from the port's goroutine, for every frame received and sent through p.
func Dump(p Port, show func(sent bool, frame []byte)) *Dumped { return &Dumped{p, show} }

// Receive calls f with the frames that have arrived, up to a limit, for [Port].
func (d *Dumped) Receive(limit int, f func([]byte)) int {
	return d.Port.Receive(limit, func(frame []byte) {
		d.show(false, frame)
		f(frame)
	})
}

// Send sends frames while there is room, and returns the number accepted, for [Port].
func (d *Dumped) Send(frames [][]byte) int {
	n := d.Port.Send(frames)
	for _, f := range frames[:n] {
		d.show(true, f)
	}
	return n
}
