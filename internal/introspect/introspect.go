// Package introspect adds the standard health service and reflection to the project's gRPC servers. By reflection,
// clients such as grpcurl learn the services without .proto files.
//
// Health reports that the server serves, until just before the server ends. It does not report whether a controller
// is ready; the controller's /readyz does.
package introspect

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

// Register adds the gRPC services health and reflection to a server whose own services are registered. The table of
// package certs lists the roles that may call them. Call stopping before the server stops, to notify clients that watch
// its health.
func Register(s *grpc.Server) (stopping func()) {
	h := health.NewServer()
	for name := range s.GetServiceInfo() {
		h.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(s, h)
	reflection.Register(s)
	return h.Shutdown
}
