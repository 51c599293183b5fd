package port

// Dumped is a port that shows what passes to a function.
type Dumped struct {
	Port
	show func(sent bool, frame []byte)
}

// Dump makes a port that calls show for every frame received and sent through
// p, from the port's goroutine.
func Dump(p Port, show func(sent bool, frame []byte)) *Dumped { return &Dumped{p, show} }

// Receive implements [Port].
func (d *Dumped) Receive(limit int, f func([]byte)) int {
	return d.Port.Receive(limit, func(frame []byte) {
		d.show(false, frame)
		f(frame)
	})
}

// Send implements [Port].
func (d *Dumped) Send(frames [][]byte) int {
	n := d.Port.Send(frames)
	for _, f := range frames[:n] {
		d.show(true, f)
	}
	return n
}
