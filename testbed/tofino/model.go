package tofino

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The environment variables that name the harness, and the folder with tofino.bin and context.json.
const (
	ModelVariable    = "ETHEREAL_TOFINO_MODEL"
	PipelineVariable = "ETHEREAL_TOFINO_PIPELINE"
)

// answerWithin is how long the model may take for one batch of commands.
const answerWithin = 2 * time.Minute

// Packet is a packet at a port of the chip.
type Packet struct {
	Port uint32
	Data []byte
}

// Result is what the chip's model printed and sent after some commands.
type Result struct {
	Packets []Packet // packets that left, in order
	Text    []string // other lines that the model printed
}

// Model is a running process of the Tofino chip's functional model. It is not safe for concurrent use.
type Model struct {
	cmd      *exec.Cmd
	stop     context.CancelFunc
	in       io.WriteCloser
	pipe     *os.File
	out      *bufio.Reader
	marks    int
	file     *os.File // what it loads
	pipeline string
	died     error
	trace    func(Result) // for tests
}

// Start starts the program at path, which runs the chip's model, with a pipeline: the folder with tofino.bin and
// context.json from the assembler bfas. The process ends with ctx or [Model.Close].
func Start(ctx context.Context, path, pipeline string) (*Model, error) {
	return startModel(ctx, path, pipeline)
}

// startModel is Start with further options of the harness.
func startModel(ctx context.Context, path, pipeline string, options ...string) (*Model, error) {
	for _, f := range []string{"tofino.bin", "context.json"} {
		if _, err := os.Stat(filepath.Join(pipeline, f)); err != nil {
			return nil, fmt.Errorf("tofino: pipeline: %w; `make p4-chips` writes it", err)
		}
	}
	// Without a name, so that nothing is left behind however this process ends.
	file, err := os.CreateTemp("", "tofino-model-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	ctx, stop := context.WithCancel(ctx)
	m := &Model{stop: stop, file: file, pipeline: pipeline}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	defer write.Close() //nolint:errcheck // the child has its own
	if pipeline, err = filepath.Abs(pipeline); err != nil {
		return nil, errors.Join(err, read.Close(), m.Close())
	}
	// Packets, answers and errors come by one pipe, so that their order is known. Messages of file table.cpp name the
	// place of a new entry. After -r, what is loaded leaves tables and ports as they are.
	options = append(options, "-T", "table:3", "--observation-log", "/dev/stderr", "-l", pipeline, "-r", "-")
	m.cmd = exec.CommandContext(ctx, path, options...)
	m.cmd.Dir, m.cmd.Stdout, m.cmd.Stderr = os.TempDir(), write, write
	m.cmd.ExtraFiles = []*os.File{file} // its descriptor 3
	m.pipe, m.out = read, bufio.NewReaderSize(read, 1<<16)
	if m.in, err = m.cmd.StdinPipe(); err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		m.cmd = nil
		return nil, errors.Join(fmt.Errorf("tofino: model: %w", err), m.Close())
	}
	if _, err := m.Do(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

var (
	packetLine = regexp.MustCompile(`^([0-9]+) ([0-9A-F]*)$`)
	// The harness prefixes what is wrong with a command by the place of the command. <tbl-cfg> are its own commands.
	complaintPattern = regexp.MustCompile(`^<stdin>:[0-9]+: `)
	// Lines of a packet's dump, which packetLine has already.
	dumpPattern = regexp.MustCompile(`^((unexpected )?packet output on port|[0-9a-f]{4,}  )`)
)

// Do sends commands to the model and waits until no packet is left in it.
func (m *Model) Do(commands ...string) (Result, error) {
	var r Result
	if m.died != nil {
		return r, m.died
	}
	m.marks++
	mark := fmt.Sprintf("mark-%d", m.marks)
	var text strings.Builder
	for _, c := range commands {
		text.WriteString(c)
		text.WriteByte('\n')
	}
	text.WriteString("wait\n" + mark + "\n")
	// The model may print more than the pipe holds before it has read all commands.
	wrote := make(chan error, 1)
	go func() {
		_, err := io.WriteString(m.in, text.String())
		wrote <- err
	}()
	if err := m.pipe.SetReadDeadline(time.Now().Add(answerWithin)); err != nil {
		return r, err
	}
	var wrong []string
	for {
		line, err := m.out.ReadString('\n')
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				err = fmt.Errorf("no answer within %v", answerWithin)
			}
			last := strings.Join(append(wrong, lastLines(r.Text)...), " | ")
			m.died = fmt.Errorf("tofino: model: %w; it printed last: %s", err, last)
			m.stop()
			<-wrote //nolint:errcheck // the model's end is the error
			return r, m.died
		}
		line = strings.TrimRight(line, "\n")
		if strings.HasSuffix(line, "Unknown command "+mark) {
			break
		}
		if p := packetLine.FindStringSubmatch(line); p != nil {
			port, err := strconv.ParseUint(p[1], 10, 16)
			data, err2 := hex.DecodeString(p[2])
			if err := errors.Join(err, err2); err != nil {
				return r, fmt.Errorf("tofino: model: line %q: %w", line, err)
			}
			r.Packets = append(r.Packets, Packet{uint32(port), data})
			continue
		}
		switch {
		case dumpPattern.MatchString(line):
		case complaintPattern.MatchString(line):
			wrong = append(wrong, line)
		default:
			r.Text = append(r.Text, line)
		}
	}
	if err := <-wrote; err != nil {
		return r, fmt.Errorf("tofino: model: %w", err)
	}
	if m.trace != nil {
		m.trace(r)
	}
	if len(wrong) > 0 {
		return r, fmt.Errorf("tofino: model: %s; of %s", strings.Join(wrong, "; "), strings.Join(commands, "; "))
	}
	return r, nil
}

// lastLines returns the last lines of a text.
func lastLines(text []string) []string { return text[max(0, len(text)-5):] }

// Inject passes a packet through the model from a port, and returns the packets that leave.
func (m *Model) Inject(port uint32, data []byte) ([]Packet, error) {
	r, err := m.Do(fmt.Sprintf("packet %d %x", port, data))
	return r.Packets, err
}

// Close ends the model.
func (m *Model) Close() error {
	m.stop()
	var errs []error
	if m.cmd != nil {
		m.in.Close() //nolint:errcheck // the process is being killed
		m.cmd.Wait() //nolint:errcheck // so its status says nothing
		m.cmd = nil
	}
	if m.pipe != nil {
		errs = append(errs, m.pipe.Close())
		m.pipe = nil
	}
	return errors.Join(append(errs, m.file.Close())...)
}
