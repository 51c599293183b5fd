// Package injection serves p4.bm.DataplaneInterface, which BMv2 calls packet injection: a client hands packets to a switch and
// takes what leaves, by port number, where there are no interfaces. It can take ports down and up.
//
//	s, err := injection.New(deviceID, numbers)
//	process.Config{Ports: ..., Links: s.Links()} // with a PortConfig for each of s.Ports()
//	err = s.Serve(ctx, listener)
//
// One client at a time has the packets. All that leaves because of a request's packet, its clones and copies included, has
// the request's id. What leaves for another reason has the id 0.
package injection
