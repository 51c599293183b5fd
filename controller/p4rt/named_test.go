package p4rt

import (
	"context"
	"strings"
	"testing"

	p4config "github.com/p4lang/p4runtime/go/p4/config/v1"
	p4 "github.com/p4lang/p4runtime/go/p4/v1"
	"google.golang.org/grpc"
)

// nameless is a switch that was started with a program's JSON alone.
type nameless struct{ p4.P4RuntimeClient }

func (nameless) GetForwardingPipelineConfig(
	context.Context, *p4.GetForwardingPipelineConfigRequest, ...grpc.CallOption,
) (*p4.GetForwardingPipelineConfigResponse, error) {
	return &p4.GetForwardingPipelineConfigResponse{
		Config: &p4.ForwardingPipelineConfig{P4Info: &p4config.P4Info{}},
	}, nil
}

// TestNoNames: a switch without a P4Info gives no names, and the error says what to do.
func TestNoNames(t *testing.T) {
	_, err := NewNamedClient(t.Context(), nameless{}, 3)
	if err == nil || !strings.Contains(err.Error(), "start ethereal switch with --p4info FILE") {
		t.Errorf("%v", err)
	}
}
