package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// steering would clear a terminal and set its title.
const steering = "\x1b[2J\x1b]0;owned\a"

// hostileSwitch says what steers a terminal.
type hostileSwitch struct {
	p4.UnimplementedP4RuntimeServer
}

func (hostileSwitch) GetForwardingPipelineConfig(
	context.Context, *p4.GetForwardingPipelineConfigRequest,
) (*p4.GetForwardingPipelineConfigResponse, error) {
	table := &p4config.Table{Preamble: &p4config.Preamble{Id: 1, Name: "a" + steering}}
	return &p4.GetForwardingPipelineConfigResponse{Config: &p4.ForwardingPipelineConfig{
		P4Info: &p4config.P4Info{Tables: []*p4config.Table{table}},
	}}, nil
}

func (hostileSwitch) Read(r *p4.ReadRequest, s p4.P4Runtime_ReadServer) error {
	if r.GetEntities()[0].GetTableEntry().GetIsDefaultAction() {
		return status.Error(codes.Internal, "b"+steering)
	}
	return s.Send(&p4.ReadResponse{Entities: r.GetEntities()})
}

// TestTerminalCodes: what a switch says, in its names and its errors, does not steer the terminal of who asks it.
func TestTerminalCodes(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	lis, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer()
	p4.RegisterP4RuntimeServer(srv, hostileSwitch{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.Serve(lis) //nolint:errcheck // stopped below
	}()
	defer func() {
		srv.Stop()
		<-done
	}()
	for line, want := range map[string]string{"counters": "nothing", "read": "b", "read a": "a", "read c": "a"} {
		args := append(append([]string{"p4rt"}, strings.Fields(line)...), "--p4runtime", "unix:"+socket)
		_, out, errs := etherealCommand(t.Context(), args...)
		if text := out + errs; !strings.Contains(text, want) || strings.ContainsAny(text, "\x1b\a") {
			t.Errorf("ethereal p4rt %s prints %q; want %q without what steers a terminal", line, text, want)
		}
	}
}
