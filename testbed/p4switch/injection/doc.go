// Package injection serves p4.bm.DataplaneInterface, which BMv2 calls packet injection: a client hands packets to a switch and
// takes what leaves, by port number, where there are no interfaces. It can take ports down and up.
//
//	s, err := injection.New(deviceID, numbers)
//	process.Config{Ports: ..., Links: s.Links()} // with a PortConfig for each of s.Ports()
//	err = s.Serve(ctx, listener)
//
// One client at a time has the packets. The id of a request does not come back with what leaves, which is 0 there: a packet
// may leave as several, or as none.
package injection
