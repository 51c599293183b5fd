// Package rpc has the common parts of a switch's gRPC services: the limits on clients' requests, checked before and
// after a request is read ([Options], [LimitConnections], [Budget]); errors with a gRPC code ([Errorf]); the queue
// between a core and a stream's reader ([Outbox]); and the loop that calls a core at its deadlines ([Clock]).
package rpc
