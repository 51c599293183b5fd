// Package introspect has what every gRPC server of the project serves beside its own services: the standard health
// service, and reflection, by which clients such as grpcurl learn the services without .proto files.
//
// Health says that the server serves, and stops saying so before it ends. Whether what it serves is ready to be relied on is
// another matter: a controller's /readyz says that.
package introspect

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
)

// Register adds health and reflection to a server whose own services are registered. Who may call them is in the table of
// package certs. The function that it returns is called before the server stops: watchers then learn that it no longer
// serves.
func Register(s *grpc.Server) (stopping func()) {
	h := health.NewServer()
	for name := range s.GetServiceInfo() {
		h.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	healthpb.RegisterHealthServer(s, h)
	reflection.Register(s)
	return h.Shutdown
}
