package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	reflection "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"github.com/ethereal-fabric/ethereal/internal/certs"
)

// services asks a server what it serves, by reflection.
func services(ctx context.Context, conn *grpc.ClientConn) (names []string, err error) {
	s, err := reflection.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.Send(&reflection.ServerReflectionRequest{MessageRequest: &reflection.ServerReflectionRequest_ListServices{}}); err != nil {
		return nil, err
	}
	answer, err := s.Recv()
	if err != nil {
		return nil, err
	}
	for _, x := range answer.GetListServicesResponse().GetService() {
		names = append(names, x.GetName())
	}
	return names, s.CloseSend()
}

// TestIntrospection: a switch and a controller's server for agents say what they serve and that they do, to whom the
// table of roles lets ask. grpcurl, if it is here, finds its way without .proto files.
func TestIntrospection(t *testing.T) {
	dir := t.TempDir()
	flags := labCA(t, dir) // controller and operator in one
	at := func(name string) string { return filepath.Join(dir, name) }
	onSwitch := freePort(t)
	stop := runSwitchCommand(t, lpmJSON, "--p4info", strings.Replace(lpmJSON, ".json", ".p4info.txtpb", 1), "--grpc-server-addr", onSwitch,
		"--grpc-server-ssl", "--grpc-server-cacert", at("ca.pem"), "--grpc-server-cert", at("node.pem"), "--grpc-server-key", at("node.key"),
		"--grpc-server-with-client-auth")
	defer func() {
		if out, err := stop(); err != nil {
			t.Errorf("the switch: %v\n%s", err, out)
		}
	}()
	files, _ := tcpLab(t, nil)
	agents := freePort(t)
	running, end := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	go func() {
		_, _, errs := etherealCommand(running, append(append([]string{"controller", "--listen-agents=" + agents, "--listen-admin="}, files...), "--log-level=error")...)
		ended <- errs
	}()
	defer func() {
		end()
		if errs := <-ended; errs != "" {
			t.Errorf("the controller: %s", errs)
		}
	}()

	for _, c := range []struct {
		what, addr, holder string // holder: of the certificate; "" without TLS
		serves             string // one of its services; "": it may not ask
	}{
		{"an operator asks a switch", onSwitch, "node", "p4.v1.P4Runtime"},
		{"a host asks a switch", onSwitch, "h0", ""},
		{"whoever is here asks a controller", agents, "", "ethereal.state.v1.FabricState"},
	} {
		creds := insecure.NewCredentials()
		if c.holder != "" {
			f, err := certs.Read(at("ca.pem"), at(c.holder+".pem"), at(c.holder+".key"))
			if err != nil {
				t.Fatal(err)
			}
			creds = credentials.NewTLS(f.ClientConfig("node"))
		}
		conn, err := grpc.NewClient(c.addr, grpc.WithTransportCredentials(creds), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // nothing is pending
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		health, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err != nil || health.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%s: health: %v, %v", c.what, health, err)
		}
		names, err := services(ctx, conn)
		if may := err == nil && slices.Contains(names, c.serves); may != (c.serves != "") {
			t.Errorf("%s: %v, %v", c.what, names, err)
		}
	}

	grpcurl := os.Getenv("GRPCURL")
	if grpcurl == "" {
		grpcurl = "grpcurl"
	}
	if _, err := exec.LookPath(grpcurl); err != nil {
		t.Log("grpcurl is not here: set GRPCURL to it (go build -modfile=.ci/grpcurl/go.mod github.com/fullstorydev/grpcurl/cmd/grpcurl)")
		return
	}
	tlsOf := func(name string) []string {
		return []string{"-cacert", strings.TrimPrefix(flags[0], "--tls-ca="), "-cert", at(name + ".pem"), "-key", at(name + ".key")}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append(tlsOf("node"), onSwitch, "list"), "p4.v1.P4Runtime"},
		{append(tlsOf("node"), onSwitch, "p4.v1.P4Runtime/Capabilities"), "p4runtimeApiVersion"},
		{append(tlsOf("node"), onSwitch, "describe", "p4.v1.TableEntry"), "TableAction action"},
		{append(tlsOf("node"), onSwitch, "gnmi.gNMI/Capabilities"), "openconfig-interfaces"},
		{append(tlsOf("node"), onSwitch, "grpc.health.v1.Health/Check"), "SERVING"},
		{append(tlsOf("h0"), onSwitch, "list"), "is for controller, operator"},
		{append(tlsOf("h0"), onSwitch, "grpc.health.v1.Health/Check"), "is for controller, operator"}, // it describes the call by reflection
		{[]string{"-plaintext", agents, "list"}, "ethereal.state.v1.FabricState"},
		{[]string{"-plaintext", agents, "describe", "ethereal.state.v1.FabricState"}, "Watch"},
	} {
		out, _ := exec.CommandContext(t.Context(), grpcurl, c.args...).CombinedOutput()
		if !strings.Contains(string(out), c.want) {
			t.Errorf("grpcurl %s:\n%s\nwant %q", strings.Join(c.args, " "), out, c.want)
		}
	}
}
