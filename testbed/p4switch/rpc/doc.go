// Package rpc is what a switch's gRPC services have in common: the budget of
// what clients may ask for, held before and after a request is read
// ([Options], [Limit], [Budget]); errors with a gRPC code ([Errorf]); the
// queue between a core and a stream's reader ([Outbox]); and the loop that
// calls a core at its deadlines ([Clock]).
package rpc
