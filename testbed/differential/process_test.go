//go:build linux

package differential

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// process is a simple_switch_grpc.
type process struct {
	cmd    *exec.Cmd
	conn   *grpc.ClientConn
	client p4.P4RuntimeClient
	cancel context.CancelFunc
	ports  []uint32
	turn   int // the port whose packet is due
	// Each port's named pipe. The reader on the other side takes the earliest
	// packet of all pipes, so each must hold one: packets come by the ports in
	// turn.
	in  map[uint32]*os.File
	out map[uint32]*outFile
	log *os.File
	seq int64 // packets written: the time that orders them over all pipes
}

// outFile is a port's capture as far as it was read.
type outFile struct {
	f      *os.File
	offset int64
}

// NewBMv2 starts binary on the program in dir, an empty folder, with the given
// ports. The run is bound to ctx.
func NewBMv2(ctx context.Context, binary, dir string, p Program, ports []uint32) (_ Device, err error) {
	ctx, cancel := context.WithCancel(ctx)
	d := &process{cancel: cancel, ports: ports, in: map[uint32]*os.File{}, out: map[uint32]*outFile{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	socket := filepath.Join(dir, "grpc")
	args := []string{"--no-p4", "--device-id", fmt.Sprint(deviceID), "--use-files", "0"}
	for _, port := range ports {
		path := d.path(dir, port)
		args = append(args, "-i", fmt.Sprintf("%d@%s", port, path))
		if err := syscall.Mkfifo(path+"_in.pcap", 0o600); err != nil {
			return nil, err
		}
	}
	args = append(args, "--", "--grpc-server-addr", "unix:"+socket)
	if d.log, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return nil, err
	}
	d.cmd = exec.CommandContext(ctx, binary, args...)
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	// A namespace of its own: it listens on every address.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Cloneflags: syscall.CLONE_NEWNET}
	if os.Getuid() != 0 {
		d.cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	// Opening a pipe waits for its reader, which opens them one by one.
	for _, port := range ports {
		f, err := openPipe(ctx, d.path(dir, port)+"_in.pcap")
		if err != nil {
			return nil, d.explain(err)
		}
		d.in[port] = f
		if err := pcapgo.NewWriter(f).WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
			return nil, d.explain(err)
		}
	}
	if d.conn, err = grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true))); err != nil {
		return nil, err
	}
	d.client = p4.NewP4RuntimeClient(d.conn)
	stream, err := d.client.StreamChannel(ctx)
	if err != nil {
		return nil, d.explain(err)
	}
	if err := stream.Send(arbitration()); err != nil {
		return nil, d.explain(err)
	}
	if _, err := stream.Recv(); err != nil {
		return nil, d.explain(err)
	}
	if _, err := d.client.SetForwardingPipelineConfig(ctx, pipeline(p)); err != nil {
		return nil, d.explain(err)
	}
	for _, port := range ports {
		f, err := os.Open(d.path(dir, port) + "_out.pcap")
		if err != nil {
			return nil, d.explain(err)
		}
		d.out[port] = &outFile{f: f, offset: 24}
	}
	return d, nil
}

func (d *process) path(dir string, port uint32) string {
	return filepath.Join(dir, fmt.Sprintf("p%d", port))
}

// openPipe opens a named pipe for writing once there is a reader.
func openPipe(ctx context.Context, path string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		f, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil || !errors.Is(err, syscall.ENXIO) {
			return f, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("differential: %s: nobody reads it: %w", path, ctx.Err())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// explain adds the end of the process's output to an error.
func (d *process) explain(err error) error {
	text, _ := os.ReadFile(d.log.Name())
	if len(text) > 2000 {
		text = text[len(text)-2000:]
	}
	return fmt.Errorf("differential: %w\n%s", err, strings.TrimSpace(string(text)))
}

func (d *process) Write(u *p4.Update) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := d.client.Write(ctx, writeRequest(u))
	return err
}

func (d *process) Read(e *p4.Entity) ([]*p4.Entity, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stream, err := d.client.Read(ctx, &p4.ReadRequest{DeviceId: deviceID, Entities: []*p4.Entity{e}})
	if err != nil {
		return nil, err
	}
	var got []*p4.Entity
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return nil, err
		}
		got = append(got, r.GetEntities()...)
	}
}

// Run writes the packets to the pipes. They must come by the ports in turn.
func (d *process) Run(in []Packet, want int) (map[uint32][][]byte, error) {
	for _, p := range in {
		if p.Port != d.ports[d.turn] {
			return nil, fmt.Errorf("differential: a packet for port %d in the turn of port %d", p.Port, d.ports[d.turn])
		}
		d.turn = (d.turn + 1) % len(d.ports)
		header := make([]byte, 16, 16+len(p.Data))
		binary.LittleEndian.PutUint32(header[0:], uint32(d.seq/1_000_000))
		binary.LittleEndian.PutUint32(header[4:], uint32(d.seq%1_000_000))
		binary.LittleEndian.PutUint32(header[8:], uint32(len(p.Data)))
		binary.LittleEndian.PutUint32(header[12:], uint32(len(p.Data)))
		d.seq++
		if err := d.in[p.Port].SetWriteDeadline(time.Now().Add(20 * time.Second)); err != nil {
			return nil, err
		}
		if _, err := d.in[p.Port].Write(append(header, p.Data...)); err != nil {
			return nil, d.explain(err)
		}
	}
	out := map[uint32][][]byte{}
	// Wait for what is expected, then a little for what is not.
	for deadline, got := time.Now().Add(3*time.Second), 0; ; {
		n, err := d.collect(out)
		if err != nil {
			return nil, err
		}
		if got += n; got < want && d.ended() {
			return nil, d.explain(errors.New("BMv2 ended at one of these packets"))
		}
		if got >= want || time.Now().After(deadline) {
			time.Sleep(2 * time.Millisecond)
			_, err := d.collect(out)
			return out, err
		}
		time.Sleep(200 * time.Microsecond)
	}
}

// ended reports whether the process died.
func (d *process) ended() bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	if err != nil {
		return true
	}
	_, state, ok := strings.Cut(string(b), ") ")
	return ok && strings.HasPrefix(state, "Z")
}

// collect appends to out the packets that appeared in the captures.
func (d *process) collect(out map[uint32][][]byte) (n int, err error) {
	for port, o := range d.out {
		for {
			header := make([]byte, 16)
			if _, err := o.f.ReadAt(header, o.offset); err != nil {
				break // not there yet
			}
			data := make([]byte, binary.LittleEndian.Uint32(header[8:]))
			if _, err := o.f.ReadAt(data, o.offset+16); err != nil {
				break
			}
			o.offset += 16 + int64(len(data))
			out[port] = append(out[port], data)
			n++
		}
	}
	return n, nil
}

// Close ends the process.
func (d *process) Close() error {
	var errs []error
	if d.conn != nil {
		errs = append(errs, d.conn.Close())
	}
	for _, p := range d.in {
		errs = append(errs, p.Close())
	}
	for _, o := range d.out {
		errs = append(errs, o.f.Close())
	}
	d.cancel()
	if d.cmd != nil && d.cmd.Process != nil {
		_ = d.cmd.Wait() // killed: its exit status says nothing
	}
	if d.log != nil {
		errs = append(errs, d.log.Close())
	}
	return errors.Join(errs...)
}
